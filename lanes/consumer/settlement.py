"""
Settlement: how the records of a batch leave it, with their delays, visibility, ledger entries and dead letters.

AWS: a record reported in the partial batch response stays invisible until its visibility timeout ends; Lambda
doesn't reset it (Lambda developer guide, "Handling errors for an SQS event source"). So every returned record gets
its own visibility, the same one for all records of a group: a group with one invisible record delivers nothing.
"""

from __future__ import annotations

import dataclasses
import math
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from lanes.consumer import telemetry as report
from lanes.consumer.ledger import CachedLedger, Ending, Entry, Park
from lanes.consumer.outcome import Delays, Outcome, Outcomes, Reason, shortest_delay
from lanes.consumer.records import BEYOND, SETTLING, Batch, RawRecord
from lanes.consumer.values import value
from lanes.errors import AwsError
from lanes.events import Event
from lanes.metrics import Metric

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from lanes.config import Lane
    from lanes.consumer.telemetry import Telemetry
    from lanes.runs import Ends

# AWS: SQS drops a repeated deduplication id for five minutes (SendMessage), and the first one may have arrived.
LONGEST_RESEND = 2 * 60
"""Most seconds until a dead letter that failed is sent again."""

# AWS documents no bound; it is more than twice the client's timeout. A write of one entry needs no such pause: it has a
# condition, which BatchWriteItem lacks.
LANDS_WITHIN = 5
"""Seconds within which a write of several entries that got no answer takes effect, if at all."""


def visibility_in_hand(seconds_left: float) -> int:
    """Return the whole seconds for which an invocation hides its records: if it dies, they return soon after it."""
    return math.ceil(max(0.0, seconds_left) + BEYOND)


@value(frozen=True, slots=True, kw_only=True)
class VisibilityChange:
    """A new visibility timeout in seconds, counted from the call, for one receipt handle."""

    message_id: str
    receipt_handle: str
    seconds: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterNote:
    """Why a message is dead-lettered, for its dead-letter queue. Times are epoch seconds."""

    reason: str
    error: str
    attempts: int
    yields: int
    receives: int
    first_received_at: float
    dead_lettered_at: float


class Queues(Protocol):
    """The calls of settlement; each raises `AwsError`."""

    def change_visibility(self, lane: str, changes: Sequence[VisibilityChange]) -> Sequence[str]:
        """Apply the changes in order; return the message ids that were refused."""

    def dead_letter(self, lane: str, record: RawRecord, note: DeadLetterNote) -> None:
        """Send the untouched body with the note to the lane's dead-letter queue."""

    def remove(self, lane: str, record: RawRecord) -> None:
        """Take a record out of its lane."""

    def forward(self, lane: str, record: RawRecord, *, body: str, deduplication_id: str) -> None:
        """Send `body` with a record's group and attributes to a lane."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """Extends visibility before the work, and settles kept and dead-lettered records after it."""

    queues: Queues
    ledger: CachedLedger
    delays: Delays
    telemetry: Telemetry
    clock: Callable[[], float]
    ends: Callable[[], Ends] | None = None

    def outlasts(self, batch: Batch, entries: Mapping[str, Entry]) -> bool:
        """Whether the batch is invisible for longer than its invocation lasts."""
        # AWS: Lambda retries a throttled batch until its visibility timeout ends (Lambda operator guide), so little of
        # it may be left.
        oldest = min(
            record.first_received_at if record.receive_count == 1 else entries[record.message_id].noted_at
            for record in batch.records
        )
        visible = batch.lane.visibility_timeout.total_seconds()
        return oldest + visible - self.clock() > batch.milliseconds_left() / 1000 + SETTLING

    def hold(self, batch: Batch) -> Collection[str]:
        """Keep the batch invisible until its invocation ends; return the ids of lost records; raises `AwsError`."""
        # By default the queue's own timeout, six times the function's, keeps a dead batch for 180 s; this does for 33 s
        # (docs/decisions.md#records-left-behind).
        seconds = visibility_in_hand(batch.milliseconds_left() / 1000)
        changes = [_change(record, seconds) for record in batch.records]
        return self.queues.change_visibility(batch.lane.name, changes)

    def dead_letter(self, lane: Lane, record: RawRecord, outcome: Outcome) -> Outcome:
        """Send a dead letter and report it; return the outcome, which keeps the record if the call failed."""
        entry = outcome.entry
        assert entry is not None  # noqa: S101 - a record without an entry is never attempted
        note = DeadLetterNote(
            reason=outcome.reason,
            error=outcome.error,
            attempts=entry.attempts,
            yields=entry.yields,
            receives=record.receive_count,
            first_received_at=record.first_received_at,
            dead_lettered_at=self.clock(),
        )
        try:
            self.queues.dead_letter(lane.name, record, note)
        except AwsError:
            return self.resend(lane, record, outcome, Event.DEAD_LETTER_NOT_SENT)
        report.dead_lettered(self.telemetry, lane, record, outcome)
        # In between: with the record gone, nothing would repeat a write that failed.
        if outcome.end and (kept := self.unrecorded(lane, record, entry, outcome.end)):
            return kept
        with suppress(AwsError):
            self.queues.remove(lane.name, record)
        return outcome

    def unrecorded(self, lane: Lane, record: RawRecord, entry: Entry, end: str) -> Outcome | None:
        """
        Record the end of a run's member; if that fails twice, return the outcome that keeps its message.

        The entry says that the message is finished, so that it returns for its end alone: neither its handler runs
        again nor a second dead letter is sent.
        """
        if self.ends is None or not record.run:
            return None
        ids: dict[str, Any] = {"lane": lane.name, "message_id": record.message_id}
        record_end = partial(self.ends().record_of, record, end)
        if any(report.tried(self.telemetry, Event.END_NOT_RECORDED, record_end, **ids) for _ in range(2)):
            return None
        self.telemetry.count(Metric.UNRECORDED_ENDS)
        entry = dataclasses.replace(
            entry, end=end, ending=Ending.RETURNED, noted_receive=record.receive_count, noted_at=self.clock()
        )
        # Now, not with the batch: a later record of it may kill the process.
        report.tried(self.telemetry, Event.SUCCESS_NOT_NOTED, partial(self.ledger.write, [entry]), **ids)
        return Outcome(entry=entry, delay=self.delays.until_finished(lane, record), reason=Reason.UNRECORDED)

    def resend(self, lane: Lane, record: RawRecord, outcome: Outcome, problem: Event) -> Outcome:
        """Report a failed call for a dead letter, in an `except` block; return the outcome to send it later."""
        assert outcome.entry is not None  # noqa: S101 - see above
        ids: dict[str, Any] = {"message_id": record.message_id, "receive_count": record.receive_count}
        report.failed_call(self.telemetry, problem, lane=lane.name, **ids)
        return self._resent_later(lane, record, outcome)

    def _resent_later(self, lane: Lane, record: RawRecord, outcome: Outcome) -> Outcome:
        assert outcome.entry is not None  # noqa: S101 - see above
        delay = self.delays.after_failure(lane, attempt=max(1, outcome.entry.attempts))
        return keep_dead_letter(outcome, delay=min(max(delay, shortest_delay([record])), LONGEST_RESEND))

    def keep_done(self, lane: Lane, records: Sequence[RawRecord]) -> None:
        """
        Note that records are done whose deletion was refused, and hide them for a while.

        They come again only to be deleted: a role without that right, or an outage, must not repeat the work, nor use
        up the receives after which SQS would dead-letter them without a reason.
        """
        now = self.clock()
        entries = [
            Entry(
                lane=lane.name,
                message_id=record.message_id,
                ending=Ending.DONE,
                noted_receive=record.receive_count,
                noted_at=now,
                first_received_at=record.first_received_at,
            )
            for record in records
        ]
        write = partial(self.ledger.write, entries, amends=True)
        report.tried(self.telemetry, Event.SUCCESS_NOT_NOTED, write, lane=lane.name, records=len(records))
        hidden = [_change(record, self.delays.until_finished(lane, record)) for record in records]
        hide = partial(self.queues.change_visibility, lane.name, hidden)
        report.tried(self.telemetry, Event.VISIBILITY_NOT_CHANGED, hide, lane=lane.name, records=len(records))

    def deferred(self, lane: Lane, record: RawRecord, entry: Entry, reason: Reason) -> Outcome:
        """Report a failed call, in an `except` block; return the outcome of its record, which is judged again later."""
        problem = Event.ATTEMPT_NOT_BEGUN if reason is Reason.NOT_BEGUN else Event.MESSAGE_NOT_DIVERTED
        report.failed_call(self.telemetry, problem, lane=lane.name, message_id=record.message_id)
        return Outcome(entry=entry, delay=self.delays.after_error(lane, record), reason=reason)

    def wakeable(self, lane: Lane) -> list[Entry]:
        """Return the known parked records of a lane that may be woken."""
        parked = self.ledger.parked(lane.name)
        return [entry for entry in parked if entry.park is Park.YIELD and entry.receipt_handle]

    def wake(self, lane: Lane, entries: Sequence[Entry], *, by: Lane) -> bool:
        """Make parked records visible for a slot of lane `by`; False if any is parked no longer; raises `AwsError`."""
        if not self.ledger.unpark(entries):
            return False
        # The last of a group first: visible behind one in flight, it waits for the others, and a poller that comes in
        # between receives them together.
        self.queues.change_visibility(lane.name, [_change(entry, 0) for entry in reversed(entries)])
        report.woken(self.telemetry, lane, entries, by=by)
        return True

    def settle(self, batch: Batch, outcomes: Outcomes) -> None:
        """
        Write the kept records' entries and set their visibility.

        Nothing here can lose a record: kept records are reported to Lambda in any case, and return when their
        visibility ends. Entries are written first: a write that lands late would replace the next invocation's.
        """
        kept = same_delay_in_group(outcomes.to_settle(self.clock()))
        if not kept:
            return
        lane = batch.lane
        report.kept(self.telemetry, lane, kept)
        entries = self._entries(batch, kept)
        if all(outcome.is_brief for _, outcome in kept):
            for entry in entries:
                self.ledger.remember(entry)
        elif self._write(lane, entries):
            # Landing after the next receive's, it would erase an attempt: until then no slot may wake the records. The
            # log keeps the shorter delay: nothing decides by it.
            kept = [
                (record, dataclasses.replace(one, delay=max(one.delay or 0, LANDS_WITHIN), wakeable=False))
                for record, one in kept
            ]
            self._write(lane, self._entries(batch, kept), amends=True)
        # Refused, or only the answer was lost: then another slot may have received a record and counted an attempt.
        if refused := self._change_visibility(lane, kept):
            lost = [item for item in kept if item[0].message_id in refused]
            self._write(lane, self._entries(batch, lost, refused=True), amends=True)

    def _entries(
        self, batch: Batch, kept: Sequence[tuple[RawRecord, Outcome]], *, refused: bool = False
    ) -> list[Entry]:
        """Return the entries of kept records; a refused change leaves them invisible for the visibility timeout."""
        found, now = [], self.clock()
        for record, outcome in kept:
            if (entry := outcome.entry) is None or outcome.delay is None:
                continue
            delay = batch.lane.visibility_timeout.total_seconds() if refused else outcome.delay
            untouched = outcome.ending is Ending.RETURNED
            park = None if delay == 0 else Park.YIELD if outcome.wakeable and not refused else Park.REST
            entry = dataclasses.replace(
                entry,
                yields=entry.yields + (outcome.ending is Ending.YIELDED),
                returns=entry.returns + untouched,
                ending=Ending.CRASHED if entry.ending is Ending.CRASHED and untouched else outcome.ending,
                noted_receive=record.receive_count,
                noted_at=now,
                park=park,
                parked_until=now + delay if park else 0.0,
                batch=batch.name if park else "",
                receipt_handle=record.receipt_handle if park is Park.YIELD else "",
            )
            found.append(entry)
        return found

    def _write(self, lane: Lane, entries: Sequence[Entry], *, amends: bool = False) -> bool:
        """Write entries; return whether a write of several got no answer, so that it may still land."""
        # Twice: without its entry the next receive seems unexplained, and each later attempt costs a write ahead.
        for _ in range(2 if entries else 0):
            try:
                self.ledger.write(entries, amends=amends)
            except AwsError as error:
                report.failed_call(
                    self.telemetry, Event.RETURN_NOT_NOTED, lane=lane.name, records=len(entries)
                )
                if not (amends or error.answered or len(entries) == 1):
                    return True
            else:
                break
        return False

    def _change_visibility(self, lane: Lane, kept: Sequence[tuple[RawRecord, Outcome]]) -> set[str]:
        """Set the visibilities, with one repeat for those refused; return the ids still refused."""
        refused = {record.message_id for record, _ in kept}
        for _ in range(2):
            changes = [_change(one, outcome.delay or 0) for one, outcome in kept if one.message_id in refused]
            try:
                refused = set(self.queues.change_visibility(lane.name, changes))
            except AwsError:
                problem = Event.VISIBILITY_NOT_CHANGED
                report.failed_call(self.telemetry, problem, lane=lane.name, records=len(refused))
            if not refused:
                break
        return refused


def keep_dead_letter(outcome: Outcome, *, delay: int) -> Outcome:
    """Return the outcome of a record that becomes a dead letter later: its entry says so."""
    assert outcome.entry is not None  # noqa: S101 - a record without an entry is never attempted
    entry = dataclasses.replace(outcome.entry, given_up=outcome.reason, last_error=outcome.error)
    return Outcome(ending=Ending.FAILED, entry=entry, delay=delay)


def oldest_batches(entries: Sequence[Entry], *, count: int) -> list[Entry]:
    """Return the records of the batches parked first: a group is free only when all of its records are."""
    oldest_first = sorted(entries, key=lambda entry: entry.noted_at)
    chosen = list(dict.fromkeys(entry.batch for entry in oldest_first))[:count]
    return [entry for entry in entries if entry.batch in chosen]


def _change(record: RawRecord | Entry, seconds: int) -> VisibilityChange:
    handle = record.receipt_handle
    return VisibilityChange(message_id=record.message_id, receipt_handle=handle, seconds=seconds)


def same_delay_in_group(kept: Sequence[tuple[RawRecord, Outcome]]) -> list[tuple[RawRecord, Outcome]]:
    """Give all records of a group their longest delay; one that can't be woken keeps the others parked as well."""
    delays: dict[str, int] = {}
    wakeable: dict[str, bool] = {}
    for record, outcome in kept:
        delays[record.group] = max(delays.get(record.group, 0), outcome.delay or 0)
        wakeable[record.group] = wakeable.get(record.group, True) and outcome.wakeable
    return [
        (record, dataclasses.replace(outcome, delay=delays[record.group], wakeable=wakeable[record.group]))
        for record, outcome in kept
    ]
