"""All messages of one trace, as the function's log tells of them: what was sent, and what its handlers sent on."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from lanes.operate.event_words import words_of
from lanes.operate.events import event_of
from lanes.trace_context import TraceContext

if TYPE_CHECKING:
    from lanes.operate.events import Logs, Tale

TRACE_ID = re.compile(r"[0-9a-f]{32}")
XRAY_ID = re.compile(r"1-[0-9a-f]{8}-[0-9a-f]{24}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TracedMessage:
    """
    A message of a trace.

    Attributes:
        at: when the log first tells of it, in epoch seconds.
        lane: where it was at last.
        id: its own id, or what SQS calls a body that has none.
        kind: its kind.
        what: what happened to it at last, in a word or two.
        why: why or how.
    """

    at: float
    lane: str
    id: str
    kind: str
    what: str
    why: str


def trace_id_in(text: str) -> str | None:
    """Give the trace's id that somebody means, who may have it as such, in a `traceparent`, or as X-Ray writes it."""
    if TRACE_ID.fullmatch(text):
        return text
    if XRAY_ID.fullmatch(text):
        return text.removeprefix("1-").replace("-", "")
    trace = TraceContext.parse(text)
    return trace.trace_id if trace else None


def messages_of(trace_id: str, logs: Logs, *, since: float) -> list[TracedMessage]:
    """
    Return the messages of a trace, the first ones first.

    Args:
        trace_id: 32 hexadecimal digits.
        logs: the function's log.
        since: from when on the log is looked through, in epoch seconds.

    Raises:
        AwsError: the log can't be read.
    """
    tales: dict[str, list[Tale]] = {}
    events = (event_of(line) for line in logs.lines(since=since, containing=trace_id))
    for tale in (tale for event in events if event for tale in event.tales()):
        if tale.fields.get("trace_id") == trace_id:
            tales.setdefault(tale.message_id, []).append(tale)
    return sorted((_message(of_one) for of_one in tales.values()), key=lambda message: message.at)


def _message(tales: list[Tale]) -> TracedMessage:
    in_time = sorted(tales, key=lambda tale: tale.at)
    first, last = in_time[0], in_time[-1]
    what, why = words_of(last.event, last.fields)
    named = [tale for tale in tales if tale.id]
    return TracedMessage(
        at=first.at,
        lane=last.lane,
        id=named[0].id if named else first.message_id,
        kind=named[0].kind if named else "",
        what=what,
        why=why,
    )
