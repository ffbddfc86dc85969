"""
Telemetry: the consumer's events for the log and figures for metrics, behind one small protocol.

Every receive that reaches the function ends in one of the events reported here. A receive that none of them has was
never seen by the function.
"""

from __future__ import annotations

import contextlib
import functools
import json
import sys
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol

from lanes.consumer.ledger import Cause, Ending, Entry
from lanes.errors import AwsError
from lanes.events import Event
from lanes.message import id_in
from lanes.metrics import Metric
from lanes.retries import SILENCE, OutageLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lanes.config import Lane
    from lanes.consumer.handlers import Work
    from lanes.consumer.outcome import Outcome
    from lanes.consumer.records import Batch, RawRecord

P = ParamSpec("P")

# AWS: a body may have 1 MiB (SQS quotas); all bodies of a batch would be parsed for one log line.
READ_FOR_ID = 64 * 1024
"""Longest body in characters that is read for the id and kind of a record that is returned unopened."""


NO_CALLS = {
    Event.HANDLER_FAILED,
    Event.BATCH_INTERRUPTED,
    Event.DUPLICATE_OF_OTHER_LANE,
    Event.RESOURCE_AWAY,
}
"""Problems that are not failed calls to AWS, each of which is reported."""

_COUNTED = {Ending.YIELDED: Metric.YIELDED, Ending.RETURNED: Metric.RETURNED}


@functools.cache
def receives(cause: Cause) -> str:
    """Return the name of the metric that counts receives of one cause."""
    return f"{Metric.RECEIVES}{cause.title().replace('_', '')}"


class Telemetry(Protocol):
    """The receiver of the consumer's reports."""

    def begin(self, lane: str, context: Any) -> None:
        """Start an invocation for one lane."""

    def event(self, name: str, fields: Mapping[str, Any]) -> None:
        """Report an event, by its name in `lanes.events`."""

    def problem(self, name: str, /, **fields: Any) -> None:
        """
        Report a problem that the consumer handles by itself; of an error, in its `except` block.

        With `failures`, it is the latest of so many alike, and the error of the first one has been reported.
        """

    def count(self, metric: Metric | str, value: float = 1) -> None:
        """Add to a count."""

    def milliseconds(self, metric: Metric, value: float) -> None:
        """Report a duration."""

    def end(self) -> None:
        """Finish the invocation and send its figures."""


def _changes_nothing(report: Callable[P, None]) -> Callable[P, None]:
    """Let no error of a report change the outcome of its records."""

    @functools.wraps(report)
    def reported(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            report(*args, **kwargs)
        except KeyboardInterrupt:  # it ends the process
            raise
        # A value of user code may raise anything when it is printed, such as SystemExit or CancelledError.
        except BaseException:  # noqa: BLE001, S110 - the outcome counts, whatever becomes of its report
            pass

    return reported


class GuardedTelemetry:
    """
    A telemetry that never raises, so that no report decides a batch, and reports failed calls at most once a minute.

    Args:
        telemetry: receives the first failed call of an outage, then one a minute with their number.
        clock: returns epoch seconds.
    """

    def __init__(self, telemetry: Telemetry, clock: Callable[[], float]) -> None:
        self._problem = telemetry.problem
        self._clock = clock
        self.begin = _changes_nothing(telemetry.begin)
        self.event = _changes_nothing(telemetry.event)
        self.count = _changes_nothing(telemetry.count)
        self.milliseconds = _changes_nothing(telemetry.milliseconds)
        self.end = _changes_nothing(telemetry.end)
        # By time alone, as calls that succeed now and then would let every other failure begin an outage.
        self._outages = OutageLog(over_after=SILENCE)

    @_changes_nothing
    def problem(self, name: str, /, **fields: Any) -> None:
        """Report an error; of failed calls alike, the first one, one a minute, and each that names a receive."""
        if name in NO_CALLS:
            self._problem(name, **fields)
            return
        error = sys.exception()
        cause = error.code if isinstance(error, AwsError) else type(error).__name__
        reason = str(error) if isinstance(error, AwsError) else cause
        of = f"{name} {fields.get('lane') or fields.get('queue')} {cause}"
        is_due = self._outages.failed(of, cause=cause, reason=reason, now=self._clock(), error=None)
        # No other event has the receive.
        if is_due or "receive_count" in fields or "messages" in fields:
            outage = self._outages.latest(of)
            if outage.failures > 1:
                numbers = {"since": outage.since, "failures": outage.failures}
                fields |= {"cause": cause, "reason": reason, **numbers}
            self._problem(name, **fields)


REPORTS_EVERY = 5
"""Seconds after which the figures of a lane are sent although it is served on."""


class LaneReports:
    """
    Reports of an invocation that serves several lanes: figures have the lane as a dimension, so one lane at a time.

    Args:
        telemetry: receives them, and never raises.
        clock: returns epoch seconds.
        context: Lambda's context.

    """

    def __init__(self, telemetry: Telemetry, *, clock: Callable[[], float], context: Any) -> None:
        self._telemetry = telemetry
        self._clock = clock
        self._context = context
        self._reported: str | None = None
        self._reported_at = 0.0
        self._serving: str | None = None
        self._nested = 0.0

    def begin(self, lane: str) -> None:
        """Report for a lane from now on."""
        now = self._clock()
        if lane == self._reported and now < self._reported_at + REPORTS_EVERY:
            return
        self.end()
        self._reported, self._reported_at = lane, now
        self._telemetry.begin(lane, self._context)

    def end(self) -> None:
        """Send the figures of the lane."""
        reported, self._reported = self._reported, None
        if reported is not None:
            self._telemetry.end()

    @contextlib.contextmanager
    def of_batch(self, batch: Batch) -> Iterator[None]:
        """Report for the lane of a batch, and how long it took without those for which it was set aside."""
        outer, self._serving = self._serving, batch.lane.name
        nested, self._nested = self._nested, 0.0
        self.begin(batch.lane.name)
        try:
            yield
        finally:
            self._serving, took = outer, self._clock() - batch.began_at
            self._telemetry.milliseconds(Metric.BATCH, (took - self._nested) * 1000)
            self._nested = nested + took
            if outer is not None:
                self.begin(outer)


def _identity(lane: Lane, record: RawRecord, work: Work) -> dict[str, Any]:
    return {
        "lane": lane.name,
        "message_id": record.message_id,
        "group": record.group,
        "id": work.id,
        "kind": work.kind,
        "trace_id": work.trace.trace_id if work.trace else None,
        "receive_count": record.receive_count,
    }


@_changes_nothing
def failed_call(telemetry: Telemetry, problem: Event, *, calls: int = 1, **fields: Any) -> None:
    """Report a failed call to AWS, in an `except` block; `calls` counts each record of a call that refused some."""
    telemetry.count(Metric.AWS_ERRORS, calls)
    telemetry.problem(problem, **fields)


def failed_beside(telemetry: Telemetry, problem: Event, error: AwsError, **fields: Any) -> None:
    """Report a failed call whose error another thread caught."""
    try:
        raise error
    except AwsError:
        failed_call(telemetry, problem, **fields)


def tried(telemetry: Telemetry, problem: Event, call: Callable[[], object], **fields: Any) -> bool:
    """Make a call to AWS without which the consumer can go on; report a failed one, and return whether it succeeded."""
    try:
        call()
    except AwsError:
        failed_call(telemetry, problem, **fields)
        return False
    return True


def received(telemetry: Telemetry, records: Sequence[RawRecord], entries: Mapping[str, Entry]) -> None:
    """Count receives by their cause."""
    again = [record for record in records if record.receive_count > 1]
    if first := len(records) - len(again):
        telemetry.count(receives(Cause.FIRST), first)
    for record in again:
        telemetry.count(receives(entries[record.message_id].cause_of(record)))


def handled(
    telemetry: Telemetry,
    lane: Lane,
    record: RawRecord,
    work: Work,
    *,
    attempt: int,
    times: tuple[float, float],
) -> None:
    """Report a record that is done, with start and end of its handler in epoch seconds."""
    started_at, finished_at = times
    telemetry.count(Metric.HANDLED)
    telemetry.milliseconds(Metric.WAIT, (started_at - record.sent_at) * 1000)
    telemetry.milliseconds(Metric.DURATION, (finished_at - started_at) * 1000)
    telemetry.event(
        Event.MESSAGE_HANDLED,
        {
            **_identity(lane, record, work),
            "priority": work.priority,
            "attempt": attempt,
            "sent_at": record.sent_at,
            "started_at": started_at,
            "finished_at": finished_at,
        },
    )


@_changes_nothing
def duplicate(telemetry: Telemetry, lane: Lane, record: RawRecord, work: Work, *, done_in: str) -> None:
    """Report a record that is skipped since its message was done, and warn if that was in another lane."""
    telemetry.count(Metric.DUPLICATES)
    telemetry.event(Event.DUPLICATE_SKIPPED, _identity(lane, record, work))
    if done_in and done_in != lane.name:
        telemetry.count(Metric.DUPLICATES_OF_OTHER_LANES)
        telemetry.problem(
            Event.DUPLICATE_OF_OTHER_LANE,
            lane=lane.name,
            message_id=record.message_id,
            id=work.id,
            kind=work.kind,
            done_in=done_in,
        )


@_changes_nothing
def decoded(
    telemetry: Telemetry, event: Event, lane: Lane, record: RawRecord, work: Work, **fields: Any
) -> None:
    """Report a decoded record."""
    telemetry.event(event, {**_identity(lane, record, work), **fields})


@_changes_nothing
def dead_lettered(telemetry: Telemetry, lane: Lane, record: RawRecord, outcome: Outcome) -> None:
    """Report a dead letter."""
    work, entry = outcome.work, outcome.entry or Entry(lane=lane.name, message_id=record.message_id)
    identity = _identity(lane, record, work) if work else unopened(record)
    telemetry.count(Metric.DEAD_LETTERED)
    telemetry.event(
        Event.MESSAGE_DEAD_LETTERED,
        {
            "lane": lane.name,
            "trace_id": None,
            **identity,
            "priority": work.priority if work else None,
            "reason": outcome.reason,
            "error": outcome.error,
            "attempts": entry.attempts,
            "yields": entry.yields,
            "sent_at": record.sent_at,
        },
    )


@_changes_nothing
def together(
    telemetry: Telemetry, event: Event, lane: Lane, records: Sequence[RawRecord], **fields: Any
) -> None:
    """Report records that stay in their queue together, none of them decoded."""
    messages = [unopened(record) for record in records]
    telemetry.event(event, {"lane": lane.name, "records": len(records), **fields, "messages": messages})


@_changes_nothing
def interrupted(telemetry: Telemetry, lane: Lane, records: Sequence[RawRecord]) -> None:
    """Report the unfinished records of a batch after an unexpected error, in an `except` block."""
    messages = [unopened(record) for record in records]
    telemetry.problem(Event.BATCH_INTERRUPTED, lane=lane.name, messages=messages)


def import_failed(
    telemetry: Telemetry, queue: str, records: Sequence[RawRecord], *, lane: str, context: Any
) -> None:
    """Report records that no code could handle, in an `except` block; the alarm of `lane` counts them."""
    telemetry.begin(lane, context)
    messages = [unopened(record) for record in records]
    failed_call(telemetry, Event.IMPORT_FAILED, queue=queue, records=len(records), messages=messages)
    telemetry.end()


def unknown_lane(
    telemetry: Telemetry, queue: str, records: Sequence[RawRecord], *, lane: str, context: Any
) -> None:
    """Report records of a queue without a lane, in an `except` block; the alarm of `lane` counts them."""
    telemetry.begin(lane, context)
    messages = [unopened(record) for record in records]
    failed_call(telemetry, Event.LANE_UNKNOWN, queue=queue, records=len(records), messages=messages)
    telemetry.end()


@_changes_nothing
def kept(telemetry: Telemetry, lane: Lane, records: Sequence[tuple[RawRecord, Outcome]]) -> None:
    """Count kept records; report those returned untouched, together if they have the reason and the delay in common."""
    for _, outcome in records:
        if (metric := _COUNTED.get(outcome.ending)) is not None:
            telemetry.count(metric)
    alike: dict[tuple[str, int | None, str], list[RawRecord]] = {}
    for record, outcome in records:
        if outcome.reason:
            alike.setdefault((outcome.reason, outcome.delay, outcome.error), []).append(record)
    for (reason, delay, error), returned in alike.items():
        fields = {"error": error} if error else {}
        together(telemetry, Event.BATCH_RETURNED, lane, returned, reason=reason, delay=delay, **fields)


@_changes_nothing
def resource_away(
    telemetry: Telemetry, lane: Lane, resource: str, *, reason: str, since: float, tries: int, next_at: float
) -> None:
    """Report that a slot starts no record of a resource before its next try; times are epoch seconds."""
    telemetry.problem(
        Event.RESOURCE_AWAY,
        lane=lane.name,
        resource=resource,
        reason=reason,
        since=since,
        tries=tries,
        next_at=next_at,
    )


@_changes_nothing
def resource_back(telemetry: Telemetry, lane: Lane, resource: str, *, seconds: float) -> None:
    """Report that a slot found a resource again."""
    telemetry.event(
        Event.RESOURCE_BACK, {"lane": lane.name, "resource": resource, "seconds": round(seconds, 1)}
    )


@_changes_nothing
def woken(telemetry: Telemetry, lane: Lane, entries: Sequence[Entry], *, by: Lane) -> None:
    """Report parked records that became visible at the end of an invocation for lane `by`."""
    telemetry.count(Metric.WOKEN, len(entries))
    ids = [entry.message_id for entry in entries]
    telemetry.event(
        Event.BATCH_WOKEN, {"lane": lane.name, "by_lane": by.name, "records": len(ids), "message_ids": ids}
    )


def unopened(record: RawRecord) -> dict[str, Any]:
    """Return the identity of a record that is not decoded."""
    event: Any = None
    if len(record.body) <= READ_FOR_ID:
        with contextlib.suppress(ValueError, RecursionError):
            event = json.loads(record.body)
    # Without an event, or in a long body, the id is that of the deduplication id, which is the message's identity
    # unless the sender gave another.
    event = event if isinstance(event, dict) else {}
    return {
        "message_id": record.message_id,
        "id": str(event.get("id") or id_in(record.deduplication_id)),
        "kind": str(event.get("type") or ""),
        "group": record.group,
        "receive_count": record.receive_count,
        "sent_at": record.sent_at,
    }
