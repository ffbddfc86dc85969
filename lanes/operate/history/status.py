"""The current status of a traced message, according to its events, the ledger and the outbox."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lanes.config import EngineName
from lanes.consumer.ledger import Ending
from lanes.events import Count, Event
from lanes.operate.history.descriptions import format_seconds
from lanes.outbox.entry import EntryState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lanes.consumer.ledger import Entry
    from lanes.operate.history.log import MessageEvent
    from lanes.outbox.entry import Entry as OutboxEntry

_FINAL: dict[str, str] = {
    Event.MESSAGE_HANDLED: "done",
    Event.DUPLICATE_SKIPPED: "done: it had been handled before",
    Event.MESSAGE_CANCELLED: "cancelled by an override, and deleted from its queue",
    Event.MESSAGE_MOVED: "moved to another lane by an override; no event since",
    Event.MESSAGE_SENT_BEHIND: "sent to the end of its group; no event since",
}
_COUNTS: dict[str, Count] = {event: event.counts for event in Event if event.counts is not None}
_LAST_ENDINGS = {
    Ending.STARTED: "an attempt began and has not ended: it runs, or its process died",
    Ending.FAILED: "an attempt failed",
    Ending.YIELDED: "it yielded to a higher lane",
    Ending.RETURNED: "it returned without an attempt",
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
) -> str:
    """Say in a sentence or two where the message is."""
    if generations:
        message_id, events = list(generations.items())[-1]
        return f"{_latest(message_id, events, entries, now=now, engine=engine)} ({_counts(events)})"
    if entries:
        latest = max(entries, key=lambda entry: entry.noted_at)
        return f"the log has no event of it; {_ledger(latest, now=now)}"
    if outbox is not None:
        return _in_outbox(outbox, now=now)
    return "unknown"


def _latest(
    message_id: str,
    events: Sequence[MessageEvent],
    entries: Sequence[Entry],
    *,
    now: float,
    engine: EngineName | None,
) -> str:
    decisive = [event for event in events if event.receive is not None or event.event in _FINAL]
    last = (decisive or events)[-1]
    if last.event == Event.MESSAGE_DEAD_LETTERED:
        return f"in the dead-letter queue of {last.lane}, unless it was redriven or deleted"
    if last.event in _FINAL:
        return _FINAL[last.event]
    entry = next((one for one in entries if one.message_id == message_id and one.lane == last.lane), None)
    # The ledger is written at once, and CloudWatch shows a line seconds later.
    if entry is not None and entry.noted_receive > (last.receive or 0):
        return f"in {last.lane}; {_ledger(entry, now=now)}"
    if entry is not None and entry.parked_until > now:
        return f"in {last.lane}, parked for {format_seconds(entry.parked_until - now)} more"
    visible_at = last.at + (last.delay or 0.0)
    # Woken records are visible before the delay of their yield ends.
    is_woken = any(event.event == Event.BATCH_WOKEN and event.at >= last.at for event in events)
    if visible_at > now and not is_woken:
        return f"in {last.lane}, visible again in {format_seconds(visible_at - now)}"
    return f"in {last.lane}: {_WITHOUT_EVENT[engine]}"


def _counts(events: Sequence[MessageEvent]) -> str:
    counted = Counter(_COUNTS[event.event] for event in events if event.event in _COUNTS)
    receives = max((event.receive or 0 for event in events), default=0)
    return ", ".join([f"receives {receives}", *(f"{one} {counted[one]}" for one in Count if counted[one])])


def _ledger(entry: Entry, *, now: float) -> str:
    ending = _LAST_ENDINGS.get(entry.ending, "the last receive has no entry")
    ago = format_seconds(now - entry.noted_at)
    return (
        f"the ledger of {entry.lane}, written {ago} ago at receive {entry.noted_receive}: {ending}; "
        f"failed attempts {entry.attempts}, yields {entry.yields}, returns {entry.returns}"
    )


def _in_outbox(entry: OutboxEntry, *, now: float) -> str:
    if entry.state is EntryState.PUBLISHED:
        ago = format_seconds(now - (entry.published_at or now))
        return f"published to {entry.lane} {ago} ago; the consumer has logged no event of it yet"
    failed = f", last error: {entry.last_error}" if entry.last_error else ""
    return f"in the outbox, {entry.state.value}, for {entry.lane}; failed attempts {entry.attempts}{failed}"
