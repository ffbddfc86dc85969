"""Attempts: decode a record, run its handler, and keep the count of attempts right, however they end."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lanes.consumer import telemetry as report
from lanes.consumer.handlers import HandlerContext, Handlers, Work
from lanes.consumer.ledger import Ending, Entry, twice
from lanes.consumer.outcome import DONE, Outcome, Reason
from lanes.consumer.records import SETTLING, Batch, RawRecord
from lanes.consumer.signals import Yielded, asked_delay, deciding
from lanes.errors import AwsError, DeadLetter, Retry
from lanes.events import Event
from lanes.metrics import Metric
from lanes.priority import CURRENT_PRIORITY
from lanes.trace_context import CONTINUED_TRACE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.config import Lane, LanesConfig
    from lanes.consumer.interceptors import Interception
    from lanes.consumer.settlement import Settlement

EXHAUSTED = "attempts exhausted"

# Without this cap, one record of nearly the whole timeout would stop its lane in this environment: all later ones
# would return for want of time, never attempted and never dead-lettered.
WHOLE_INVOCATION = 0.9
"""Share of the function timeout beyond which a record is tried in any case: it would fit nowhere."""


class _Needed(dict[str, float]):
    """Seconds by lane; a lane without any so far needs as many as the slowest."""

    def __init__(self, least: float) -> None:
        super().__init__()
        self._least = least

    def __missing__(self, lane: str) -> float:
        return max(self.values(), default=self._least)


class Attempts:
    """
    Runs attempts and counts them in the ledger.

    Attributes:
        longest: the longest time that a record of each lane took in this environment, in seconds.

    """

    def __init__(self, *, config: LanesConfig, handlers: Handlers, settlement: Settlement) -> None:
        self._settings = settings = config.consumer
        # A sender that may send to one lane alone writes the priority into its message as it likes.
        self._highest = {lane.name: config.highest_priority(lane) for lane in config.lanes}
        self._handlers = handlers
        self._settlement = settlement
        self._ledger = settlement.ledger
        self._telemetry = settlement.telemetry
        self.clock = settlement.clock
        self._limit = settings.function_timeout.total_seconds() * WHOLE_INVOCATION
        configured = settings.record_time.total_seconds() if settings.record_time else 0.0
        self.longest: defaultdict[str, float] = defaultdict(float)
        self._least = min(configured + SETTLING, self._limit)
        self.needed = _Needed(self._least)

    def run(
        self,
        batch: Batch,
        record: RawRecord,
        entry: Entry,
        interceptions: Sequence[Interception],
        *,
        check: Callable[[], None],
        ages: bool,
    ) -> Outcome:
        """Handle one record; `check` raises `Yielded` where the handler has to leave, with `ages` before it as well."""
        began, lane = self.clock(), batch.lane
        work = self._handlers.resolve(record)
        outcome = next((found for part in interceptions if (found := part.before(record, entry, work))), None)
        if outcome is None:
            # Refused after idempotency: the last attempt may have succeeded and lost only its deletion.
            outcome = self._refused(lane, record, entry, work)
        if entry.unknown_since and not work.is_unknown:
            entry = dataclasses.replace(entry, unknown_since=0.0)
        if outcome is None:
            outcome = self._attempt(batch, record, entry, work, check=check, ages=ages)
        for part in reversed(interceptions):
            outcome = part.after(record, outcome)
        # With the calls around the handler, which the next record needs as well.
        took = self.clock() - began
        if took > self.longest[lane.name]:
            self.longest[lane.name] = took
            self.needed[lane.name] = max(self._least, min(took + SETTLING, self._limit))
        return outcome

    def skipped(self, lane: Lane, record: RawRecord) -> Outcome:
        """Report a record that is done already, and return its outcome."""
        self._telemetry.count(Metric.DUPLICATES)
        work = self._handlers.resolve(record)
        report.decoded(self._telemetry, Event.DUPLICATE_SKIPPED, lane, record, work)
        return DONE

    def _refused(self, lane: Lane, record: RawRecord, entry: Entry, work: Work) -> Outcome | None:
        """Return the outcome of a record that gets no attempt, or None."""
        if entry.given_up or entry.attempts >= self._settings.max_attempts:
            return _dead_letter(entry, entry.given_up or EXHAUSTED, error=last_error(entry))
        if work.handler is not None:
            return None
        waiting = self._waits_for_code(lane, record, entry) if work.is_unknown else None
        return waiting or _dead_letter(entry, text_of(work.refusal))

    def _waits_for_code(self, lane: Lane, record: RawRecord, entry: Entry) -> Outcome | None:
        """Return a record of an unknown kind for a while: a deploy or its end may bring the handler; else None."""
        # From the first receive that met no handler, not from the sending: a rollback meets messages that are old.
        now = self.clock()
        since = min(entry.unknown_since or now, now)
        left = since + self._settings.unknown_kind_for.total_seconds() - now
        if left <= 0:
            return None
        self._telemetry.count(Metric.UNKNOWN_KINDS)
        delay = self._settlement.delays.while_unknown(lane, record, waited=now - since, left=left)
        entry = dataclasses.replace(entry, unknown_since=since)
        return Outcome(entry=entry, delay=delay, reason=Reason.UNKNOWN_KIND)

    def _attempt(
        self,
        batch: Batch,
        record: RawRecord,
        entry: Entry,
        work: Work,
        *,
        check: Callable[[], None],
        ages: bool,
    ) -> Outcome:
        lane = batch.lane
        # Written ahead, an attempt that kills its process counts. With idempotency every one is: its claim costs a
        # call in any case.
        ahead = entry.suspect or entry.attempts > 0 or self._settings.idempotency
        uncounted = entry
        try:
            entry = self._begin(batch, record, entry, ahead=ahead, check=check if ages else None)
        except Yielded as left:
            return _uncounted(uncounted, to=left.to)
        except AwsError:
            return self._settlement.deferred(lane, record, uncounted, Reason.NOT_BEGUN)
        if work.ignored_fields:
            self._telemetry.count(Metric.IGNORED_FIELDS, work.ignored_fields)
        attempt, started_at = entry.attempts + (not ahead), self.clock()
        try:
            self._call(batch, record, work, attempt=attempt, check=check)
        except BaseException as raised:  # noqa: BLE001 - the border to user code: every exception is an outcome
            error = deciding(raised)
            # It ends the process, and is not a failure of the record.
            if isinstance(error, KeyboardInterrupt):
                raise error from None
            if isinstance(error, Yielded):
                return _uncounted(uncounted, to=error.to)
            # A supervisor that signals every process ends the handler's own children too.
            if batch.is_stopped() and not isinstance(error, Retry | DeadLetter):
                return _uncounted(uncounted)
            return self._failed(lane, record, entry, work, error, ahead=ahead)
        # With idempotency the effect says that it is done, before any count is looked at.
        if ahead and not self._settings.idempotency:
            # Taken back: a failed call may repeat work later, never undo it.
            done = dataclasses.replace(entry, attempts=entry.attempts - 1, ending=Ending.NONE)
            if not self._write(done, record, problem=Event.SUCCESS_NOT_NOTED):
                self._write(done, record, problem=Event.SUCCESS_NOT_NOTED)
        times = started_at, self.clock()
        report.handled(self._telemetry, lane, record, work, attempt=attempt, times=times)
        return DONE

    def _begin(
        self,
        batch: Batch,
        record: RawRecord,
        entry: Entry,
        *,
        ahead: bool,
        check: Callable[[], None] | None,
    ) -> Entry:
        """Count an attempt that is written ahead; raises `Yielded` if it must not start, and `AwsError`."""
        # Before the count: an attempt that does not start must not rest on a second write that takes it back.
        _leave_if_over(batch)
        if not ahead:
            return entry
        if check is not None:
            check()
        entry = self._count(entry, record, Ending.STARTED, error="")
        # That call may have taken long: a message for a lane above, or a stop, may have come during it.
        if check is not None:
            check()
        _leave_if_over(batch)
        return entry

    def _call(
        self, batch: Batch, record: RawRecord, work: Work, *, attempt: int, check: Callable[[], None]
    ) -> None:
        """Call the handler inside the message's priority and trace."""
        assert work.handler is not None  # noqa: S101 - refused before
        lane, trace = batch.lane, work.trace.child() if work.trace else None
        arguments: list[Any] = [work.argument]
        if work.handler.takes_context:
            context = HandlerContext(
                lane=lane.name,
                attempt=attempt,
                max_attempts=self._settings.max_attempts,
                receive_count=record.receive_count,
                message_id=record.message_id,
                remaining=lambda: timedelta(seconds=max(0.0, batch.seconds_left)),
                check=check,
                traceparent=str(trace) if trace else None,
            )
            arguments.append(context)
        priority = CURRENT_PRIORITY.get() if work.priority is None else work.priority
        highest = self._highest[lane.name]
        if priority is not None and highest is not None and priority > highest:
            self._telemetry.count(Metric.LOWERED)
            fields = {"priority": work.priority, "to": highest}
            report.decoded(self._telemetry, Event.PRIORITY_LOWERED, lane, record, work, **fields)
            priority = highest
        # Not the public blocks: those check their arguments and are objects, and every message passes here.
        outer = CURRENT_PRIORITY.set(priority)
        before = CONTINUED_TRACE.set(trace)
        try:
            work.handler.ran(work.handler.function(*arguments))
        finally:
            CONTINUED_TRACE.reset(before)
            CURRENT_PRIORITY.reset(outer)

    def _failed(
        self, lane: Lane, record: RawRecord, entry: Entry, work: Work, error: BaseException, *, ahead: bool
    ) -> Outcome:
        description = f"{type(error).__name__}: {text_of(error)}"
        self._telemetry.count(Metric.FAILED)
        if isinstance(error, DeadLetter):
            # Written before it is sent: after a crash in between, it must not run again and perhaps succeed. An empty
            # reason would not count as given up.
            entry = dataclasses.replace(entry, given_up=_reason_of(error) or description)
        if not ahead:
            entry = self._count(entry, record, Ending.FAILED, error=description)
        entry = dataclasses.replace(entry, last_error=description, ending=Ending.FAILED)
        if entry.given_up:
            if ahead:
                self._write(entry, record, problem=Event.GIVEN_UP_NOT_NOTED)
            return _dead_letter(entry, entry.given_up, work=work)
        if not isinstance(error, Retry):
            ids = {"message_id": record.message_id, "trace_id": work.trace.trace_id if work.trace else None}
            self._telemetry.problem(Event.HANDLER_FAILED, lane=lane.name, **ids)
        if entry.attempts >= self._settings.max_attempts:
            return _dead_letter(entry, EXHAUSTED, error=description, work=work)
        delays = self._settlement.delays
        if (after := asked_delay(error)) is not None:
            delay = delays.asked(lane, after)
        else:
            delay = delays.after_failure(lane, attempt=entry.attempts)
        fields = {"priority": work.priority, "attempt": entry.attempts, "sent_at": record.sent_at}
        failure = {"error": description, "delay": delay}
        report.decoded(self._telemetry, Event.MESSAGE_FAILED, lane, record, work, **fields, **failure)
        return Outcome(ending=Ending.FAILED, entry=entry, delay=delay)

    def _count(self, entry: Entry, record: RawRecord, ending: Ending, *, error: str) -> Entry:
        """Count one attempt in the table; one failed call is repeated, since an attempt must not go uncounted."""
        counted = dataclasses.replace(
            entry,
            attempts=entry.attempts + 1,
            ending=ending,
            noted_receive=record.receive_count,
            noted_at=self.clock(),
            last_error=error,
        )
        try:
            twice(lambda: self._ledger.write([counted]))
        except AwsError:
            if ending is Ending.STARTED:
                raise  # it has not begun, so it must not begin
            # Settlement writes the same entry again.
            ids: dict[str, Any] = {"lane": entry.lane, "message_id": record.message_id}
            report.failed_call(self._telemetry, Event.ATTEMPT_NOT_COUNTED, **ids)
        return counted

    def _write(self, entry: Entry, record: RawRecord, *, problem: Event) -> bool:
        ids: dict[str, Any] = {"lane": entry.lane, "message_id": record.message_id}
        return report.tried(self._telemetry, problem, lambda: self._ledger.write([entry]), **ids)


def _uncounted(entry: Entry, *, to: Lane | None = None) -> Outcome:
    """Return the outcome of a record whose attempt does not count; settlement writes its entry with the yield."""
    return Outcome(ending=Ending.YIELDED, entry=entry, to=to)


def _leave_if_over(batch: Batch) -> None:
    """Raise `Yielded` if the time is over, or the process is to stop."""
    if batch.is_over:
        raise Yielded


def _dead_letter(entry: Entry, reason: str, *, error: str = "", work: Work | None = None) -> Outcome:
    return Outcome(ending=Ending.DEAD_LETTERED, entry=entry, reason=reason, error=error, work=work)


def _reason_of(error: DeadLetter) -> str:
    try:
        return text_of(error.reason)
    except Exception:  # noqa: BLE001 - a subclass in your application may fail to compute it
        return ""


def last_error(entry: Entry) -> str:
    """Return the error of the last failed attempt."""
    if entry.ending in (Ending.STARTED, Ending.CRASHED):
        return "the attempt ended without an answer: its process crashed or ran out of time"
    return entry.last_error


def text_of(value: object) -> str:
    """Return a value of user code as text that DynamoDB and SQS accept; its type if it has none."""
    try:
        text = str(value)
    except KeyboardInterrupt:  # it ends the process
        raise
    except BaseException:  # noqa: BLE001 - it comes from user code
        text = f"a {type(value).__name__} without text"
    # Half a surrogate pair is text to Python alone: DynamoDB and SQS refuse it.
    return text.encode("utf-8", "replace").decode()
