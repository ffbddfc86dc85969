"""What the consumer touches, in memory: queues after the documented model, the table, the register of slots."""

from __future__ import annotations

import dataclasses
from collections import Counter
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn

from lanes.consumer.ledger import Effect, Entry
from lanes.consumer.slots import Occupation, SlotsSnapshot, snapshot_without
from lanes.consumer.yielding import LaneDepth
from local.model.fifo_errors import FifoQueueError
from local.model.fifo_queue import FifoQueue
from local.model.fifo_settings import FifoSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lanes.config import LanesConfig
    from lanes.consumer.dead_letters import DeadLetterNote
    from lanes.consumer.records import RawRecord
    from lanes.consumer.settlement import VisibilityChange


class ProcessLost(KeyboardInterrupt):
    """The execution environment died here: nothing that would follow in it happens."""


class Calls:
    """
    Counts calls to AWS, lets them take time, and breaks the ones it is told to.

    `break_if` refuses a call before it does anything, `lose_if` loses the answer of one that took effect. Either may
    give `ProcessLost`; from then on every call of the environment raises it, until `lost` is reset.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.log: list[str] = []
        self.break_if: Callable[[str, int], BaseException | None] = lambda _operation, _position: None
        self.lose_if: Callable[[str, int], BaseException | None] = lambda _operation, _position: None
        self.takes: Callable[[str], None] = lambda _operation: None
        self.lost = False

    @contextmanager
    def make(self, operation: str) -> Iterator[None]:
        """Note one call and let it happen inside; raises what the test wants it to raise."""
        if self.lost:
            raise ProcessLost
        position = len(self.log)
        self.log.append(operation)
        self.counts[operation] += 1
        self.takes(operation)
        self._raise(self.break_if(operation, position))
        yield
        self._raise(self.lose_if(operation, position))

    def crash(self) -> NoReturn:
        """Let the environment die here."""
        self._raise(ProcessLost())
        raise AssertionError

    def _raise(self, error: BaseException | None) -> None:
        if error is None:
            return
        self.lost = self.lost or isinstance(error, ProcessLost)
        raise error


class MemoryQueues:
    """The lanes' queues and dead-letter queues."""

    def __init__(
        self, config: LanesConfig, clock: Callable[[], float], calls: Calls, *, native: int | None
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

    def change_visibility(self, lane: str, changes: Sequence[VisibilityChange]) -> list[str]:
        """Change what can be changed; return the ids of the others."""
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
            )
            if not sent.is_duplicate:
                self.notes[record.message_id] = note


class MemoryLedger:
    """The table."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.entries: dict[tuple[str, str], Entry] = {}
        self.effects: dict[str, tuple[str, float, float]] = {}

    def read(self, lane: str, message_ids: Sequence[str]) -> Mapping[str, Entry]:
        """Return what is there."""
        with self.calls.make("BatchGetItem"):
            return {key: self.entries[lane, key] for key in message_ids if (lane, key) in self.entries}

    def note(self, entries: Sequence[Entry]) -> None:
        """Put the entries."""
        with self.calls.make("PutItem" if len(entries) == 1 else "BatchWriteItem"):
            self.entries.update({(entry.lane, entry.message_id): entry for entry in entries})

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
                    self.entries[key], park=None, receipt_handle="", batch=""
                )
            return True

    def parked(self, lane: str, *, after: float, limit: int | None = None) -> Sequence[Entry]:
        """Return what is parked, the first to return first."""
        with self.calls.make("Query"):
            found = [
                entry
                for entry in self.entries.values()
                if entry.lane == lane and entry.park is not None and entry.parked_until > after
            ]
            return sorted(found, key=lambda entry: entry.parked_until)[:limit]

    def begin_effect(self, effect_id: str, *, owner: str, now: float, until: float) -> Effect:
        """Claim an effect."""
        with self.calls.make("UpdateItem"):
            held_by, held_until, done_until = self.effects.get(effect_id, (owner, 0.0, 0.0))
            if done_until > now:
                return Effect.DONE
            if held_by != owner and held_until > now:
                return Effect.ELSEWHERE
            self.effects[effect_id] = (owner, until, 0.0)
            return Effect.BEGUN

    def finish_effect(self, effect_id: str, *, owner: str, now: float, keep_until: float) -> None:  # noqa: ARG002
        """Record an effect."""
        with self.calls.make("UpdateItem"):
            self.effects[effect_id] = (owner, 0.0, keep_until)

    def release_effect(self, effect_id: str, *, owner: str) -> None:
        """Give a claim back."""
        with self.calls.make("DeleteItem"):
            held_by, _, done_until = self.effects.get(effect_id, ("", 0.0, 0.0))
            if held_by == owner and not done_until:
                del self.effects[effect_id]


class MemoryRegister:
    """The register of slots."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.lines: dict[str, Occupation] = {}
        self.parked: dict[str, float] = {}

    def write(self, line: Occupation, *, now: float, parked_until: Mapping[str, float]) -> SlotsSnapshot:  # noqa: ARG002
        """Replace a line."""
        with self.calls.make("UpdateItem"):
            self.lines[line.environment] = line
            self.parked.update(parked_until)
            return self._snapshot(line.environment)

    def read(self, environment: str) -> SlotsSnapshot:
        """Return what the others say."""
        with self.calls.make("GetItem"):
            return self._snapshot(environment)

    def _snapshot(self, environment: str) -> SlotsSnapshot:
        return snapshot_without(environment, self.lines.values(), dict(self.parked))
