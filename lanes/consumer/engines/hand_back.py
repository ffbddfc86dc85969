"""What a slot does for the others: it returns records in hand that wait for too long, and rings."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import threading
from functools import partial
from typing import TYPE_CHECKING, Protocol

from lanes.bell import COALESCING, Ring, lane_rings, others, second_of
from lanes.consumer import telemetry as report
from lanes.consumer.engines import Turn
from lanes.consumer.engines.looks import POLL
from lanes.consumer.engines.pace import FRESH, SPREAD
from lanes.consumer.outcome import Outcome, Outcomes, Reason, shortest_delay
from lanes.consumer.settlement import VisibilityChange
from lanes.errors import AwsError
from lanes.events import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from lanes.config import Lane, LanesConfig
    from lanes.consumer.engines import Beside, Pending
    from lanes.consumer.engines.looks import Looking, Looks
    from lanes.consumer.engines.pace import SlotTime
    from lanes.consumer.ledger import Entry
    from lanes.consumer.records import RawRecord
    from lanes.consumer.settlement import Settlement
    from lanes.depth import LaneDepth

RINGS_AGAIN = 5
"""Seconds after a ring for the messages of a lane until others are rung for."""

TICK = 0.25
"""Seconds between two looks at the record that runs."""


class Timer:
    """
    Calls a function beside the work, again and again, each time after the seconds that it has returned.

    Args:
        beside: makes the calls.
        fire: the function; None ends the calls.
    """

    def __init__(self, beside: Beside, fire: Callable[[], float | None]) -> None:
        self._beside = beside
        self._fire = fire
        self._pending: list[Pending[None]] = []

    def start(self, after: float) -> None:
        """Make the first call after some seconds."""
        self._pending.append(self._beside.start(self._call, after=after))

    def stop(self) -> None:
        """Make no further call, and wait for the end of one that has begun."""
        while self._pending:
            pending = self._pending.pop()
            if not pending.cancel():
                pending.result()

    @contextlib.contextmanager
    def stopped(self, start: Callable[[], None]) -> Iterator[None]:
        """Make no call meanwhile, and start again afterwards."""
        self.stop()
        try:
            yield
        finally:
            start()

    def _call(self) -> None:
        if (after := self._fire()) is not None:
            self.start(after)


class Ringing(Protocol):
    """What starts other slots; each call raises `AwsError`."""

    def ring(self, slots: Collection[int]) -> None:
        """Ring for some slots."""

    def has_rings(self) -> bool:
        """Whether slots are wanted that nobody has started."""


class Bell(Ringing, Protocol):
    """The bell; each call raises `AwsError`."""

    def return_after(self, receipt_handle: str, seconds: int) -> None:
        """Make a received ring visible after some seconds."""


class RingingQueues(Protocol):
    """The calls of rings between lanes; each raises `AwsError`."""

    def depth(self, lane: str) -> LaneDepth:
        """Return the approximate counts of a lane's queue."""

    def ring(self, lane: str, rings: Sequence[Ring]) -> None:
        """Send rings to a lane's own queue."""

    def change_visibility(self, lane: str, changes: Sequence[VisibilityChange]) -> Sequence[str]:
        """Apply the changes in order; return the message ids that were refused."""


@dataclasses.dataclass(frozen=True, slots=True)
class LaneRings:
    """
    Starts the mappings of lanes without messages, whose invocations then serve the others.

    The mappings together start no more invocations than there are slots, so a lane alone would have only its share.
    """

    config: LanesConfig
    queues: RingingQueues
    looking: Looking

    def ring(self, slots: Collection[int]) -> None:
        """Start invocations for the messages that wait, at most as many as the given slots; the lowest lanes first."""
        lanes = self.config.lanes
        depths = [self.queues.depth(lane.name) for lane in lanes]
        wanted = min(len(slots), sum(depth.backlog for depth in depths))
        for lane, depth in zip(reversed(lanes), reversed(depths), strict=True):
            # One of the highest is left for its own next message, unless it is soon seen by the others.
            spare = lane is lanes[0] and not all(map(self.looking.pace.is_short, lanes))
            busy = math.ceil(depth.in_flight / lane.batch_size) + spare
            count = 0 if depth.backlog else min(wanted, lane.maximum_concurrency - busy)
            if count > 0:
                self.queues.ring(lane.name, lane_rings(count, self.looking.clock()))
                wanted -= count

    def give_back(self, lane: Lane, rings: Sequence[RawRecord]) -> None:
        """Return rings of one batch at once: each is for an invocation of its own."""
        changes = [
            VisibilityChange(message_id=one.message_id, receipt_handle=one.receipt_handle, seconds=0)
            for one in rings
        ]
        self.queues.change_visibility(lane.name, changes)

    def ring_again(self, lane: Lane, group: str) -> None:
        """Start another invocation for a ring that this one has worked for until its time was over."""
        self.queues.ring(lane.name, [Ring(group, f"{group}-{second_of(self.looking.clock())}")])

    def has_rings(self) -> bool:
        """Whether messages wait in any lane."""
        return any(self.queues.depth(lane.name).backlog for lane in self.config.lanes)


class Waker:
    """
    Rings for the other slots.

    A send rings for as many slots as it has messages. No invocation starts for the rings of a group while its slot is
    running, and SQS drops those of the second in which it began. So a slot rings for others where a lane has more than
    it takes, and, as long as one record takes long, each second while rings wait.

    Args:
        bell: starts other slots; None rings nothing.
        slot: number of the slot.
        config: the lanes.
        looking: how the environment looks at its lanes.
    """

    def __init__(
        self,
        bell: Ringing | None,
        *,
        slot: int,
        config: LanesConfig,
        looking: Looking,
    ) -> None:
        self._slots = config.consumer.reserved_concurrency
        self._bell = bell if self._slots > 1 else None
        self._slot = slot
        self._first = range(min(lane.maximum_concurrency for lane in config.lanes))
        self._looking = looking
        self._asks_at = 0.0
        self._asked: Pending[AwsError | None] | None = None
        self._due_at = float("inf")
        self._turn = self._unsure = 0
        self._hides = False
        self._timer = Timer(looking.beside, self._watch)

    def start(self) -> None:
        """Begin to watch the records that run."""
        if self._bell is not None:
            self._timer.start(min(TICK, max(FRESH, self._due_at - self._looking.clock())))

    def stop(self) -> None:
        """Make no further call, and wait for the end of those that have begun."""
        self._timer.stop()
        self.land()

    def ring(self) -> None:
        """Ring for all other slots: one that is free has to look now."""
        self._ring(others(self._slot, self._slots, slots=self._slots))

    def ring_first(self) -> None:
        """Ring for the slots that serve all lanes."""
        self._ring(self._first)

    def wake_for(self, lanes: Collection[str]) -> None:
        """Ring, beside the work, for as many other slots as messages wait in lanes that had more than was asked for."""
        now = self._looking.clock()
        if not lanes:
            self._unsure = 0
        elif self._bell is not None and now >= self._asks_at:
            self.land()
            self._asks_at = now + COALESCING
            call = partial(self._wake, self._bell, sorted(lanes), at_least=self._unsure)
            self._asked = self._looking.beside.start(call)
            self._unsure += 1

    def land(self) -> None:
        """Wait for the ring that was begun beside the work."""
        asked, self._asked = self._asked, None
        try:
            if asked is not None and (error := asked.result()) is not None:
                report.failed_beside(self._looking.telemetry, Event.BELL_NOT_RUNG, error)
        except Exception:  # noqa: BLE001 - a ring must not cost the answer to a batch
            report.failed_call(self._looking.telemetry, Event.BELL_NOT_RUNG)

    def watch(self, *, hides: bool, more: bool) -> None:
        """
        Watch a record, from when it has taken nearly a second.

        Args:
            hides: whether SQS may have dropped a ring for messages that wait.
            more: whether a lane may have more than this slot takes.
        """
        now, self._turn = self._looking.clock(), 0
        # Where counts said how many wait, that many slots have their ring.
        self._hides = hides or (more and now + COALESCING >= self._asks_at)
        self._due_at = now + COALESCING - TICK

    def rest(self) -> None:
        """End the watch of a record."""
        self._due_at = float("inf")

    def _wake(self, bell: Ringing, lanes: Collection[str], *, at_least: int) -> AwsError | None:
        """Ring for so many slots. Runs beside the handler, so it reports nothing."""
        try:
            # AWS: counts may be a minute old, so again and again more than asked for is known better.
            waiting = max(at_least, *(self._looking.queues.depth(lane).backlog for lane in lanes))
            if waiting:
                # Rings for all of them, at each look of each slot, would cost more than the work.
                self._asks_at = self._looking.clock() + RINGS_AGAIN
                bell.ring(others(self._slot, waiting, slots=self._slots))
        except AwsError as error:
            return error
        return None

    def outside(self) -> contextlib.AbstractContextManager[None]:
        """Stop the watch for a checkpoint."""
        return self._timer.stopped(self.start)

    def _watch(self) -> float:
        if self._looking.clock() >= self._due_at:
            try:
                self._watch_rings()
            except Exception:  # noqa: BLE001 - the record that runs beside it has its own outcome
                report.failed_call(self._looking.telemetry, Event.BELL_NOT_RUNG)
        return TICK

    def _watch_rings(self) -> None:
        self._due_at = self._looking.clock() + COALESCING - TICK
        hides, self._hides = self._hides, False
        if self._bell is not None and (hides or self._bell.has_rings()):
            # Of the slots that are busy for long each rings for the next one, so the first that is free has its ring.
            self._bell.ring(others(self._slot, 1, slots=self._slots, after=self._turn))
            self._turn += 1

    def _ring(self, slots: Collection[int]) -> None:
        if self._bell is not None:
            report.tried(self._looking.telemetry, Event.BELL_NOT_RUNG, partial(self._bell.ring, slots))


class WaitingTurn(Turn, Protocol):
    """A batch's turn with a slot that may return those of its records for which another slot may be free."""

    @property
    def waiting(self) -> Sequence[RawRecord]:
        """The records that wait behind the one that runs, and not for it."""

    def give_back(self) -> None:
        """Return them at once."""


class HandBack:
    """
    Returns records in hand for other slots.

    When a record takes longer than usual, its timer returns those behind it. That acts only while a handler runs,
    outside of its checkpoints, so it shares nothing with the slot's own work.

    Args:
        lanes: those of the slot.
        looks: the looks of its invocation.
        settlement: takes the records that return.
        time: the time of its invocation.
        waker: rings for other slots.
        is_alone: whether there are no others.

    Attributes:
        turns: of the batches that the slot has begun, those that were set aside first.

    """

    def __init__(
        self,
        lanes: Sequence[Lane],
        *,
        looks: Looks,
        settlement: Settlement,
        time: SlotTime,
        waker: Waker,
        is_alone: bool,
    ) -> None:
        self.turns: list[WaitingTurn] = []
        self._lanes = lanes
        self._looks = looks
        self._settlement = settlement
        self._time = time
        self._waker = waker
        self._is_alone = is_alone
        self._checkpoints = threading.Lock()
        self._fires_at = 0.0
        self._timer = Timer(looks.looking.beside, self._fire)

    def of_lanes(self, lanes: Sequence[Lane]) -> None:
        """Return the records in hand of these lanes for a slot that is free, if there are others."""
        for lane in () if self._is_alone else lanes:
            if (records := self._looks.hands.pop(lane.name, None)) is not None:
                self.of(lane, records, Reason.ASIDE)
                self._waker.ring()

    def everything(self) -> None:
        """Return everything in hand: the next record may kill this process."""
        self._looks.collect(wait=True)
        for lane in self._lanes:
            self.of(lane, self._looks.hands.pop(lane.name, []), Reason.ASIDE)

    def of(self, lane: Lane, records: Sequence[RawRecord], reason: Reason, *, at_least: int = 0) -> None:
        """Return records of a lane that no batch has."""
        if not records:
            return
        telemetry = self._settlement.telemetry
        entries: Mapping[str, Entry] = {}
        try:
            entries = self._settlement.ledger.entries_of(lane.name, records)
        except AwsError:
            # Without an entry, their next receive has no known cause.
            report.failed_call(telemetry, Event.LEDGER_NOT_READ, lane=lane.name)
        else:
            report.received(telemetry, records, entries)
        self.untouched(lane, records, entries, reason, at_least=at_least)

    def untouched(
        self,
        lane: Lane,
        records: Sequence[RawRecord],
        entries: Mapping[str, Entry],
        reason: Reason,
        *,
        at_least: int = 0,
    ) -> None:
        """Return records with their entries, at once or after so many seconds."""
        outcomes = Outcomes(records, dict(entries))
        delay = max(shortest_delay(records), at_least)
        outcomes.keep(records, Outcome(delay=delay, reason=reason))
        self._settlement.settle(self._time.batch(lane, records), outcomes)

    def watch(self, lane: Lane) -> None:
        """Run the timer while a handler runs."""
        looking = self._looks.looking
        self._fires_at = looking.clock() + (looking.pace.typical(lane) or SPREAD) + FRESH
        self._start()

    def rest(self) -> None:
        """Stop the timer."""
        self._timer.stop()

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """Stop the timer for a checkpoint; the handler may go on after it, and its threads may have some at once."""
        with self._checkpoints, self._timer.stopped(self._start):
            yield

    def _start(self) -> None:
        if (after := self._next()) is not None:
            self._timer.start(after)

    def _next(self) -> float | None:
        if not self._may_wait():
            return None
        # At most for the time of a poll: a clock that is set back would put it off.
        return min(max(FRESH, self._fires_at - self._looks.looking.clock()), POLL)

    def _may_wait(self) -> bool:
        """Whether records may wait in hand during the next one, although another slot may be free for them."""
        if self._is_alone:
            return False
        return self._looks.is_filling or any(turn.waiting for turn in self.turns) or bool(self._in_hand())

    def _in_hand(self) -> list[Lane]:
        """Return the lanes with records in hand that should not wait there."""
        is_plenty = self._looks.looking.pace.is_plenty
        return [lane for lane in self._lanes if lane.name in self._looks.hands and not is_plenty(lane)]

    def _fire(self) -> float | None:
        try:
            if self._looks.looking.clock() >= self._fires_at:
                self._return_waiting()
            return self._next()
        except Exception:  # noqa: BLE001 - the record that runs beside it has its own outcome
            report.failed_call(self._settlement.telemetry, Event.BATCH_NOT_CLOSED)
            return None

    def _return_waiting(self) -> None:
        """Return the records behind one that takes long. Runs beside the handler, while the slot does nothing."""
        self._looks.collect()
        lanes, turns = self._in_hand(), [turn for turn in self.turns if turn.waiting]
        for lane in lanes:
            self.of(lane, self._looks.hands.pop(lane.name), Reason.ASIDE)
        for turn in turns:
            turn.give_back()
        if lanes or turns:
            self._waker.ring()
