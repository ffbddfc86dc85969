"""
The corridor: one batch, from its preparation to its last outcome.

Read `Corridor.run` and `Corridor._work` from top to bottom. Every record begins as returned, and only a known better
outcome replaces that: an error anywhere keeps the records that it interrupts.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING

from lanes.consumer import telemetry as report
from lanes.consumer.breakers import SHORTEST
from lanes.consumer.calls import next_call
from lanes.consumer.engines import Proceed, Turn
from lanes.consumer.ledger import Ending
from lanes.consumer.outcome import BEHIND, Outcome, Outcomes, Reason, shortest_delay
from lanes.consumer.signals import Yielded
from lanes.errors import AwsError
from lanes.events import Event
from lanes.metrics import Metric

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lanes.consumer.attempts import Attempts
    from lanes.consumer.breakers import Breaker
    from lanes.consumer.calls import Call
    from lanes.consumer.interceptors import Interception, Interceptor
    from lanes.consumer.records import Batch, RawRecord
    from lanes.consumer.settlement import Settlement


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Corridor:
    """Takes batches from their preparation to their last outcome."""

    interceptors: Sequence[Interceptor]
    attempts: Attempts
    settlement: Settlement

    def run(self, batch: Batch, turn: Turn) -> Outcomes:
        """Decide and settle every record. No error leaves it, and an interrupt only after the turn is closed."""
        batch = self.attempts.decoded(batch)
        outcomes = Outcomes(batch.records, {})
        try:
            if self._prepare(batch, turn, outcomes):
                self._work(batch, turn, outcomes)
        except Exception:  # noqa: BLE001 - finished records stay finished, whatever fails after them
            report.interrupted(self.settlement.telemetry, batch.lane, outcomes.undecided)
        finally:
            turn.close(outcomes)
        return outcomes

    def _prepare(self, batch: Batch, turn: Turn, outcomes: Outcomes) -> bool:
        """Look up the entries and keep the records invisible; if that fails, keep all records and return False."""
        problem, telemetry = Event.LEDGER_NOT_READ, self.settlement.telemetry
        try:
            outcomes.entries = self.settlement.ledger.entries_of(batch.lane.name, batch.records)
            problem = Event.RECORDS_NOT_HELD
            if lost := turn.hold(outcomes):
                outcomes.lose(lost)
                # Settlement reports the rest of their groups.
                expired = [record for record in batch.records if record.message_id in lost]
                fields = {"reason": Reason.EXPIRED, "delay": None}
                report.together(telemetry, Event.BATCH_RETURNED, batch.lane, expired, **fields)
        except AwsError:
            self._return_unprepared(batch, outcomes, problem)
            return False
        report.received(telemetry, batch.records, outcomes.entries)
        return True

    def _return_unprepared(self, batch: Batch, outcomes: Outcomes, problem: Event) -> None:
        """Report a failed call, in an `except` block, and return every record for the time of a yield."""
        report.failed_call(self.settlement.telemetry, problem, lane=batch.lane.name)
        # Not at once: the call that failed is made again with the next receive.
        delay = self.settlement.delays.after_yield(batch.lane, batch.records).delay
        outcomes.keep(batch.records, Outcome(delay=delay, reason=Reason.UNPREPARED))

    def _work(self, batch: Batch, turn: Turn, outcomes: Outcomes) -> None:
        """Decide the records in order, until one of them has to leave the rest undone."""
        try:
            interceptions = [part for interceptor in self.interceptors for part in interceptor.begin(batch)]
        except AwsError:
            self._return_unprepared(batch, outcomes, Event.OVERRIDES_NOT_READ)
            return
        for record in batch.records:
            # Before an override may move it, or a handler run it again: only a call after it was refused.
            entry = outcomes.entries[record.message_id]
            if entry.end:
                self._conclude(batch, outcomes, record, Outcome(ending=Ending.DONE, end=entry.end))
            elif entry.ending is Ending.DONE:
                outcomes.set(record, self.attempts.skipped(batch.lane, record))
            # Before effects, runs and overlaps: a sender to this lane alone must not reach those of others.
            elif refused := self.attempts.not_taken(batch.lane, record, entry):
                self._conclude(batch, outcomes, record, refused)
        if interceptions:
            self._admit_all(batch, outcomes, interceptions)
        while rest := outcomes.undecided:
            if behind := outcomes.behind(rest[0]):
                outcomes.keep(rest[:1], behind)
            elif not self._decide(batch, turn, outcomes, rest, interceptions):
                return

    def _decide(
        self,
        batch: Batch,
        turn: Turn,
        outcomes: Outcomes,
        rest: Sequence[RawRecord],
        interceptions: Sequence[Interception],
    ) -> bool:
        """Decide the first record of the rest; return False if all of the rest stays."""
        record, lane = rest[0], batch.lane
        # Before the turn decides: when the pause has ended, the most urgent record comes first.
        if (breaker := self.attempts.breaker_of(record)) is not None:
            rest = self._next_try(batch, outcomes, rest, breaker)
            if not rest:
                return True
            record = rest[0]
        if batch.milliseconds_left() / 1000 < self.attempts.needed[lane.name]:
            outcomes.keep(rest, Outcome(delay=shortest_delay(rest), reason=Reason.TIME))
            return False
        # For the first time behind a record that stayed before.
        if interceptions and self._admit(batch, outcomes, interceptions, record):
            return True
        call = self._next_call(batch, outcomes, rest, interceptions)
        longest = self.attempts.longest[lane.name]
        goes_ahead = breaker is not None and self.attempts.goes_ahead(lane, breaker)
        has_worked = outcomes.finished > 0
        way = turn.decide(rest, call, expected=longest, has_worked=has_worked, goes_ahead=goes_ahead)
        if not isinstance(way, Proceed):
            self._keep_rest(batch, outcomes, rest, way)
            return False
        if not way.most:
            return True
        if len(call.records) > 1:
            call = call.only(call.records, most=1 if breaker else way.most)
        began = way.reserve.monotonic() if way.reserve else 0.0
        check = partial(_check, batch, turn, way)
        attempts = self.attempts.run(batch, call, outcomes.entries, interceptions, check=check, way=way)
        yielded = self._take(batch, outcomes, attempts)
        if way.reserve:
            way.reserve.charge(way.waited + way.reserve.monotonic() - began)
            self.settlement.telemetry.count(Metric.RESERVE)
        if yielded is not None:
            self._yield_in_mid_work(batch, turn, outcomes, yielded)
        return yielded is None

    def _next_try(
        self, batch: Batch, outcomes: Outcomes, rest: Sequence[RawRecord], breaker: Breaker
    ) -> Sequence[RawRecord]:
        """Return the rest, the record first that tries a resource which is away; none if no record may start now."""
        attempts, lane = self.attempts, batch.lane
        pause, several = breaker.seconds_left, attempts.has_several_resources
        left = batch.seconds_left - attempts.needed[lane.name]
        waits = not (attempts.slots_wait or several) and len(rest) == len(batch.records)
        if pause and waits and left > 0 and not batch.is_stopped():
            # The wait is billed, but each return would use up a receive, of which SQS grants a thousand.
            attempts.breakers.wait(pause, left=left)
            return ()
        waiting = rest[:1] if several else rest
        if pause:
            for record in waiting:
                away = attempts.until_next_try(lane, record, breaker)
                outcomes.keep([record], outcomes.behind(record) or away)
            return ()
        if not breaker.waits_for_others:
            return rest
        another = self._another(outcomes, waiting)
        if not attempts.passes(lane, breaker, another, records=len(waiting)):
            return [another, *(one for one in rest if one is not another)] if another else rest
        breaker.passed += lane.position > 0
        breaker.is_left |= another is None and lane.position == 0
        for record in waiting:
            outcomes.keep([record], outcomes.behind(record) or attempts.until_back(lane, record, SHORTEST))
        return ()

    def _another(self, outcomes: Outcomes, rest: Sequence[RawRecord]) -> RawRecord | None:
        """Return the youngest record that has not said that its resource is away: those that always do stay behind."""
        first = {record.group: record for record in reversed(rest)}
        others = [one for one in first.values() if not outcomes.entries[one.message_id].away_since]
        return next((one for one in others if outcomes.behind(one) is None), None)

    def _next_call(
        self,
        batch: Batch,
        outcomes: Outcomes,
        rest: Sequence[RawRecord],
        interceptions: Sequence[Interception],
    ) -> Call:
        """Return the call of the first record; of the others, those that are to be handled."""
        call = next_call(rest, outcomes, resolve=self.attempts.resolve)
        if len(call.records) == 1 or not interceptions:
            return call
        others = [one for one in call.records[1:] if not self._admit(batch, outcomes, interceptions, one)]
        return call.only([call.records[0], *others], most=len(call.records))

    def _take(
        self, batch: Batch, outcomes: Outcomes, attempts: Iterable[tuple[RawRecord, Outcome]]
    ) -> Outcome | None:
        """Decide the records of a call; return the outcome of one that yielded, which is not decided."""
        yielded = None
        for record, outcome in attempts:
            if outcome.ending is Ending.YIELDED:
                yielded = outcome
                if outcome.entry is not None:
                    outcomes.entries[record.message_id] = outcome.entry
            else:
                self._conclude(batch, outcomes, record, outcome)
        return yielded

    def _conclude(self, batch: Batch, outcomes: Outcomes, record: RawRecord, outcome: Outcome) -> None:
        """Decide a record; first send its dead letter, or record the end of a run's member."""
        lane = batch.lane
        # Not left to the queue, which counts receives, those of yields and throttles among them
        # (docs/decisions.md#attempts-in-a-ledger).
        if outcome.ending is Ending.DEAD_LETTERED:
            outcome = self.settlement.dead_letter(lane, record, outcome)
        # Now, not with the batch: if it can't be recorded, the later records of the group stay as well.
        elif outcome.end:
            entry = outcomes.entries[record.message_id]
            outcome = self.settlement.unrecorded(lane, record, entry, outcome.end) or outcome
        outcomes.set(record, outcome)
        is_asked_for = outcome.ending is Ending.FAILED or outcome.reason in (Reason.EARLY, Reason.ALONE)
        if is_asked_for and (outcome.delay or 0) > batch.seconds_left:
            self._settle_at_once(batch, outcomes, record, outcome)

    def _settle_at_once(self, batch: Batch, outcomes: Outcomes, record: RawRecord, outcome: Outcome) -> None:
        """Settle a record that stays away for longer than this invocation lasts, and those behind it in its group."""
        rest = outcomes.undecided
        behind = [one for one in rest if one.group == record.group]
        if len(behind) == len(rest):
            return
        # One of the others may kill this process, and the records would be back with the end of its visibility.
        outcomes.keep(behind, BEHIND)
        together = Outcomes([record, *behind], outcomes.entries)
        together.set(record, outcome)
        together.keep(behind, BEHIND)
        self.settlement.settle(batch, together)
        outcomes.lose([one.message_id for one in (record, *behind)])

    def _admit_all(self, batch: Batch, outcomes: Outcomes, interceptions: Sequence[Interception]) -> None:
        """Admit records before any is handled or yields: a record that is not handled needs no slot."""
        staying: set[str] = set()
        for record in batch.records:
            # Behind one that stays, a message that is sent on might overtake it.
            if record.group in staying or outcomes.behind(record) or not outcomes[record].is_kept:
                continue
            if batch.is_over or not self._admit(batch, outcomes, interceptions, record):
                staying.add(record.group)

    def _admit(
        self, batch: Batch, outcomes: Outcomes, interceptions: Sequence[Interception], record: RawRecord
    ) -> bool:
        """Decide a record that is not to be handled; return False for all others."""
        entry = outcomes.entries[record.message_id]
        outcome = next((found for part in interceptions if (found := part.admit(record, entry))), None)
        if outcome is None:
            return False
        for part in reversed(interceptions):
            outcome = part.after(record, outcome)
        self._conclude(batch, outcomes, record, outcome)
        return True

    def _keep_rest(
        self, batch: Batch, outcomes: Outcomes, rest: Sequence[RawRecord], outcome: Outcome
    ) -> None:
        outcomes.keep(rest, outcome)
        if outcome.ending is not Ending.YIELDED:
            return
        fields = {"to_lane": outcome.to.name if outcome.to else None, "delay": outcome.delay}
        report.together(self.settlement.telemetry, Event.BATCH_YIELDED, batch.lane, rest, **fields)

    def _yield_in_mid_work(self, batch: Batch, turn: Turn, outcomes: Outcomes, outcome: Outcome) -> None:
        """Keep the rest after the handler of its first record left at a checkpoint: the attempt doesn't count."""
        rest = outcomes.undecided
        if batch.is_over:
            outcomes.keep(rest, Outcome(delay=shortest_delay(rest), reason=Reason.TIME))
        else:
            self._keep_rest(batch, outcomes, rest, turn.yielded(rest, to=outcome.to))


def _check(batch: Batch, turn: Turn, way: Proceed) -> None:
    """Serve a checkpoint: raise `Yielded` if the handler has to leave."""
    if batch.is_over:
        raise Yielded
    if way.may_yield and (to := turn.checkpoint()) is not None:
        raise Yielded(to)
