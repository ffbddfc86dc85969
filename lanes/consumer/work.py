"""What a record asks for: its handler and the handler's argument, its effect, its place in a trace."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from lanes.errors import MessageDecodeError
from lanes.message import Message
from lanes.trace_context import TraceContext
from lanes.values import value_type

if TYPE_CHECKING:
    from lanes.consumer.handlers import Handlers, Registered
    from lanes.consumer.records import RawRecord

TRACE_HEADER = "AWSTraceHeader"
"""AWS: the tracing header of X-Ray that SQS keeps beside a message of a traced sender (API_ReceiveMessage)."""


@value_type
class Work:
    """
    What a record asks for: the handler, its argument, the id of its effect, and where in a trace it was sent.

    `id` is the message's own; a raw body has that of SQS.
    """

    handler: Registered
    argument: Message | RawRecord
    id: str
    effect_id: str
    kind: str
    priority: int | None
    trace: TraceContext | None = None

    @property
    def trace_id(self) -> str | None:
        """The id of the trace that it belongs to."""
        return self.trace.trace_id if self.trace else None


def resolve(record: RawRecord, handlers: Handlers) -> Work:
    """
    Find out what a record asks for.

    Raises:
        MessageDecodeError: its body is no CloudEvent, and there is no handler for raw bodies.
        UnknownKindError: no handler is registered for its kind.

    """
    header = record.attributes.get(TRACE_HEADER)
    try:
        message = Message.from_body(record.body, group=record.group)
    except MessageDecodeError:
        if handlers.raw is None:
            raise
        return Work(
            handler=handlers.raw,
            # Its own copy: by the other one the consumer still knows the record when the handler is through with it.
            argument=dataclasses.replace(record),
            id=record.message_id,
            effect_id=record.message_id,
            kind="",
            priority=None,
            trace=TraceContext.of_xray_header(header),
        )
    return Work(
        handler=handlers.for_kind(message.kind),
        argument=message,
        id=message.id,
        # CloudEvents: source and id together are unique, an id alone is not.
        effect_id=f"{message.source}#{message.id}",
        kind=message.kind,
        priority=message.priority,
        trace=_trace(message.traceparent, header) if message.traceparent or header else None,
    )


def _trace(traceparent: str | None, header: str | None) -> TraceContext | None:
    """Return the place in a trace that the message names, or else its header."""
    return TraceContext.parse(traceparent) or TraceContext.of_xray_header(header)
