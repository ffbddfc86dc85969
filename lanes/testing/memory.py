"""The consumer's dependencies in memory: queues after the documented model, the table and the slot table."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections import defaultdict
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from lanes.bell import BODY
from lanes.consumer.engines.presence import Presence, PresenceSnapshot
from lanes.consumer.ledger import Claim, Effect, Entry
from lanes.consumer.records import RawRecord
from lanes.depth import LaneDepth
from lanes.testing.event import event_entry
from lanes.testing.fifo.errors import FifoQueueError
from lanes.testing.fifo.queue import FifoQueue, random_message_id
from lanes.testing.fifo.settings import FifoSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.bell import Ring
    from lanes.config import LanesConfig
    from lanes.consumer.settlement import DeadLetterNote, VisibilityChange
    from lanes.testing.calls import Calls


LONG_AGO = 3_600.0
"""Seconds after which ended parkings are dropped: no reader asks for them."""


class MemoryQueues:
    """The lanes' queues and dead-letter queues."""

    def __init__(
        self,
        config: LanesConfig,
        clock: Callable[[], float],
        calls: Calls,
        *,
        native: int | None,
        new_message_id: Callable[[], str] = random_message_id,
    ) -> None:
        self.calls = calls
        self.dead: dict[str, FifoQueue] = {}
        self.live: dict[str, FifoQueue] = {}
        self.notes: dict[str, DeadLetterNote] = {}
        for lane in config.lanes:
            dead = FifoQueue(
                clock, name=f"{lane.name}-dead", settings=FifoSettings(retention=timedelta(days=14))
            )
            self.dead[lane.name] = dead
            self.live[lane.name] = FifoQueue(
                clock,
                name=lane.name,
                handle_prefix=lane.name,
                dead_letter_queue=dead,
                new_message_id=new_message_id,
                settings=FifoSettings(
                    visibility_timeout=lane.visibility_timeout,
                    retention=timedelta(days=14),
                    deduplicate_by_group=True,
                    max_receive_count=native,
                ),
            )

    def depth(self, lane: str) -> LaneDepth:
        """Return exact counts."""
        with self.calls.make("GetQueueAttributes"):
            counts = self.live[lane].counts()
            return LaneDepth(backlog=counts.visible, in_flight=counts.not_visible)

    def receive(self, lane: str, *, maximum: int, visibility: int, wait: int) -> list[RawRecord]:  # noqa: ARG002
        """Receive up to ten records that are here now; a long poll ends at once too, since time is the caller's."""
        with self.calls.make("ReceiveMessage"):
            return self.taken(lane, maximum=maximum, visibility=visibility)

    def taken(self, lane: str, *, maximum: int, visibility: int) -> list[RawRecord]:
        """Take records out of a lane's queue."""
        received = self.live[lane].receive(maximum, visibility_timeout=timedelta(seconds=visibility))
        return [RawRecord.from_event(event_entry(lane, message)) for message in received]

    def delete(self, lane: str, records: Sequence[RawRecord]) -> list[str]:
        """Delete records; return the ids that were refused."""
        refused = []
        for start in range(0, len(records), 10):
            with self.calls.make("DeleteMessageBatch"):
                for record in records[start : start + 10]:
                    try:
                        self.live[lane].delete(record.receipt_handle)
                    except FifoQueueError:
                        refused.append(record.message_id)
        return refused

    def change_visibility(self, lane: str, changes: Sequence[VisibilityChange]) -> list[str]:
        """Change visibilities; return the ids that were refused."""
        refused = []
        for start in range(0, len(changes), 10):
            with self.calls.make("ChangeMessageVisibilityBatch"):
                for change in changes[start : start + 10]:
                    try:
                        self.live[lane].change_visibility(
                            change.receipt_handle, timedelta(seconds=change.seconds)
                        )
                    except FifoQueueError:
                        refused.append(change.message_id)
        return refused

    def dead_letter(self, lane: str, record: RawRecord, note: DeadLetterNote) -> None:
        """Put the body into the dead-letter queue."""
        with self.calls.make("SendMessage"):
            sent = self.dead[lane].send(
                record.body,
                group=record.group,
                deduplication_id=f"{record.message_id}-{record.first_received_at}",
                attributes={
                    **dataclasses.asdict(note),
                    "message_id": record.message_id,
                    "deduplication_id": record.deduplication_id,
                },
            )
            if not sent.is_duplicate:
                self.notes[record.message_id] = note

    def remove(self, lane: str, record: RawRecord) -> None:
        """Take a record out of its lane."""
        with suppress(FifoQueueError), self.calls.make("DeleteMessage"):
            self.live[lane].delete(record.receipt_handle)

    def ring(self, lane: str, rings: Sequence[Ring]) -> None:
        """Send rings to a lane's own queue."""
        with self.calls.make("SendMessageBatch"):
            for ring in rings:
                self.live[lane].send(BODY, group=ring.group, deduplication_id=ring.deduplication_id)

    def forward(self, lane: str, record: RawRecord, *, body: str, deduplication_id: str) -> None:
        """Send a record's body to a lane."""
        with self.calls.make("SendMessage"):
            self.live[lane].send(
                body,
                group=record.group,
                deduplication_id=deduplication_id,
                attributes=dict(record.message_attributes),
            )


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryEffect:
    """An effect in the table; a time of 0 means not set."""

    owner: str
    owned_until: float = 0.0
    done_until: float = 0.0
    done_in: str = ""
    done_at: float = 0.0


class MemoryLedger:
    """The table."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.entries: dict[tuple[str, str], Entry] = {}
        self._parks: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
        self._numbers = itertools.count()
        self.effects: dict[str, MemoryEffect] = {}
        self.rates: dict[str, str] = {}

    def read(self, lane: str, message_ids: Sequence[str]) -> Mapping[str, Entry]:
        """Return the existing entries."""
        with self.calls.make("BatchGetItem"):
            return {key: self.entries[lane, key] for key in message_ids if (lane, key) in self.entries}

    def note(self, entries: Sequence[Entry]) -> None:
        """Put the entries."""
        if len(entries) == 1:
            self.amend(entries)
            return
        with self.calls.make("BatchWriteItem"):
            for entry in entries:
                self._put(entry)

    def _put(self, entry: Entry) -> None:
        self.entries[entry.lane, entry.message_id] = entry
        if entry.park is not None:
            park = (entry.parked_until, next(self._numbers), entry.message_id)
            bisect.insort(self._parks[entry.lane], park)

    def amend(self, entries: Sequence[Entry]) -> None:
        """Put the entries that are not outdated."""
        for entry in entries:
            with self.calls.make("PutItem"):
                known = self.entries.get((entry.lane, entry.message_id))
                if known is None or not entry.is_outdated_by(known):
                    self._put(entry)

    def unpark(self, entries: Sequence[Entry]) -> bool:
        """Unpark all or none."""
        with self.calls.make("TransactWriteItems"):
            stored = [self.entries.get((entry.lane, entry.message_id)) for entry in entries]
            if any(
                found is None or found.park is None or found.receipt_handle != entry.receipt_handle
                for found, entry in zip(stored, entries, strict=True)
            ):
                return False
            for entry in entries:
                key = entry.lane, entry.message_id
                self.entries[key] = dataclasses.replace(
                    self.entries[key], park=None, parked_until=0.0, receipt_handle="", batch=""
                )
            return True

    def parked(self, lane: str, *, after: float, limit: int | None = None) -> Sequence[Entry]:
        """Return the parked entries, the earliest to return first."""
        with self.calls.make("Query"):
            parks = self._parks[lane]
            del parks[: bisect.bisect(parks, (after - LONG_AGO, 0, ""))]
            found: dict[str, Entry] = {}
            for until, _, message_id in itertools.islice(
                parks, bisect.bisect(parks, (after, float("inf"), "")), None
            ):
                entry = self.entries[lane, message_id]
                if entry.park is not None and entry.parked_until == until:
                    found[message_id] = entry
                if len(found) == limit:
                    break
            return list(found.values())

    def whereabouts(self, lane: str, message_id: str, *, now: float) -> str:
        """Describe the state of a message that is neither handled nor dead-lettered."""
        entry = self.entries.get((lane, message_id))
        if entry is None:
            return "not received yet, or behind its group"
        if entry.park is None or entry.parked_until <= now:
            return f"{entry.ending} before; may be received now, or is behind its group"
        return f"{entry.ending}, returns in {entry.parked_until - now:.1f} s"

    def begin_effect(self, effect_id: str, *, owner: str, now: float, until: float) -> Claim:
        """Claim an effect."""
        with self.calls.make("UpdateItem"):
            known = self.effects.get(effect_id, MemoryEffect(owner))
            if known.done_until > now:
                return Claim(Effect.DONE, done_in=known.done_in)
            if known.owner != owner and known.owned_until > now:
                return Claim(Effect.held_by(known.owner, owner))
            self.effects[effect_id] = MemoryEffect(owner, owned_until=until)
            return Claim(Effect.BEGUN)

    def finish_effect(
        self,
        effect_id: str,
        *,
        owner: str,
        lane: str,
        now: float,
        keep_until: float,
    ) -> None:
        """Record an effect."""
        with self.calls.make("UpdateItem"):
            self.effects[effect_id] = MemoryEffect(owner, done_until=keep_until, done_in=lane, done_at=now)

    def effect_done_at(self, effect_id: str) -> float:
        """Return when an effect was done last."""
        with self.calls.make("GetItem"):
            return self.effects[effect_id].done_at if effect_id in self.effects else 0.0

    def swap_rate(self, pattern: str, known: str, new: str) -> str | None:
        """Replace the state of a rate."""
        with self.calls.make("UpdateItem"):
            if (stored := self.rates.get(pattern, "")) != known:
                return stored
            self.rates[pattern] = new
            return None

    def release_effect(self, effect_id: str, *, owner: str) -> None:
        """Give a claim back."""
        with self.calls.make("DeleteItem"):
            known = self.effects.get(effect_id)
            if known is not None and known.owner == owner and not known.done_until:
                del self.effects[effect_id]


class MemorySlots:
    """The slot table."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.records: dict[str, Presence] = {}
        self.parked: dict[str, float] = {}

    def publish(
        self,
        record: Presence,
        *,
        now: float,  # noqa: ARG002
        parked_until: Mapping[str, float],
    ) -> PresenceSnapshot:
        """Replace a presence record."""
        with self.calls.make("UpdateItem"):
            self.records[record.environment] = record
            self.parked.update(parked_until)
            return self._snapshot(record.environment)

    def read(self, environment: str) -> PresenceSnapshot:
        """Return the peers' state."""
        with self.calls.make("GetItem"):
            return self._snapshot(environment)

    def _snapshot(self, environment: str) -> PresenceSnapshot:
        return PresenceSnapshot.for_environment(environment, self.records.values(), dict(self.parked))
