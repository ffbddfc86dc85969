"""Where a traced message is now, as far as its events, the ledger and the outbox tell."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lanes.consumer.ledger import Ending
from lanes.operate.event_words import seconds
from lanes.outbox.entry import EntryState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lanes.consumer.ledger import Entry
    from lanes.operate.events import Tale
    from lanes.outbox.entry import Entry as OutboxEntry

_ENDED = {
    "message_handled": "done",
    "duplicate_skipped": "done: it had been handled before",
    "message_cancelled": "cancelled by an override; it is in no queue any more",
    "message_moved": "sent on to another lane by an override; nothing was heard of it there yet",
    "message_sent_behind": "sent to the end of its group; nothing was heard of it since",
}
_COUNTED = (
    ("message_handled", "handled"),
    ("message_failed", "failed"),
    ("batch_yielded", "yielded"),
    ("batch_returned", "returned"),
    ("message_dead_lettered", "dead-lettered"),
)
_LEDGER_SAYS = {
    Ending.STARTED: "an attempt began and nothing was heard of it since: it runs, or its process died",
    Ending.FAILED: "an attempt failed",
    Ending.YIELDED: "it made way for a higher lane",
    Ending.RETURNED: "it went back untouched",
}


def standing_of(
    lives: Mapping[str, Sequence[Tale]], entries: Sequence[Entry], outbox: OutboxEntry | None, *, now: float
) -> str:
    """Say in a sentence or two where the message is."""
    if lives:
        message_id, tales = list(lives.items())[-1]
        return f"{_last_of(message_id, tales, entries, now=now)} ({_counts(tales)})"
    if entries:
        latest = max(entries, key=lambda entry: entry.noted_at)
        return f"the log tells nothing of it; {_ledger(latest, now=now)}"
    if outbox is not None:
        return _in_outbox(outbox, now=now)
    return "unknown"


def _last_of(message_id: str, tales: Sequence[Tale], entries: Sequence[Entry], *, now: float) -> str:
    last = [tale for tale in tales if tale.receive is not None or tale.event in _ENDED][-1:] or tales[-1:]
    tale = last[0]
    if tale.event == "message_dead_lettered":
        return f"in the dead-letter queue of {tale.lane}, unless it was redriven or deleted"
    if tale.event in _ENDED:
        return _ENDED[tale.event]
    entry = next((one for one in entries if one.message_id == message_id and one.lane == tale.lane), None)
    if entry is not None and entry.noted_receive > (tale.receive or 0):
        return f"in {tale.lane}; {_ledger(entry, now=now)}"
    if entry is not None and entry.parked_until > now:
        return f"in {tale.lane}, invisible on purpose for {seconds(entry.parked_until - now)} more"
    delay = tale.fields.get("delay")
    back_at = tale.at + delay if isinstance(delay, int | float) else tale.at
    woken = any(one.event == "batch_woken" and one.at >= tale.at for one in tales)
    if back_at > now and not woken:
        return f"in {tale.lane}, back in {seconds(back_at - now)}"
    return (
        f"in {tale.lane}: it waits for its turn, is held by the mapping for a slot, or is being handled now"
    )


def _counts(tales: Sequence[Tale]) -> str:
    counted = Counter(tale.event for tale in tales)
    receives = max((tale.receive or 0 for tale in tales), default=0)
    parts = [f"{word} {counted[event]}" for event, word in _COUNTED if counted[event]]
    return ", ".join([f"receives {receives}", *parts])


def _ledger(entry: Entry, *, now: float) -> str:
    said = _LEDGER_SAYS.get(entry.ending, "nothing is noted of its last receive")
    ago = seconds(now - entry.noted_at)
    return (
        f"the ledger of {entry.lane} says, {ago} ago at receive {entry.noted_receive}: {said}; "
        f"failed attempts {entry.attempts}, yields {entry.yields}, returns {entry.returns}"
    )


def _in_outbox(entry: OutboxEntry, *, now: float) -> str:
    if entry.state is EntryState.PUBLISHED:
        ago = seconds(now - (entry.published_at or now))
        return f"published to {entry.lane} {ago} ago; the consumer has said nothing of it yet"
    failed = f", last error: {entry.last_error}" if entry.last_error else ""
    return f"in the outbox, {entry.state.value}, for {entry.lane}; failed attempts {entry.attempts}{failed}"
