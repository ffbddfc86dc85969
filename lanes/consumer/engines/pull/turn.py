"""One batch's turn in a slot: it is set aside for higher lanes between two records, and deleted when it is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.config.settings import MAX_RECEIVES
from lanes.consumer.engines import PROCEED, Proceed
from lanes.consumer.engines.pull.pace import PATIENCE
from lanes.consumer.ledger import Ending
from lanes.consumer.outcome import Outcome, Reason, shortest_delay
from lanes.events import Event
from lanes.metrics import Metric

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lanes.config import Lane
    from lanes.consumer.engines.pull.slot import Slot
    from lanes.consumer.outcome import Outcomes
    from lanes.consumer.records import Batch, RawRecord


class PullTurn:
    """
    One batch's turn.

    Args:
        is_mapped: whether a mapping delivered the batch, as after a change of engine; then Lambda deletes it too.

    """

    def __init__(self, batch: Batch, slot: Slot, *, is_mapped: bool = False) -> None:
        self._batch = batch
        self._slot = slot
        self._is_mapped = is_mapped
        self._outcomes: Outcomes | None = None
        self._deleted: set[str] = set()
        self._started_at: float | None = None

    def hold(self, outcomes: Outcomes) -> Collection[str]:
        """Do nothing: received records stay invisible for as long as the invocation lasts."""
        self._outcomes = outcomes
        if (tenants := self._slot.services.tenants) is not None:
            tenants.begin(self._batch)
        if not self._is_mapped:
            return ()
        return self._slot.services.settlement.hold(self._batch)

    def decide(self, rest: Sequence[RawRecord], *, expected: float, has_worked: bool) -> Proceed | Outcome:
        """Serve the lanes above first, then let the record start."""
        del has_worked
        slot, lane, clock = self._slot, self._batch.lane, self._slot.services.looking.clock
        self._measure()
        began = clock()
        while (above := slot.before(lane, expected=expected)) is not None:
            if (reserve := slot.services.reserve).admits(lane, rest[0]):
                return self._start(rest, Proceed(reserve=reserve, may_yield=False))
            self._delete_finished()
            slot.serve(above)
            if not slot.has_time_for(lane):
                return Outcome(delay=shortest_delay(rest), reason=Reason.TIME)
            if clock() - began > PATIENCE and slot.services.config.consumer.reserved_concurrency > 1:
                return Outcome(delay=shortest_delay(rest), reason=Reason.ASIDE)
        if self._needs_whole_invocation(rest) or not self._wait_for_rate():
            return Outcome(delay=shortest_delay(rest), reason=Reason.TIME)
        may_yield = rest[0].receive_count < MAX_RECEIVES
        return self._start(rest, PROCEED if may_yield else Proceed(may_yield=False))

    def checkpoint(self) -> Lane | None:
        """Return a lane above that has records."""
        return self._slot.above(self._batch.lane, expected=0.0)

    def yielded(self, rest: Sequence[RawRecord], *, to: Lane | None) -> Outcome:
        """Return the rest at once: this slot serves the lane above first, and another may be free."""
        return Outcome(ending=Ending.YIELDED, delay=shortest_delay(rest), to=to)

    def close(self, outcomes: Outcomes) -> None:
        """Delete finished records beside the next ones, and settle those that stay."""
        self._outcomes = outcomes
        self._measure()
        settlement = self._slot.services.settlement
        try:
            if not self._is_mapped:
                self._delete_finished()
            settlement.settle(self._batch, outcomes)
            if (tenants := self._slot.services.tenants) is not None:
                tenants.end(self._batch, finished=outcomes.finished)
            if back := [outcome.delay for _, outcome in outcomes.to_settle if outcome.delay]:
                self._slot.returns_in(min(back))
        except Exception:  # noqa: BLE001 - finished records stay finished, and kept ones return by themselves
            settlement.telemetry.problem(Event.BATCH_NOT_CLOSED, lane=self._batch.lane.name)
            settlement.telemetry.count(Metric.AWS_ERRORS)

    def _needs_whole_invocation(self, rest: Sequence[RawRecord]) -> bool:
        """
        Whether a record that was at work when its process died waits for the next invocation, which comes at once.

        If it takes longer than any other before, it would be killed again wherever it starts late.
        """
        entry = None if self._outcomes is None else self._outcomes.entries.get(rest[0].message_id)
        is_first = rest[0] is self._batch.records[0] and self._slot.is_fresh
        if entry is None or entry.ending is not Ending.STARTED or is_first or self._is_mapped:
            return False
        self._slot.is_over = True
        return True

    def _start(self, rest: Sequence[RawRecord], way: Proceed) -> Proceed:
        self._slot.look_ahead(self._batch.lane, is_last=len(rest) == 1)
        self._started_at = self._slot.services.looking.clock()
        return way

    def _measure(self) -> None:
        """Add the time of the record that has just ended."""
        if self._started_at is not None:
            looking = self._slot.services.looking
            looking.pace.worked(self._batch.lane, looking.clock() - self._started_at)
            self._started_at = None

    def _delete_finished(self) -> None:
        if self._outcomes is None:
            return
        finished = [
            record
            for record, outcome in self._outcomes
            if not outcome.is_kept and record.message_id not in self._deleted
        ]
        if finished:
            self._deleted.update(record.message_id for record in finished)
            self._slot.looks.delete(self._batch.lane, finished)

    def _wait_for_rate(self) -> bool:
        """Wait until a record may start, and serve lanes above meanwhile; return whether time is left."""
        slot, lane, rate = self._slot, self._batch.lane, self._slot.services.rate
        if rate is None:
            return True
        recheck = slot.services.config.consumer.recheck_interval.total_seconds()
        while (wait := rate.wait()) > 0:
            slot.services.sleep(min(wait, recheck))
            while (above := slot.above(lane, expected=0.0)) is not None:
                self._delete_finished()
                slot.serve(above)
            if not slot.has_time_for(lane):
                return False
        rate.start()
        return True
