"""
Read about one message, or those of one trace: first from the log, then from the ledger, the outbox, the audit trail.

Only the log is required. If another source cannot be read, the trace goes without it, and a note says so.
"""

from __future__ import annotations

import dataclasses
import re
import time
from typing import TYPE_CHECKING, TypeVar

from lanes.errors import AwsError
from lanes.operate.descriptions import describe
from lanes.operate.log import read_event
from lanes.operate.trace import Sources, Trace, build_trace, by_generation
from lanes.trace_context import TraceContext

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.config import LanesConfig
    from lanes.consumer.ledger import Entry
    from lanes.operate.audit import AuditEntry, AuditTrail
    from lanes.operate.log import LogLine, Logs, MessageEvent
    from lanes.outbox.entry import Entry as OutboxEntry

    T = TypeVar("T")

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


MAX_IDS = 20
"""Ids to search for: the message's own, and its message ID in each generation."""
MAX_AUDITS = 1000
# AWS: how Lambda's log reports an invocation without an answer (Lambda developer guide, "Troubleshoot execution").
NO_ANSWER = ("Task timed out", "Runtime exited")
# AWS: Lambda reports an init that fails, as text or JSON (Lambda developer guide, "Failures during the Init phase").
STARTS = ("INIT_REPORT ", "platform.initReport", "Init failed: ")
_FAILED_START = re.compile(
    r'^Init failed: |^INIT_REPORT .*Status: (?!success)|"platform\.initReport".*"status": ?"(?!success)'
)


class Tracer:
    """
    Traces messages.

    Args:
        config: the lanes.
        logs: the function's log.
        ledger: reads the entries of a lane by message ids; None without a ledger.
        audit: the audit trail; None without one.
        outbox: finds an entry of the stack's outbox by its id and group; None without an outbox.
        note: receives a note about each source that could not be read.
        is_deployed: whether `config` is that of the deployment that wrote the log; otherwise its engine is unknown.
        clock: epoch seconds.
    """

    def __init__(
        self,
        *,
        config: LanesConfig,
        logs: Logs,
        ledger: Callable[[str, Sequence[str]], Mapping[str, Entry]] | None,
        audit: AuditTrail | None,
        outbox: Callable[[str, str], OutboxEntry | None] | None,
        note: Callable[[str], None],
        is_deployed: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._config = config
        self._logs = logs
        self._ledger = ledger
        self._audit = audit
        self._outbox = outbox
        self._note = note
        self._engine = config.consumer.engine if is_deployed else None
        self._clock = clock

    def trace(self, wanted: str, *, since: float) -> Trace:
        """
        Return the history of a message.

        Args:
            wanted: its own id, or its message ID in one of its generations.
            since: start of the log to read, in epoch seconds.

        Raises:
            AwsError: the log could not be read.
        """
        events = self._events(wanted, since=since)
        generations = by_generation(events)
        own_id = next((event.id for event in events if event.id), wanted)
        group = next((event.group for event in events if event.group), "")
        sources = Sources(
            events=events,
            entries=self._entries(list(dict.fromkeys([*generations, wanted]))),
            outbox=self._outbox_entry(own_id, group),
            audits=self._audits(since) if len(generations) > 1 else (),
            crashes=self._crashes(events, since=since),
            since=since,
            now=self._clock(),
            engine=self._engine,
        )
        return build_trace(wanted, sources)

    def messages_of(self, trace_id: str, *, since: float) -> list[TracedMessage]:
        """
        Return the messages of a trace that handlers have received, in order.

        Args:
            trace_id: 32 hexadecimal digits.
            since: start of the log to read, in epoch seconds.

        Raises:
            AwsError: the log could not be read.
        """
        return messages_of(trace_id, self._logs, since=since)

    def failed_starts(self, *, since: float) -> list[LogLine]:
        """Return the lines about starts of the function that failed: until one succeeds, no message has an event."""
        lines = self._logs.lines(since=since, containing=STARTS)
        return sorted((line for line in lines if _FAILED_START.search(line.text)), key=lambda line: line.at)

    def _events(self, wanted: str, *, since: float) -> list[MessageEvent]:
        """Search for the id, then for the other ids of each event that was found."""
        found: dict[tuple[str, str], MessageEvent] = {}
        searched: set[str] = set()
        pending = [wanted]
        while pending and len(searched) < MAX_IDS:
            one = pending.pop(0)
            searched.add(one)
            for event, line_id in self._naming(one, since=since):
                found[line_id, event.message_id] = event
                # A redriven message has a new message ID, and events from before its decoding have no other.
                pending += [other for other in _ids(event) if other not in searched and other not in pending]
        return list(found.values())

    def _naming(self, one: str, *, since: float) -> list[tuple[MessageEvent, str]]:
        events = (read_event(line) for line in self._logs.lines(since=since, containing=(one,)))
        return [
            (of_message, event.line.id)
            for event in events
            if event
            for of_message in event.by_message()
            if one in _ids(of_message)
        ]

    def _entries(self, message_ids: Sequence[str]) -> list[Entry]:
        if (read := self._ledger) is None:
            return []
        lanes = self._config.lanes
        found = self._or_none(lambda: [read(lane.name, message_ids) for lane in lanes], "the ledger")
        return [entry for of_lane in found or () for entry in of_lane.values()]

    def _outbox_entry(self, own_id: str, group: str) -> OutboxEntry | None:
        find = self._outbox
        return None if find is None else self._or_none(lambda: find(own_id, group), "the outbox")

    def _audits(self, since: float) -> Sequence[AuditEntry]:
        if (audit := self._audit) is None:
            return ()
        found = self._or_none(lambda: audit.entries(since=since, limit=MAX_AUDITS), "the audit trail")
        return found or ()

    def _crashes(self, events: Sequence[MessageEvent], *, since: float) -> list[LogLine]:
        """Search for invocations without an answer, if a receive of the message has no event."""
        generations = by_generation(events).values()
        receives = [
            {event.receive for event in generation if event.receive is not None} for generation in generations
        ]
        # The search reads the whole log, so it is made only if a receive is unexplained.
        if not any(reported and max(reported) > len(reported) for reported in receives):
            return []
        until = max(event.at for event in events)
        found = self._logs.lines(since=since, until=until, containing=NO_ANSWER)
        lines = [line for line in found if any(text in line.text for text in NO_ANSWER)]
        return sorted(lines, key=lambda line: line.at)

    def _or_none(self, read: Callable[[], T], source: str) -> T | None:
        try:
            return read()
        except AwsError as error:
            self._note(f"{source} could not be read: {error}")
            return None


def _ids(event: MessageEvent) -> tuple[str, ...]:
    return tuple(one for one in (event.message_id, event.id) if one)
