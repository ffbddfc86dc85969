"""All messages of one trace in the function's log: the first message, and the messages that its handlers sent."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from lanes.operate.history.descriptions import describe
from lanes.operate.history.log import read_event
from lanes.trace_context import TraceContext

if TYPE_CHECKING:
    from lanes.operate.history.log import Logs, MessageEvent

TRACE_ID = re.compile(r"[0-9a-f]{32}")
XRAY_ID = re.compile(r"1-[0-9a-f]{8}-[0-9a-f]{24}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TracedMessage:
    """
    A message of a trace.

    Attributes:
        at: time of its first event, in epoch seconds.
        lane: the lane of its last event.
        id: its own id; the message ID of SQS if its body has none.
        kind: its kind.
        code: name of its last event.
        what: label of its last event.
        why: reason of its last event.
    """

    at: float
    lane: str
    id: str
    kind: str
    code: str
    what: str
    why: str


def trace_id_in(text: str) -> str | None:
    """Return the trace id in a text: as such, in a `traceparent`, or in the format of X-Ray."""
    if TRACE_ID.fullmatch(text):
        return text
    if XRAY_ID.fullmatch(text):
        return text.removeprefix("1-").replace("-", "")
    trace = TraceContext.parse(text)
    return trace.trace_id if trace else None


def messages_of(trace_id: str, logs: Logs, *, since: float) -> list[TracedMessage]:
    """
    Return the messages of a trace in order.

    Args:
        trace_id: 32 hexadecimal digits.
        logs: the function's log.
        since: start of the log to read, in epoch seconds.

    Raises:
        AwsError: the log could not be read.
    """
    by_message: dict[str, list[MessageEvent]] = {}
    events = (read_event(line) for line in logs.lines(since=since, containing=(trace_id,)))
    for one in (one for event in events if event for one in event.by_message()):
        # CloudWatch finds the id anywhere in a line, also in an error's text.
        if one.fields.get("trace_id") == trace_id:
            by_message.setdefault(one.message_id, []).append(one)
    return sorted((_message(events) for events in by_message.values()), key=lambda message: message.at)


def _message(events: list[MessageEvent]) -> TracedMessage:
    in_order = sorted(events, key=lambda event: event.at)
    first, last = in_order[0], in_order[-1]
    what, why = describe(last.event, last.fields)
    named = [event for event in events if event.id]
    return TracedMessage(
        at=first.at,
        lane=last.lane,
        id=named[0].id if named else first.message_id,
        kind=named[0].kind if named else "",
        code=last.event,
        what=what,
        why=why,
    )
