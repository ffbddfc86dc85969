"""The current status of a traced message, according to its events, the ledger and the outbox."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

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
