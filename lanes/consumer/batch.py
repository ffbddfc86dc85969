"""The records of one invocation, one after the other: each is handled, diverted, given up, or goes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.consumer import delays
from lanes.consumer.closing import Closing
from lanes.consumer.diversion import DeadLettered, Gone, Later
from lanes.consumer.giving_up import Kept
from lanes.consumer.invocation import SETTLING
from lanes.consumer.making_way import LAST_RECEIVE, MakingWay
from lanes.consumer.outcomes import Failed, GivenUp, Handled, MadeWay, Postponed
from lanes.consumer.reports import (
    report_dead_lettered,
    report_failed,
    report_handled,
    report_shared,
)
from lanes.consumer.returns import Returns, is_wakeable
from lanes.consumer.settlement import Reason, Why
from lanes.consumer.telemetry import Metric
from lanes.errors import AwsError

if TYPE_CHECKING:
    from lanes.consumer.dead_letters import DeadLetterNote
    from lanes.consumer.diversion import View
    from lanes.consumer.invocation import Invocation
    from lanes.consumer.outcomes import Outcome
    from lanes.consumer.parts import Parts
    from lanes.consumer.records import RawRecord


class Batch:
    """
    Goes through the records of one invocation in order.

    A record counts as kept until it is known to be done, so an error anywhere keeps what it interrupts.
    """

    _view: View  # once it is prepared

    def __init__(self, parts: Parts, invocation: Invocation) -> None:
        self._parts = parts
        self._invocation = invocation
        self._lane = invocation.lane
        self._records = invocation.records
        self._way = MakingWay(parts, invocation)
        self._returns = Returns(parts, invocation)

    def run(self) -> list[RawRecord]:
        """Work through the records and return those to keep in the queue."""
        parts = self._parts
        try:
            if self._prepare():
                self._share()
                self._work()
        except Exception:  # noqa: BLE001 - whatever went wrong here, what was done is told apart from what was not
            parts.telemetry.problem("batch_interrupted", lane=self._lane.name)
        finally:
            Closing(parts, self._invocation, self._returns).close()
        return self._invocation.rest()

    def _prepare(self) -> bool:
        """Find out what the records are and hold them; return False, with all sent back, where that can't be done."""
        parts, invocation = self._parts, self._invocation
        step = "ledger_not_read"
        try:
            invocation.entries = parts.intake.look_up(self._lane, self._records)
            step = "records_not_held"
            seconds = invocation.seconds_left() + SETTLING
            invocation.lose(parts.intake.hold(self._lane, self._records, invocation.entries, seconds=seconds))
            step = "overrides_not_read"
            self._view = parts.diversions.look(self._lane, self._records)
        except AwsError:
            parts.telemetry.problem(step, lane=self._lane.name)
            parts.telemetry.count(Metric.AWS_ERRORS)
            self._returns.add_unprepared()
            return False
        self._divert_ahead()
        return len(invocation.done) < len(self._records) and self._enter()

    def _enter(self) -> bool:
        """Have a slot and tell the others; return False, with all sent back, where there is none."""
        parts = self._parts
        try:
            if parts.seat.enter(
                self._lane,
                records=len(self._records),
                deadline=self._invocation.deadline,
                patience=self._way.patience,
                overdue=lambda: parts.reserve.admits(self._lane, self._records[0]),
                lasts=self._way.lasts,
                tenant=self._tenant(self._records[0]) if parts.fairness.concerns(self._lane) else "",
            ):
                return True
        except AwsError:
            parts.telemetry.problem("slot_not_entered", lane=self._lane.name)
            parts.telemetry.count(Metric.AWS_ERRORS)
            if not parts.seat.has_room:
                # Unregistered, its records look as if they waited: others may yield once too often.
                return True
        if parts.gate.is_highest(self._lane):
            self._returns.add_for_time(0)
        else:
            self._returns.add_yielded(0)
        return False

    def _divert_ahead(self) -> None:
        """Divert what can be before anything is handled or makes way: a record that is not handled needs no slot."""
        if self._view.is_empty:
            return
        staying: set[str] = set()
        for record in self._records:
            # Behind one that stays, a message that is sent on might overtake it.
            if record.group not in staying and not self._returns.blocks(record):
                self._diverted(record)
            if record.message_id not in self._invocation.done:
                staying.add(record.group)

    def _diverted(self, record: RawRecord) -> bool:
        """Divert a record if it is to be; it is done then, or goes back."""
        parts = self._parts
        if self._view.is_empty or self._invocation.is_over:
            return False
        entry = self._invocation.entries[record.message_id]
        if entry.given_up and record.group not in self._view.holds:
            return False
        try:
            diverted = parts.diversions.divert(self._lane, record, self._view)
        except AwsError:
            parts.telemetry.problem(
                "message_not_diverted", lane=self._lane.name, message_id=record.message_id
            )
            parts.telemetry.count(Metric.AWS_ERRORS)
            diverted = Later(delay=delays.backoff(parts.settings, self._lane, attempt=1, random=parts.random))
        match diverted:
            case None:
                return False
            case Gone():
                self._finish(record)
            case Later():
                self._returns.add(record, Why.BEHIND, delay=diverted.delay, reason=Reason.DIVERTED)
            case DeadLettered():
                outcome = GivenUp(entry=entry, reason=diverted.reason, error=diverted.error)
                self._end(record, outcome, parts.giving_up.dead_letter(self._lane, record, outcome))
        return True

    def _tenant(self, record: RawRecord) -> str:
        return self._lane.tenant_of(record.group)

    def _share(self) -> None:
        """Park what a tenant has beyond its share of slots; what others have in the batch goes on."""
        parts, lane = self._parts, self._lane
        if not parts.fairness.concerns(lane):
            return
        waiting = self._invocation.rest()
        for tenant in dict.fromkeys(map(self._tenant, waiting)):
            mine = [record for record in waiting if self._tenant(record) == tenant]
            most_received = max(record.receive_count for record in mine)
            if most_received >= LAST_RECEIVE or not parts.fairness.makes_way(lane, tenant, mine):
                continue
            usual = delays.yield_delay(lane, receive_count=most_received, random=parts.random)
            delay = max(usual, parts.fairness.parked_for(parts.random))
            wakeable = is_wakeable(lane, most_received)
            for record in mine:
                self._returns.add(record, Why.YIELDED, delay=delay, wakeable=wakeable)
            report_shared(parts.telemetry, lane, mine, tenant=tenant, delay=delay)

    def _work(self) -> None:
        for position, record in enumerate(self._records):
            if record.message_id in self._invocation.done:
                continue
            if self._returns.blocks(record):
                self._returns.add(record, Why.BEHIND, delay=0, reason=Reason.BEHIND)
            elif self._diverted(record):
                continue
            elif self._way.is_too_late():
                self._returns.add_for_time(position)
                return
            elif self._way.must_yield(record):
                self._returns.add_yielded(position, to=self._way.to, known=self._way.known)
                return
            elif self._handle(record):
                return

    def _handle(self, record: RawRecord) -> bool:
        """Handle one record; return whether the rest of the batch has to make way."""
        parts, invocation = self._parts, self._invocation
        began = parts.clock()
        entry = invocation.entries[record.message_id]
        self._way.begins()
        try:
            outcome = parts.attempts.run(
                self._lane, record, entry, check=self._way.check, seconds_left=invocation.seconds_left
            )
        except AwsError:
            # Its attempt could not be announced or its effect not be claimed: it has not begun.
            parts.telemetry.problem("attempt_not_begun", lane=self._lane.name, message_id=record.message_id)
            parts.telemetry.count(Metric.AWS_ERRORS)
            delay = delays.backoff(parts.settings, self._lane, attempt=1, random=parts.random)
            outcome = Postponed(entry=entry, delay=delay, reason=Reason.NOT_BEGUN)
        finally:
            self._way.ends(parts.clock() - began)
        return self._classify(record, outcome)

    def _classify(self, record: RawRecord, outcome: Outcome) -> bool:
        parts = self._parts
        self._invocation.entries[record.message_id] = outcome.entry
        match outcome:
            case Handled():
                self._finish(record)
                report_handled(parts.telemetry, self._lane, record, outcome)
            case GivenUp():
                end = parts.giving_up.give_up(self._lane, record, outcome, self._view)
                self._end(record, outcome, end)
            case Failed():
                report_failed(parts.telemetry, self._lane, record, outcome)
                self._returns.add(record, Why.FAILED, delay=outcome.delay)
            case Postponed():
                self._returns.add(record, Why.BEHIND, delay=outcome.delay, reason=outcome.reason)
            case MadeWay():
                position = self._records.index(record)
                if self._invocation.is_over:
                    self._returns.add_for_time(position)
                else:
                    self._returns.add_yielded(position, to=self._way.to)
                return True
        return False

    def _end(self, record: RawRecord, outcome: GivenUp, end: DeadLetterNote | Kept) -> None:
        """Take in what became of a record that was given up."""
        if isinstance(end, Kept):
            self._invocation.entries[record.message_id] = end.entry
            self._returns.add(record, Why.FAILED, delay=end.delay)
        else:
            self._finish(record)
            report_dead_lettered(self._parts.telemetry, self._lane, record, end, outcome.work)

    def _finish(self, record: RawRecord) -> None:
        """Count a record as done."""
        self._invocation.done.add(record.message_id)
        try:
            self._parts.diversions.done(self._lane, record, self._view)
        except AwsError:
            # The hold of its group goes on until the next message of the group has passed.
            self._parts.telemetry.problem(
                "copy_not_noted", lane=self._lane.name, message_id=record.message_id
            )
