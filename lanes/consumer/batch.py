"""One invocation: the records of one lane in their order, and what is answered."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from lanes.consumer import delays
from lanes.consumer.attempts import Attempts, Failed, GivenUp, Handled, MadeWay, Postponed
from lanes.consumer.context import Yielded
from lanes.consumer.dead_letters import DeadLetterNote
from lanes.consumer.diversion import DeadLettered, Gone, Later, View
from lanes.consumer.reports import (
    report_dead_lettered,
    report_failed,
    report_handled,
    report_shared,
    report_yielded,
)
from lanes.consumer.settlement import Reason, Returned, Settlement, Why
from lanes.consumer.telemetry import Metric
from lanes.errors import AwsError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from lanes.config import ConsumerSettings, Lane
    from lanes.consumer.attempts import Outcome
    from lanes.consumer.dead_letters import DeadLetters
    from lanes.consumer.diversion import Diversions
    from lanes.consumer.fairness import Fairness
    from lanes.consumer.gate import Gate
    from lanes.consumer.intake import Intake
    from lanes.consumer.ledger import Entry
    from lanes.consumer.memory import OwnNotes
    from lanes.consumer.records import RawRecord
    from lanes.consumer.reserve import Reserve
    from lanes.consumer.telemetry import Telemetry
    from lanes.consumer.waking import Waker

SETTLING = 1.0
"""Seconds of the function's time kept for settling what goes back."""

WAKING, WAKING_SHARE = 2.0, 0.2
"""Seconds, and share of the function timeout, that must be left to wake others: the answer must not be late for it."""

WAITING_SHARE = 1 / 3
"""Most share of the function timeout for which a batch waits for a slot: the rest is for its records."""

WHOLE_INVOCATION = 0.9
"""Share of the function timeout beyond which a record is tried all the same: it would fit nowhere."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What every invocation of one environment shares."""

    settings: ConsumerSettings
    gate: Gate
    attempts: Attempts
    intake: Intake
    diversions: Diversions
    dead_letters: DeadLetters
    settlement: Settlement
    waker: Waker
    reserve: Reserve
    fairness: Fairness
    notes: OwnNotes
    telemetry: Telemetry
    clock: Callable[[], float]
    random: Random
    longest: dict[str, float] = dataclasses.field(default_factory=dict)


DEAD_LETTER_AGAIN = 120
"""
Most seconds until a dead letter that failed to be sent is sent again.

AWS: SQS recognises a repeated deduplication id for five minutes (SendMessage), and the first one may have arrived.
"""

LAST_RECEIVE = 1000
"""AWS: the largest maxReceiveCount. A record received so often is handled rather than yielded to its end."""


class Batch:
    """
    One invocation's records, each handled, given up, or kept.

    A record counts as kept until it is known to be done, so an error anywhere keeps what it interrupts.
    """

    def __init__(
        self,
        parts: Parts,
        lane: Lane,
        records: Sequence[RawRecord],
        *,
        name: str,
        seconds_left: Callable[[], float],
    ) -> None:
        self._parts = parts
        self._lane = lane
        self._records = records
        self._name = name
        self._seconds_left = seconds_left
        self._entries: dict[str, Entry] = {}
        self._view = View()
        self._done: set[str] = set()
        self._lost: set[str] = set()
        self._returned: dict[str, Returned] = {}
        self._brief = False
        self._yields_to: Lane | None = None
        self._overdue = False
        self._last_chance = False
        self._began_at = parts.clock()

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
            self._close()
        return [record for record in self._records if record.message_id not in self._done]

    def _prepare(self) -> bool:
        """Find out what the records are and hold them; return False, with all sent back, where that can't be done."""
        parts = self._parts
        step = "ledger_not_read"
        try:
            self._entries = parts.intake.look_up(self._lane, self._records)
            step = "records_not_held"
            seconds = self._seconds_left() + SETTLING
            self._lost = parts.intake.hold(self._lane, self._records, self._entries, seconds=seconds)
            step = "overrides_not_read"
            self._view = parts.diversions.look(self._lane, self._records)
        except AwsError:
            parts.telemetry.problem(step, lane=self._lane.name)
            parts.telemetry.count(Metric.AWS_ERRORS)
            delay = delays.yield_delay(self._lane, receive_count=1, random=parts.random)
            self._return_rest(0, Why.BEHIND, delay=delay, reason=Reason.UNPREPARED)
            return False
        self._divert_ahead()
        return len(self._done) < len(self._records) and self._enter()

    def _enter(self) -> bool:
        """Have a slot and tell the others; return False, with all sent back, where there is none."""
        parts = self._parts
        overdue = parts.reserve.admits(self._lane, self._records[0])
        try:
            if parts.gate.enter(
                self._lane,
                records=len(self._records),
                deadline=self._deadline,
                patience=self._patience,
                overdue=overdue,
                tenant=self._tenant(self._records[0]) if parts.fairness.concerns(self._lane) else "",
            ):
                return True
        except AwsError:
            parts.telemetry.problem("slot_not_entered", lane=self._lane.name)
            parts.telemetry.count(Metric.AWS_ERRORS)
            if not parts.gate.has_room:
                # Unregistered, its records look as if they waited: others may yield once too often.
                return True
        if parts.gate.is_highest(self._lane):
            self._return_for_time(0)
        else:
            self._yield_rest(0)
        return False

    @property
    def _deadline(self) -> float:
        return self._parts.clock() + self._seconds_left()

    def _divert_ahead(self) -> None:
        """Divert what can be before anything is handled or makes way: a record that is not handled needs no slot."""
        if self._view.is_empty:
            return
        staying: set[str] = set()
        for record in self._records:
            # Behind one that stays, a message that is sent on might overtake it.
            if record.group not in staying and not self._group_lost(record):
                self._diverted(record)
            if record.message_id not in self._done:
                staying.add(record.group)

    def _diverted(self, record: RawRecord) -> bool:
        """Divert a record if it is to be; it is done then, or goes back."""
        parts = self._parts
        if self._view.is_empty or self._seconds_left() < SETTLING:
            return False
        if self._entries[record.message_id].given_up and record.group not in self._view.holds:
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
                self._return(record, Why.BEHIND, delay=diverted.delay, reason=Reason.DIVERTED)
            case DeadLettered():
                entry = self._entries[record.message_id]
                self._dead_letter(record, GivenUp(entry=entry, reason=diverted.reason, error=diverted.error))
        return True

    def _tenant(self, record: RawRecord) -> str:
        return self._lane.tenant_of(record.group)

    def _share(self) -> None:
        """Park what a tenant has beyond its share of slots; what others have in the batch goes on."""
        parts, lane = self._parts, self._lane
        if not parts.fairness.concerns(lane):
            return
        waiting = [record for record in self._records if record.message_id not in self._done]
        for tenant in dict.fromkeys(map(self._tenant, waiting)):
            mine = [record for record in waiting if self._tenant(record) == tenant]
            most_received = max(record.receive_count for record in mine)
            if most_received >= LAST_RECEIVE or not parts.fairness.makes_way(lane, tenant, mine):
                continue
            usual = delays.yield_delay(lane, receive_count=most_received, random=parts.random)
            delay = max(usual, parts.fairness.parked_for(parts.random))
            wakeable = delays.receive_floor(most_received) <= lane.yield_delay_max.total_seconds()
            for record in mine:
                self._return(record, Why.YIELDED, delay=delay, wakeable=wakeable)
            report_shared(parts.telemetry, lane, mine, tenant=tenant, delay=delay)

    def _leaves_share(self) -> bool:
        """Whether it leaves a slot to a tenant that holds less than its share and may have records parked."""
        parts, lane = self._parts, self._lane
        if not parts.fairness.concerns(lane):
            return False
        elsewhere = parts.gate.busy_with(lane, self._tenant(self._records[0]))
        again = any(record.receive_count > 1 for record in self._records)
        return (again or elsewhere > 0) and elsewhere < parts.fairness.most(lane)

    def _finish(self, record: RawRecord) -> None:
        """Count a record as done."""
        self._done.add(record.message_id)
        try:
            self._parts.diversions.done(self._lane, record, self._view)
        except AwsError:
            # The hold of its group goes on until the next message of the group has passed.
            self._parts.telemetry.problem(
                "copy_not_noted", lane=self._lane.name, message_id=record.message_id
            )

    def _work(self) -> None:
        for position, record in enumerate(self._records):
            if record.message_id in self._done:
                continue
            group_returns = any(other.record.group == record.group for other in self._returned.values())
            if group_returns or self._group_lost(record):
                self._return(record, Why.BEHIND, delay=0, reason=Reason.BEHIND)
            elif self._diverted(record):
                continue
            elif self._too_late():
                self._return_for_time(position)
                return
            elif self._must_yield(record):
                self._yield_rest(position)
                return
            elif self._handle(record):
                return

    def _group_lost(self, record: RawRecord) -> bool:
        """Whether this or an earlier record of the group may be with another invocation by now."""
        return any(other.group == record.group for other in self._records if other.message_id in self._lost)

    def _too_late(self) -> bool:
        return self._seconds_left() < self._needed

    @property
    def _needed(self) -> float:
        """Seconds that must be left for the next record."""
        settings = self._parts.settings
        likely = self._parts.longest.get(self._lane.name, 0.0)
        if settings.record_time is not None:
            likely = max(likely, settings.record_time.total_seconds())
        return min(likely + SETTLING, settings.function_timeout.total_seconds() * WHOLE_INVOCATION)

    @property
    def _patience(self) -> float:
        """Seconds to wait for a slot: a share of the time there is, and no longer than a record could begin."""
        share = self._parts.settings.function_timeout.total_seconds() * WAITING_SHARE
        return max(0.0, min(share, self._seconds_left() - self._needed))

    def _must_yield(self, record: RawRecord) -> bool:
        """Whether the record has to make way; not knowing is a reason to, so a failed reading yields."""
        parts = self._parts
        self._overdue, self._yields_to = False, None
        self._last_chance = record.receive_count >= LAST_RECEIVE
        if self._last_chance:
            return False
        try:
            above = parts.gate.lane_above(self._lane, expected=parts.longest.get(self._lane.name, 0.0))
        except AwsError:
            parts.telemetry.problem("higher_lanes_unknown", lane=self._lane.name)
            parts.telemetry.count(Metric.AWS_ERRORS)
            return True
        if above is None:
            return False
        if self._done:
            # Records of this lane ran since the last look, and what waits now may have waited as long.
            since = max(parts.gate.clear_at, self._began_at)
            parts.telemetry.milliseconds(Metric.INVERSION, (parts.clock() - since) * 1000)
        self._overdue = parts.gate.serves_overdue and parts.reserve.admits(self._lane, record)
        self._yields_to = above
        # The whole batch goes back on what was known already: alone, this environment remembers it well enough, and
        # the sooner the slot is free again, the likelier it is free when the higher lane tries.
        self._brief = parts.gate.knew and not self._done and not self._returned
        return not self._overdue and not self._waits_in_place()

    def _waits_in_place(self) -> bool:
        """Make way without sending anything back, where there is a waiting room; return whether the slot came back."""
        parts = self._parts
        left = len(self._records) - len(self._done)
        try:
            back = parts.gate.waits_in_place(
                self._lane, records=left, deadline=self._deadline, patience=self._patience
            )
        except AwsError:
            parts.telemetry.problem("slot_not_entered", lane=self._lane.name)
            parts.telemetry.count(Metric.AWS_ERRORS)
            return False
        return back and not self._too_late()

    def _check(self) -> None:
        """Serve `context.checkpoint`."""
        if self._seconds_left() < SETTLING:
            raise Yielded
        if self._overdue or self._last_chance:
            return
        try:
            above = self._parts.gate.lane_above(self._lane, expected=0.0)
        except AwsError:
            # In mid-work, going on loses least: the state is asked again before the next record.
            self._parts.telemetry.problem("higher_lanes_unknown", lane=self._lane.name)
            return
        if above is not None:
            self._yields_to = above
            raise Yielded

    def _handle(self, record: RawRecord) -> bool:
        """Handle one record; return whether the rest of the batch has to make way."""
        parts = self._parts
        began = parts.clock()
        entry = self._entries[record.message_id]
        try:
            outcome = parts.attempts.run(
                self._lane, record, entry, check=self._check, seconds_left=self._seconds_left
            )
        except AwsError:
            # Its attempt could not be announced or its effect not be claimed: it has not begun.
            parts.telemetry.problem("attempt_not_begun", lane=self._lane.name, message_id=record.message_id)
            parts.telemetry.count(Metric.AWS_ERRORS)
            delay = delays.backoff(parts.settings, self._lane, attempt=1, random=parts.random)
            outcome = Postponed(entry=entry, delay=delay, reason=Reason.NOT_BEGUN)
        took = parts.clock() - began
        parts.longest[self._lane.name] = max(parts.longest.get(self._lane.name, 0.0), took)
        if self._overdue:
            parts.reserve.spend(took)
            parts.telemetry.count(Metric.RESERVE)
        return self._classify(record, outcome)

    def _classify(self, record: RawRecord, outcome: Outcome) -> bool:
        parts = self._parts
        self._entries[record.message_id] = outcome.entry
        match outcome:
            case Handled():
                self._finish(record)
                report_handled(parts.telemetry, self._lane, record, outcome)
            case GivenUp():
                self._give_up(record, outcome)
            case Failed():
                report_failed(parts.telemetry, self._lane, record, outcome)
                self._return(record, Why.FAILED, delay=outcome.delay)
            case Postponed():
                self._return(record, Why.BEHIND, delay=outcome.delay, reason=outcome.reason)
            case MadeWay():
                if self._seconds_left() < SETTLING:
                    self._return_for_time(self._records.index(record))
                else:
                    self._yield_rest(self._records.index(record))
                return True
        return False

    def _return_for_time(self, position: int) -> None:
        """Send the rest back at once; later and later where a record comes again and again without finding time."""
        most_received = max(record.receive_count for record in self._records[position:])
        delay = math.floor(delays.receive_floor(most_received))
        self._return_rest(position, Why.BEHIND, delay=delay, reason=Reason.TIME)

    def _give_up(self, record: RawRecord, outcome: GivenUp) -> None:
        """Dead-letter a record, once its group is held if its kind asks for that."""
        parts = self._parts
        if not parts.diversions.holds_group(record, self._view):
            self._dead_letter(record, outcome)
            return
        try:
            delay = parts.diversions.hold(
                self._lane, record, self._view, reason=outcome.reason, error=outcome.error
            )
        except AwsError:
            parts.telemetry.problem("group_not_held", lane=self._lane.name, message_id=record.message_id)
            self._keep_given_up(record, outcome)
            return
        if delay:
            self._keep_given_up(record, outcome, delay=delay)
        else:
            self._dead_letter(record, outcome)

    def _keep_given_up(self, record: RawRecord, outcome: GivenUp, *, delay: int | None = None) -> None:
        """Keep a record that can't be dead-lettered yet, and what was decided; without a delay for its backoff."""
        parts, entry = self._parts, outcome.entry
        self._entries[record.message_id] = dataclasses.replace(
            entry, given_up=outcome.reason, last_error=outcome.error
        )
        if delay is None:
            attempt = max(1, entry.attempts)
            backoff = delays.backoff(parts.settings, self._lane, attempt=attempt, random=parts.random)
            delay = min(backoff, DEAD_LETTER_AGAIN)
        self._return(record, Why.FAILED, delay=delay)

    def _dead_letter(self, record: RawRecord, outcome: GivenUp) -> None:
        parts, entry = self._parts, outcome.entry
        note = DeadLetterNote(
            reason=outcome.reason,
            error=outcome.error,
            attempts=entry.attempts,
            yields=entry.yields,
            receives=record.receive_count,
            first_received_at=record.first_received_at,
            dead_lettered_at=parts.clock(),
        )
        try:
            parts.dead_letters.dead_letter(self._lane.name, record, note)
        except AwsError:
            parts.telemetry.problem(
                "dead_letter_not_sent", lane=self._lane.name, message_id=record.message_id
            )
            self._keep_given_up(record, outcome)
            return
        self._finish(record)
        report_dead_lettered(parts.telemetry, self._lane, record, note, outcome.work)

    def _return(
        self,
        record: RawRecord,
        why: Why,
        *,
        delay: int,
        wakeable: bool = False,
        reason: Reason | None = None,
    ) -> None:
        self._returned.setdefault(
            record.message_id,
            Returned(
                record=record,
                entry=self._entries.get(record.message_id),
                why=why,
                delay=delay,
                wakeable=wakeable,
                reason=reason,
            ),
        )

    def _return_rest(
        self,
        position: int,
        why: Why,
        *,
        delay: int,
        wakeable: bool = False,
        reason: Reason | None = None,
    ) -> None:
        for record in self._records[position:]:
            if record.message_id not in self._done:
                self._return(record, why, delay=delay, wakeable=wakeable, reason=reason)

    def _yield_rest(self, position: int) -> None:
        rest = [record for record in self._records[position:] if record.message_id not in self._done]
        most_received = max((record.receive_count for record in rest), default=1)
        delay = delays.yield_delay(self._lane, receive_count=most_received, random=self._parts.random)
        wakeable = delays.receive_floor(most_received) <= self._lane.yield_delay_max.total_seconds()
        self._return_rest(position, Why.YIELDED, delay=delay, wakeable=wakeable)
        report_yielded(self._parts.telemetry, self._lane, rest, to=self._yields_to, delay=delay)

    def _close(self) -> None:
        """Leave the slot, settle what goes back, and wake parked records if nothing was in the way."""
        for step in (self._leave, self._settle, self._look_ahead, self._tell_time):
            try:
                step()
            except Exception:  # noqa: BLE001 - what was done stays done, whatever goes wrong after it
                self._parts.telemetry.problem("batch_not_closed", lane=self._lane.name)

    def _tell_time(self) -> None:
        self._parts.telemetry.milliseconds(Metric.BATCH, (self._parts.clock() - self._began_at) * 1000)

    def _leave(self) -> None:
        try:
            self._parts.gate.leave(self._lane, done=len(self._done), kept=len(self._returned))
        except AwsError:
            self._parts.telemetry.problem("slot_not_left", lane=self._lane.name)

    def _settle(self) -> None:
        parts = self._parts
        for item in self._returned.values():
            if (metric := _RETURNS.get(item.why)) is not None:
                parts.telemetry.count(metric)
        if mine := [item for item in self._returned.values() if item.record.message_id not in self._lost]:
            entries = parts.settlement.settle(self._lane, mine, batch=self._name, note=not self._brief)
            parts.gate.parks.note(entries, written=not self._brief)
            parts.notes.keep(entries)

    def _look_ahead(self) -> None:
        parts = self._parts
        yielded = any(item.why is Why.YIELDED for item in self._returned.values())
        if yielded or self._seconds_left() <= max(
            WAKING, WAKING_SHARE * parts.settings.function_timeout.total_seconds()
        ):
            return
        try:
            parts.gate.look_back(self._lane)
        except AwsError:
            parts.telemetry.problem("own_lane_unknown", lane=self._lane.name)
            parts.telemetry.count(Metric.AWS_ERRORS)
        parts.waker.wake(self._lane, replaces=self._leaves_share())


_RETURNS = {Why.YIELDED: Metric.YIELDED, Why.BEHIND: Metric.RETURNED}
