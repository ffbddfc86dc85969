"""
A batch's turn with a slot: what is asked before each of its records, and what becomes of records that crashed.

An attempt that was written ahead names the record that killed its process. It pauses, so that others are served
between two crashes, and is then tried in an invocation of its own with nothing else in hand: everything in hand dies
along and stays invisible for as long as the function's timeout. An attempt that nothing had announced names no record:
any one of that hand may have been it. So a new environment handles one record of each lane before the first of them.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING

from lanes.config.settings import MAX_RECEIVES
from lanes.consumer import telemetry as report
from lanes.consumer.engines import Proceed
from lanes.consumer.engines.pace import FRESH
from lanes.consumer.ledger import Ending, Entry
from lanes.consumer.outcome import Outcome, Outcomes, Reason, shortest_delay
from lanes.events import Event

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lanes.config import Lane
    from lanes.consumer.calls import Call
    from lanes.consumer.engines import Pending
    from lanes.consumer.engines.slot import Slot
    from lanes.consumer.outcome import Delays
    from lanes.consumer.records import (
        Batch,
        RawRecord,
    )

KEPT_ASIDE = 5
"""Seconds for which a slot keeps a batch aside."""


class SlotTurn:
    """
    One batch's turn with a slot.

    Args:
        batch: the batch.
        slot: the slot.
        is_mapped: whether a mapping delivered it: then Lambda deletes what is finished as well.
        is_overdue: whether it was chosen from the reserve, ahead of records that wait: in a queue or in hand.

    """

    def __init__(
        self, batch: Batch, slot: Slot, *, is_mapped: bool = False, is_overdue: bool = False
    ) -> None:
        self._batch = batch
        self._slot = slot
        self._services = slot.services
        self._is_mapped = is_mapped
        self._is_overdue = is_overdue
        self._outcomes = Outcomes(batch.records, {})
        self._deleted: set[str] = set()
        self._started_at: float | None = None
        self._together = 1
        self._running: Collection[str] = ()
        self._is_alone = False
        self._holding: Pending[Collection[str]] | None = None

    def hold(self, outcomes: Outcomes) -> Collection[str]:
        """Let a mapping's records return soon after a crash, as those that this slot received do anyway."""
        self._outcomes = outcomes
        if (tenants := self._services.tenants) is not None:
            tenants.begin(self._batch)
        lost = self._hold(outcomes) if self._is_mapped else ()
        self._part_crashed()
        return lost

    def _hold(self, outcomes: Outcomes) -> Collection[str]:
        settlement, batch = self._services.settlement, self._batch
        is_single = len(batch.records) == 1 and batch.records[0].receive_count == 1
        if is_single and settlement.outlasts(batch, outcomes.entries):
            # It takes no time of the slot, and nothing else changes the visibility until the batch is closed.
            self._holding = self._services.looking.beside.start(partial(settlement.hold, batch))
            return ()
        return settlement.hold(batch)

    def decide(
        self, rest: Sequence[RawRecord], call: Call, *, expected: float, has_worked: bool, goes_ahead: bool
    ) -> Proceed | Outcome:
        """Serve the lanes above first, then let the record start."""
        del has_worked
        slot, lane, reserve = self._slot, self._batch.lane, self._services.reserve
        self._measure()
        if self._is_suspected(rest[0]):
            slot.serve_others()
        began, is_ahead = self._services.clock(), self._is_overdue
        while not (is_ahead or goes_ahead or self._is_paused(rest[0])):
            if (above := slot.before(lane, expected=expected)) is None:
                break
            if is_ahead := reserve.admits(lane, rest[0]):
                break
            if (reason := self._set_aside_for(above, rest[0], since=began)) is not None:
                return Outcome(delay=shortest_delay(rest), reason=reason)
        if not (is_ahead or goes_ahead) and not slot.can_look_above(lane):
            return Outcome(delay=shortest_delay(rest), reason=Reason.TIME)
        # Each way to a start passes here: no record skips the rate, or starts after a stop or too late.
        chosen_at = reserve.monotonic()
        if self._needs_whole_invocation(rest[0]) or not self._wait_for_rate(rest[0], is_ahead=is_ahead):
            return Outcome(delay=shortest_delay(rest), reason=Reason.TIME)
        if self._is_paused(rest[0]):
            # A record above that was served here found the resource away.
            return Proceed(most=0)
        during = slot.beside_handler(lane)
        if is_ahead:
            waited = reserve.monotonic() - chosen_at
            way = Proceed(reserve=reserve, waited=waited, may_yield=False, most=1, during=during)
        else:
            may_yield = rest[0].receive_count < MAX_RECEIVES
            way = Proceed(may_yield=may_yield, most=self._most(call), during=during)
        self._start(rest, call, way)
        return way

    def checkpoint(self) -> Lane | None:
        """Return a lane above that has records."""
        with self._slot.outside():
            return self._slot.above(self._batch.lane, expected=0.0)

    @property
    def waiting(self) -> Sequence[RawRecord]:
        """The records that wait behind the one that runs, but for those of its group and of a lane with plenty."""
        outcomes = self._outcomes
        if self._is_alone or self._services.pace.is_plenty(self._batch.lane):
            return ()
        rest = (one for one in outcomes.undecided if one.group not in self._running)
        return [record for record in rest if outcomes.behind(record) is None]

    def give_back(self) -> None:
        """Return the waiting records at once; this batch leaves them alone from now on."""
        records = self.waiting
        self._outcomes.lose([record.message_id for record in records])
        self._slot.hand_back.untouched(self._batch.lane, records, self._outcomes.entries, Reason.ASIDE)

    def yielded(self, rest: Sequence[RawRecord], *, to: Lane | None) -> Outcome:
        """Return the rest at once: this slot serves the lane above first, and another may be free."""
        return Outcome(ending=Ending.YIELDED, delay=shortest_delay(rest), to=to)

    def close(self, outcomes: Outcomes) -> None:
        """Delete finished records beside the next ones, and settle those that stay."""
        self._outcomes = outcomes
        self._measure()
        slot = self._slot
        try:
            if self._holding is not None:
                report.tried(self._services.looking.telemetry, Event.RECORDS_NOT_HELD, self._holding.result)
            self._delete_finished()
            self._services.settlement.settle(self._batch, outcomes)
            if self._services.tenants is not None:
                self._services.tenants.end(self._batch, finished=outcomes.finished)
            kept = outcomes.to_settle(self._services.clock())
            if back := [one.delay for _, one in kept if one.delay and one.reason is not Reason.RATE]:
                slot.stay.returns_in(min(back))
        except Exception:  # noqa: BLE001 - finished records stay finished, and kept ones return by themselves
            telemetry = self._services.looking.telemetry
            report.failed_call(telemetry, Event.BATCH_NOT_CLOSED, lane=self._batch.lane.name)

    def _part_crashed(self) -> None:
        """Let no other record be in hand with one whose last attempt killed its process."""
        batch, outcomes, slot = self._batch, self._outcomes, self._slot
        attempts = self._services.config.consumer.max_attempts
        pause_crashed(batch, outcomes, max_attempts=attempts, delays=self._services.settlement.delays)
        if (alone := to_try_alone(batch, outcomes)) is None:
            return
        if not slot.time.is_fresh:
            # Where it starts late, one that takes longer than any other before would be killed again.
            keep_crashed(batch, outcomes)
            slot.time.is_over = True
            return
        self._is_alone = True
        keep_others(batch, outcomes, alone)
        # Now, not when the batch is closed: this process may not live until then.
        self._services.settlement.settle(batch, outcomes)
        outcomes.lose([record.message_id for record, _ in outcomes.to_settle(self._services.clock())])
        slot.hand_back.everything()

    def _is_suspected(self, record: RawRecord) -> bool:
        """Whether a record may have killed its process, and nothing has been handled since."""
        entry = self._outcomes.entries.get(record.message_id)
        has_worked = self._services.pace.has_worked
        return entry is not None and not has_worked and is_suspect(entry)

    def _needs_whole_invocation(self, record: RawRecord) -> bool:
        """Whether a record that is to be tried alone waits for the next invocation: others, or a rate, came first."""
        entry = self._outcomes.entries.get(record.message_id)
        is_crashed = entry is not None and entry.ending is Ending.CRASHED
        needs = is_crashed and not (self._is_alone and self._slot.time.is_fresh)
        self._slot.time.is_over |= needs
        return needs

    def _start(self, rest: Sequence[RawRecord], call: Call, way: Proceed) -> None:
        if not self._is_alone:
            self._slot.look_ahead(self._batch.lane, is_last=len(rest) <= min(way.most, len(call.records)))
        self._together = call.max_size
        self._running = {record.group for record in call.records[: way.most]}
        self._started_at = self._services.clock()

    def _measure(self) -> None:
        """Add the time of the call that has just ended."""
        if self._started_at is not None:
            pace, seconds = self._services.pace, self._services.clock() - self._started_at
            pace.worked(self._batch.lane, seconds, together=self._together)
            self._started_at, self._running = None, ()

    def _set_aside_for(self, above: Lane, record: RawRecord, *, since: float) -> Reason | None:
        """Set this batch aside for a lane above; return why its rest has to return now or afterwards."""
        slot = self._slot
        if slot.leaves_to_others(above):
            return Reason.ASIDE
        self._serve(above)
        if self._is_given_back(record):
            return Reason.ASIDE
        # Also where the lane above has a record that needs a whole invocation, or it would be received again at once.
        if slot.time.is_over or not slot.time.has_time_for(self._batch.lane):
            return Reason.TIME
        waits_long = self._services.clock() - since > KEPT_ASIDE and not self._services.is_alone
        return Reason.ASIDE if waits_long else None

    def _is_paused(self, record: RawRecord) -> bool:
        """Whether the resource of a record was found away, so that none starts, nor is received to be returned."""
        breaker = self._services.corridor.attempts.breaker_of(record)
        return breaker is not None and breaker.seconds_left > 0

    def _is_given_back(self, record: RawRecord) -> bool:
        """Whether this batch was given back beside a record of another: then another slot may have it by now."""
        return self._outcomes.behind(record) is not None

    def _serve(self, above: Lane) -> None:
        """Serve a lane above; what this batch has finished need not wait for that."""
        self._delete_finished()
        self._slot.serve(above)
        if (tenants := self._services.tenants) is not None:
            # The other batch has published its own tenant, and then a free slot.
            tenants.begin(self._batch)

    def _delete_finished(self) -> None:
        left = [record for record, outcome in self._outcomes if not outcome.is_kept]
        if finished := [record for record in left if record.message_id not in self._deleted]:
            self._deleted.update(record.message_id for record in finished)
            self._slot.looks.delete(self._batch.lane, finished)

    def _most(self, call: Call) -> int:
        """Return how many records of a call may start with the first one."""
        rate = self._services.rate
        return 1 + sum(1 for _ in takewhile(lambda _: rate is None or rate.join(), call.records[1:]))

    def _wait_for_rate(self, record: RawRecord, *, is_ahead: bool) -> bool:
        """
        Wait until a record may start; return whether time is left, and it is still in hand.

        Lanes above are served meanwhile, unless the record is ahead of them.
        """
        slot, lane, rate = self._slot, self._batch.lane, self._services.rate
        # With an interval of 0 no time would pass between two looks.
        recheck = max(FRESH, self._services.config.consumer.recheck_interval.total_seconds())
        while rate is not None and not self._is_paused(record) and (wait := rate.wait()) > 0:
            self._services.sleep(min(wait, recheck))
            while not (is_ahead or self._is_paused(record)):
                if (above := slot.above(lane, expected=0.0)) is None:
                    break
                self._serve(above)
            if not slot.time.has_time_for(lane):
                return False
        # The rate may have taken the time that a record needs which is tried alone.
        if (
            self._is_given_back(record)
            or self._needs_whole_invocation(record)
            or not slot.time.has_time_for(lane)
        ):
            return False
        if rate is not None:
            rate.start()
        return True


def pause_crashed(batch: Batch, outcomes: Outcomes, *, max_attempts: int, delays: Delays) -> None:
    """Return the records whose last attempt killed its process, unless that was the last one."""
    for record in batch.records:
        entry = outcomes.entries[record.message_id]
        is_last = bool(entry.given_up) or entry.attempts >= max_attempts
        if entry.ending is Ending.STARTED and not is_last and outcomes.behind(record) is None:
            delay = delays.after_failure(batch.lane, attempt=entry.attempts)
            crashed = dataclasses.replace(entry, ending=Ending.CRASHED)
            outcomes.set(record, Outcome(entry=crashed, delay=delay, reason=Reason.CRASHED))


def to_try_alone(batch: Batch, outcomes: Outcomes) -> RawRecord | None:
    """Return the first record that has had its pause, if it is the first of its group."""
    groups: set[str] = set()
    for record in batch.records:
        if record.group not in groups and outcomes.entries[record.message_id].ending is Ending.CRASHED:
            return record
        groups.add(record.group)
    return None


def keep_others(batch: Batch, outcomes: Outcomes, alone: RawRecord) -> None:
    """Return all records of other groups at once."""
    if others := [record for record in batch.records if record.group != alone.group]:
        outcomes.keep(others, Outcome(delay=shortest_delay(others), reason=Reason.ASIDE))


def keep_crashed(batch: Batch, outcomes: Outcomes) -> None:
    """Return the records that have had their pause for the next invocation, which comes at once."""
    for record in batch.records:
        if outcomes.entries[record.message_id].ending is Ending.CRASHED:
            outcomes.keep([record], Outcome(delay=shortest_delay([record]), reason=Reason.TIME))


def is_suspect(entry: Entry) -> bool:
    """Whether a record may have killed its process in an attempt that nothing announced, and was not tried since."""
    return entry.suspect and entry.attempts == 0
