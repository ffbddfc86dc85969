"""
The timeline of one message, each receive with its cause, including those without an event; and its status in a line.

A message that is redriven, moved or sent again keeps its own id and gets a new message ID from SQS; each message ID is
a generation. A receive without an event was not reported: Lambda held the message while all slots were taken until its
visibility timeout ended (mapped engine), SQS's answer to a slot was lost (pull engine), or the process crashed.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from lanes.config import EngineName
from lanes.consumer.ledger import Ending
from lanes.events import Count, Event
from lanes.operate.descriptions import describe, format_seconds
from lanes.outbox.entry import EntryState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lanes.consumer.ledger import Entry
    from lanes.operate.audit import AuditEntry
    from lanes.operate.log import LogLine, MessageEvent
    from lanes.outbox.entry import Entry as OutboxEntry


class MessageStatus(NamedTuple):
    """
    The status of a message.

    Attributes:
        code: one word for programs, which stays the same when the text changes.
        text: a sentence or two for people.
    """

    code: str
    text: str


_FINAL: dict[str, MessageStatus] = {
    Event.MESSAGE_HANDLED: MessageStatus("done", "done"),
    Event.DUPLICATE_SKIPPED: MessageStatus("done", "done: it had been handled before"),
    Event.MESSAGE_CANCELLED: MessageStatus(
        "cancelled", "cancelled by an override, and deleted from its queue"
    ),
    Event.MESSAGE_EXPIRED: MessageStatus(
        "expired", "past its time (`expires`), and deleted from its queue; no handler got it"
    ),
    Event.MESSAGE_MOVED: MessageStatus("moved", "moved to another lane by an override; no event since"),
}
_COUNTS: dict[str, Count] = {event: event.counts for event in Event if event.counts is not None}
_LAST_ENDINGS = {
    Ending.STARTED: "an attempt began and has not ended: it runs, or its process died",
    Ending.FAILED: "an attempt failed",
    Ending.YIELDED: "it yielded to a higher lane",
    Ending.RETURNED: "it returned without an attempt",
    Ending.DONE: "it is done, and could not be deleted yet",
    Ending.CRASHED: "an attempt killed its process, and it waits for one alone",
}

_WITHOUT_EVENT: dict[EngineName | None, str] = {
    EngineName.MAPPINGS: "it waits in the queue, is held by the mapping for a slot, or is being handled",
    EngineName.PULL: "it waits in the queue, is in the hands of a slot, or is being handled",
    None: "it waits in the queue or for a slot, or is being handled",
}


def describe_status(
    generations: Mapping[str, Sequence[MessageEvent]],
    entries: Sequence[Entry],
    outbox: OutboxEntry | None,
    *,
    now: float,
    engine: EngineName | None = EngineName.MAPPINGS,
) -> MessageStatus:
    """Say in a sentence or two where the message is."""
    if generations:
        message_id, events = list(generations.items())[-1]
        code, text = _latest(message_id, events, entries, now=now, engine=engine)
        return MessageStatus(code, f"{text} ({_counts(events)})")
    if entries:
        latest = max(entries, key=lambda entry: entry.noted_at)
        code, text = _ledger(latest, now=now)
        return MessageStatus(code, f"the log has no event of it; {text}")
    if outbox is not None:
        return _in_outbox(outbox, now=now)
    return MessageStatus("unknown", "unknown")


def _latest(
    message_id: str,
    events: Sequence[MessageEvent],
    entries: Sequence[Entry],
    *,
    now: float,
    engine: EngineName | None,
) -> MessageStatus:
    decisive = [event for event in events if event.receive is not None or event.event in _FINAL]
    last = (decisive or events)[-1]
    if last.event == Event.MESSAGE_DEAD_LETTERED:
        text = f"in the dead-letter queue of {last.lane}, unless it was redriven or deleted"
        return MessageStatus("dead_lettered", text)
    if last.event in _FINAL:
        return _FINAL[last.event]
    entry = next((one for one in entries if one.message_id == message_id and one.lane == last.lane), None)
    # The ledger is written at once, and CloudWatch shows a line seconds later.
    if entry is not None and entry.noted_receive > (last.receive or 0):
        code, text = _ledger(entry, now=now)
        return MessageStatus(code, f"in {last.lane}; {text}")
    if entry is not None and entry.parked_until > now:
        text = f"in {last.lane}, parked for {format_seconds(entry.parked_until - now)} more"
        return MessageStatus("parked", text)
    visible_at = last.at + (last.delay or 0.0)
    # Woken records are visible before the delay of their yield ends.
    is_woken = any(event.event == Event.BATCH_WOKEN and event.at >= last.at for event in events)
    if visible_at > now and not is_woken:
        text = f"in {last.lane}, visible again in {format_seconds(visible_at - now)}"
        return MessageStatus("invisible", text)
    return MessageStatus("waiting", f"in {last.lane}: {_WITHOUT_EVENT[engine]}")


def _counts(events: Sequence[MessageEvent]) -> str:
    counted = Counter(_COUNTS[event.event] for event in events if event.event in _COUNTS)
    # The last failure is not an event of its own: the message is dead-lettered with the number of its attempts.
    attempts = [
        event.fields.get("attempts") for event in events if event.event == Event.MESSAGE_DEAD_LETTERED
    ]
    failed = [counted[Count.FAILED], *(one for one in attempts if isinstance(one, int))]
    counted[Count.FAILED] = max(failed)
    receives = max((event.receive or 0 for event in events), default=0)
    return ", ".join([f"receives {receives}", *(f"{one} {counted[one]}" for one in Count if counted[one])])


def _ledger(entry: Entry, *, now: float) -> MessageStatus:
    ending = _LAST_ENDINGS.get(entry.ending, "the last receive has no entry")
    ago = format_seconds(now - entry.noted_at)
    text = (
        f"the ledger of {entry.lane}, written {ago} ago at receive {entry.noted_receive}: {ending}; "
        f"failed attempts {entry.attempts}, yields {entry.yields}, returns {entry.returns}"
    )
    return MessageStatus("started" if entry.ending is Ending.STARTED else "waiting", text)


def _in_outbox(entry: OutboxEntry, *, now: float) -> MessageStatus:
    if entry.state is EntryState.PUBLISHED:
        ago = format_seconds(now - (entry.published_at or now))
        text = f"published to {entry.lane} {ago} ago; the consumer has logged no event of it yet"
        return MessageStatus("published", text)
    failed = f", last error: {entry.last_error}" if entry.last_error else ""
    text = f"in the outbox, {entry.state.value}, for {entry.lane}; failed attempts {entry.attempts}{failed}"
    return MessageStatus("in_outbox", text)


SHORTEST_WAIT = 1.0
"""Seconds in a queue that are worth a word."""
# The redriven message may wait behind a backlog before its first event.
REDRIVE_REACH = 24 * 3600.0
"""Seconds after the start of a redrive in which a new generation may come from it."""
ATTEMPT_ENDED = frozenset({Event.MESSAGE_FAILED, Event.GROUP_BLOCKED, Event.MESSAGE_DEAD_LETTERED})
CLOCKS_DIFFER = 5.0
"""Seconds by which the clocks of SQS, of the function and of the operator may differ."""
PAUSES: dict[str, str] = {
    Event.MESSAGE_FAILED: "its backoff ended",
    Event.GROUP_BLOCKED: "its backoff ended",
    Event.BATCH_YIELDED: "its parking ended",
    Event.TENANT_YIELDED: "its parking ended",
}
ORIGINS: dict[str, str] = {
    Event.MESSAGE_MOVED: ", by the override",
}


UNSEEN: dict[EngineName | None, tuple[str, str, str]] = {
    EngineName.MAPPINGS: (
        "throttled",
        "throttled",
        "never reached the function: Lambda held it for a slot until its visibility timeout ended",
    ),
    EngineName.PULL: (
        "not_reported",
        "not reported",
        "SQS gave it to a slot that did not get it, or that ended before it",
    ),
    None: (
        "not_reported",
        "not reported",
        "held by Lambda while all slots were taken, or given to a slot that did not get it",
    ),
}
"""Code, label and reason of a receive without an event, by engine; None if the engine is unknown."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """
    One line of a timeline.

    Attributes:
        at: epoch seconds.
        lane: the lane's name, empty before it has one.
        code: name of its event, or of a step without an event; it stays the same.
        what: the event's label.
        why: its reason.
        message_id: the message ID of SQS in this generation.
        receive: number of the receive, or of the receives; empty if it was none.
        is_seen: whether an event reports the step; if not, `at` is the earliest time possible.
    """

    at: float
    lane: str
    code: str
    what: str
    why: str
    message_id: str = ""
    receive: str = ""
    is_seen: bool = True


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """
    The data about a message.

    Attributes:
        events: its events in the log, in any order.
        entries: its ledger entries.
        outbox: the outbox entry that it came from.
        audits: changes by operators.
        crashes: log lines in which Lambda reports an invocation that ended without an answer.
        since: start of the log that was read, in epoch seconds.
        now: the time.
        engine: the engine of the consumer; None if it is unknown.
    """

    events: Sequence[MessageEvent] = ()
    entries: Sequence[Entry] = ()
    outbox: OutboxEntry | None = None
    audits: Sequence[AuditEntry] = ()
    crashes: Sequence[LogLine] = ()
    since: float
    now: float
    engine: EngineName | None = EngineName.MAPPINGS


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """
    The history of a message.

    Attributes:
        wanted: the id that was asked for.
        id: the message's own id.
        kind: its kind.
        group: its group.
        message_ids: its message IDs of SQS, in order; several if it was redriven, moved or sent again.
        steps: the timeline.
        code: where it is now, in one word for programs.
        status: the same in a sentence or two.
        is_known: whether any source knows the message.
    """

    wanted: str
    id: str
    kind: str
    group: str
    message_ids: Sequence[str]
    steps: Sequence[Step]
    code: str
    status: str
    is_known: bool


def build_trace(wanted: str, sources: Sources) -> Trace:
    """Assemble the history of a message."""
    generations = {
        message_id: _without_repeats(events) for message_id, events in by_generation(sources.events).items()
    }
    steps = _outbox_steps(sources.outbox)
    before: MessageEvent | None = None
    for message_id, events in generations.items():
        steps += _Generation(message_id, events, sources, before=before).steps()
        before = events[-1]
    entries = [entry.message_id for entry in sources.entries]
    outbox = sources.outbox
    status = describe_status(generations, sources.entries, outbox, now=sources.now, engine=sources.engine)
    return Trace(
        wanted=wanted,
        id=_first(sources.events, "id") or (outbox.id if outbox else ""),
        kind=_first(sources.events, "kind") or (outbox.kind if outbox else ""),
        group=_first(sources.events, "group") or ((outbox.group if outbox else None) or ""),
        message_ids=list(dict.fromkeys([*generations, *entries])),
        steps=sorted(steps, key=lambda step: step.at),
        code=status.code,
        status=status.text,
        is_known=bool(generations or sources.entries or outbox),
    )


def by_generation(events: Iterable[MessageEvent]) -> dict[str, list[MessageEvent]]:
    """Return the events in order, by message ID; the generations are in the order of their first events."""
    generations: dict[str, list[MessageEvent]] = {}
    for event in sorted(events, key=lambda event: (event.at, event.receive or 0)):
        generations.setdefault(event.message_id, []).append(event)
    return generations


def _without_repeats(events: Sequence[MessageEvent]) -> list[MessageEvent]:
    """Leave out a handler's exception if the end of its attempt, which repeats it, is there as well."""
    ended_at = max((event.at for event in events if event.event in ATTEMPT_ENDED), default=float("-inf"))
    return [event for event in events if event.event != Event.HANDLER_FAILED or event.at > ended_at]


def _first(events: Iterable[MessageEvent], name: str) -> str:
    """Return the first value of an attribute; events of a single message, which has been decoded, come first."""
    # A batch's event names records that were not opened, with the deduplication id where the body has no id.
    ordered = sorted(events, key=lambda event: "messages" in event.fields)
    return next((str(found) for event in ordered if (found := getattr(event, name))), "")


def _outbox_steps(entry: OutboxEntry | None) -> list[Step]:
    if entry is None:
        return []
    written = Step(
        at=entry.created_at,
        lane=entry.lane,
        code="outbox_written",
        what="written",
        why=f"to the outbox with priority {entry.priority}",
    )
    if entry.published_at is None:
        return [written]
    delay = format_seconds(entry.published_at - entry.created_at)
    why = f"by the outbox's relay, {delay} after it was written"
    published = Step(
        at=entry.published_at, lane=entry.lane, code="outbox_published", what="published", why=why
    )
    return [written, published]


class _Generation:
    """One generation of a message, from its sending to its last receive."""

    def __init__(
        self,
        message_id: str,
        events: Sequence[MessageEvent],
        sources: Sources,
        *,
        before: MessageEvent | None,
    ) -> None:
        self._message_id = message_id
        self._events = events
        self._sources = sources
        self._before = before
        self._reported = {event.receive for event in events if event.receive is not None}
        sent = [float(event.fields["sent_at"]) for event in events if "sent_at" in event.fields]
        self._sent_at = min(sent, default=None)
        self._visible_at, self._visible_since = self._sent_at, "it was sent"
        self._receive = 0
        self._seen_at = self._sent_at if self._sent_at is not None else sources.since

    def steps(self) -> list[Step]:
        """Return its steps in order."""
        steps = [] if self._sent_at is None else [self._sending(self._sent_at)]
        for event in self._events:
            steps += self._unseen(event)
            steps.append(self._seen(event))
            self._advance(event)
        return steps

    def _sending(self, at: float) -> Step:
        lane = self._events[0].lane
        return self._step(at=at, lane=lane, code="sent", what="sent", why=f"to {lane}{self._origin(at)}")

    def _origin(self, at: float) -> str:
        """Explain a later generation."""
        if self._before is None:
            return ""
        # Known from the last generation itself; the audit trail can only name a redrive of the same time.
        if self._before.event in ORIGINS:
            return ORIGINS[self._before.event]
        for entry in self._sources.audits:
            is_near = entry.at - CLOCKS_DIFFER <= at <= entry.at + REDRIVE_REACH
            if is_near and entry.action == "dead-letters redrive" and entry.target == self._events[0].lane:
                return f" again, while {entry.who} redrove dead letters"
        return " again: redriven by other means, or sent again with the same id"

    def _unseen(self, event: MessageEvent) -> list[Step]:
        """Return a step for the receives before this one that have no event."""
        if event.receive is None:
            return []
        missing = [
            number for number in range(self._receive + 1, event.receive) if number not in self._reported
        ]
        if not missing:
            return []
        at = self._visible_at if self._visible_at is not None else self._sources.since
        numbers = str(missing[0]) if len(missing) == 1 else f"{missing[0]} to {missing[-1]}"
        code, what, why = self._why_unseen(event)
        return [
            self._step(
                # The clocks of SQS and of the function differ, and a step must not follow the one that it explains.
                at=min(at, event.at),
                lane=event.lane,
                code=code,
                what=what,
                why=why,
                receive=numbers,
                is_seen=False,
            )
        ]

    def _why_unseen(self, event: MessageEvent) -> tuple[str, str, str]:
        # Older lines were not read, so a missing event proves nothing.
        if self._receive == 0 and (self._sent_at is None or self._sent_at < self._sources.since):
            why = "before the start of the log that was read (--since), or never by the function"
            return "not_seen", "not seen", why
        crashes = [line for line in self._sources.crashes if self._seen_at <= line.at <= event.at]
        if crashes:
            ended = " ".join(crashes[-1].text.split())[-80:]
            return (
                "crash_suspected",
                "crashed?",
                f'an invocation ended in this time without an answer: "...{ended}"',
            )
        return UNSEEN[self._sources.engine]

    def _seen(self, event: MessageEvent) -> Step:
        what, why = describe(event.event, event.fields)
        if event.receive is not None:
            why += self._waited(event)
        receive = "" if event.receive is None else str(event.receive)
        return self._step(at=event.at, lane=event.lane, code=event.event, what=what, why=why, receive=receive)

    def _waited(self, event: MessageEvent) -> str:
        begun = float(event.fields.get("started_at") or event.at)
        waited = None if self._visible_at is None else begun - self._visible_at
        if waited is None or waited < SHORTEST_WAIT:
            return ""
        return f"; it had waited {format_seconds(waited)} since {self._visible_since}"

    def _advance(self, event: MessageEvent) -> None:
        if event.receive is not None:
            self._receive = max(self._receive, event.receive)
        self._seen_at = max(self._seen_at, event.at)
        if event.event == Event.BATCH_WOKEN:
            self._visible_at, self._visible_since = event.at, "it was woken"
        elif event.delay is not None:
            self._visible_at = event.at + event.delay
            self._visible_since = PAUSES.get(event.event, "it became visible again")

    def _step(
        self,
        *,
        at: float,
        lane: str,
        code: str,
        what: str,
        why: str,
        receive: str = "",
        is_seen: bool = True,
    ) -> Step:
        return Step(
            at=at,
            lane=lane,
            code=code,
            what=what,
            why=why,
            message_id=self._message_id,
            receive=receive,
            is_seen=is_seen,
        )
