"""The return of records in hand, untouched, for other slots; also beside a handler that takes longer than usual."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Protocol

from lanes.consumer import telemetry as report
from lanes.consumer.engines import Turn
from lanes.consumer.engines.looks import POLL
from lanes.consumer.engines.pace import FRESH, SPREAD
from lanes.consumer.engines.timers import Timer
from lanes.consumer.outcome import Outcome, Outcomes, Reason, shortest_delay
from lanes.errors import AwsError
from lanes.events import Event

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lanes.config import Lane
    from lanes.consumer.engines.looks import Looks
    from lanes.consumer.engines.slot_time import SlotTime
    from lanes.consumer.engines.timers import Waker
    from lanes.consumer.ledger import Entry
    from lanes.consumer.records import RawRecord
    from lanes.consumer.settlement import Settlement


class SlotTurn(Turn, Protocol):
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
        self.turns: list[SlotTurn] = []
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

    def of(self, lane: Lane, records: Sequence[RawRecord], reason: Reason) -> None:
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
        self.untouched(lane, records, entries, reason)

    def untouched(
        self, lane: Lane, records: Sequence[RawRecord], entries: Mapping[str, Entry], reason: Reason
    ) -> None:
        """Return records with their entries at once."""
        outcomes = Outcomes(records, dict(entries))
        outcomes.keep(records, Outcome(delay=shortest_delay(records), reason=reason))
        self._settlement.settle(self._time.batch(lane, records), outcomes)

    @contextlib.contextmanager
    def beside_handler(self, lane: Lane) -> Iterator[None]:
        """Run the timer while a handler runs."""
        looking = self._looks.looking
        self._fires_at = looking.clock() + (looking.pace.typical(lane) or SPREAD) + FRESH
        self._start()
        try:
            yield
        finally:
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
