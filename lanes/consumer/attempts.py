"""Attempts: decode a record, run its handler, and keep the count of attempts right, however they end."""

from __future__ import annotations

import dataclasses
import math
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from lanes.config.settings import LARGEST_BATCH
from lanes.consumer import telemetry as report
from lanes.consumer.breakers import MOST_FULL, TRIED_WITHIN
from lanes.consumer.calls import Attempt, Call, Caller
from lanes.consumer.ledger import Blocking, Ending, Entry, twice
from lanes.consumer.outcome import DONE, EXPIRED, SENT_ON, Outcome, Reason
from lanes.consumer.records import SETTLING, WHOLE_INVOCATION, Batch, RawRecord
from lanes.consumer.signals import Yielded, asked_delay, deciding, is_attempt, text_of
from lanes.errors import AwsError, DeadLetter, Retry, Unavailable
from lanes.events import Event
from lanes.metrics import Metric

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lanes.config import Lane, LanesConfig
    from lanes.consumer.breakers import Away, Breaker, Breakers
    from lanes.consumer.engines import Proceed
    from lanes.consumer.handlers import Handlers, Work
    from lanes.consumer.interceptors import Interception
    from lanes.consumer.settlement import Settlement

EXHAUSTED, UNAVAILABLE = "attempts exhausted", "unavailable"


class Attempts:
    """
    Runs attempts and counts them in the ledger.

    Attributes:
        resolve: decodes a record and finds its handler.
        longest: the longest time that a record of each lane took in this environment, in seconds.
        needed: seconds that a record of each lane needs; one of a lane without any so far as many as the slowest.
        breakers: the breakers of the handlers' resources.
        slots_wait: whether a slot waits for its resource, with nothing in hand; else a batch does.

    """

    def __init__(
        self,
        *,
        config: LanesConfig,
        handlers: Handlers,
        settlement: Settlement,
        breakers: Breakers,
        monotonic: Callable[[], float],
    ) -> None:
        self._settings = settings = config.consumer
        self._handlers = handlers
        self.resolve = handlers.resolve
        self._settlement = settlement
        self._caller = Caller(config=config, telemetry=settlement.telemetry)
        self._ledger = settlement.ledger
        self._telemetry = settlement.telemetry
        self._clock = settlement.clock
        self._monotonic = monotonic
        self._limit = settings.function_timeout.total_seconds() * WHOLE_INVOCATION
        configured = settings.record_time.total_seconds() if settings.record_time else 0.0
        self._least = min(configured + SETTLING, self._limit)
        self.longest = dict.fromkeys((lane.name for lane in config.lanes), 0.0)
        self.needed = dict.fromkeys(self.longest, self._least)
        self.breakers = breakers
        self.slots_wait = config.receives
        self._is_alone = settings.reserved_concurrency == 1
        self._tried_within = min(settings.reserved_concurrency, TRIED_WITHIN)

    def run(
        self,
        batch: Batch,
        call: Call,
        entries: Mapping[str, Entry],
        interceptions: Sequence[Interception],
        *,
        check: Callable[[], None],
        way: Proceed,
    ) -> Iterator[tuple[RawRecord, Outcome]]:
        """
        Handle the records of a call, and yield the outcome of each as soon as it is known.

        `check` raises `Yielded` where the handler has to leave; if the `way` ages, it is asked before the handler too.
        """
        began, lane = self._monotonic(), batch.lane
        for record, outcome in self._outcomes(batch, call, entries, interceptions, check=check, way=way):
            for part in reversed(interceptions):
                outcome = part.after(record, outcome)  # noqa: PLW2901 - each part may replace it
            yield record, outcome
        # With the calls around the handler, which the next record needs as well.
        took = self._monotonic() - began
        if took > self.longest[lane.name]:
            self.longest[lane.name] = took
            self.needed[lane.name] = max(self._least, min(took + SETTLING, self._limit))
            slowest = max(self.needed[name] for name, longest in self.longest.items() if longest)
            self.needed.update((name, slowest) for name, longest in self.longest.items() if not longest)

    def decoded(self, batch: Batch) -> Batch:
        """Return a batch in which the bodies of other programs are messages, where a decoder makes some."""
        decoders = self._handlers.decoders
        return batch if decoders is None else decoders.decoded(batch)

    def _outcomes(
        self,
        batch: Batch,
        call: Call,
        entries: Mapping[str, Entry],
        interceptions: Sequence[Interception],
        *,
        check: Callable[[], None],
        way: Proceed,
    ) -> Iterator[tuple[RawRecord, Outcome]]:
        """Begin an attempt for each record, call the handler once, and end each attempt for itself."""
        begun: list[Attempt] = []
        early = check if way.ages else None
        try:
            for record, work in zip(call.records, call.works, strict=True):
                entry = entries[record.message_id]
                attempt = Attempt(record, work, entry=entry, before=entry)
                outcome = self._judge(batch, attempt, interceptions, joins=bool(begun))
                if outcome is None:
                    begun.append(attempt)
                    outcome = self._begin(batch, attempt, check=early)
                if outcome is not None:
                    begun = [one for one in begun if one is not attempt]
                    yield record, outcome
            if not begun:
                return
            if len(begun) > 1:
                # The first attempts were begun a while ago.
                _leave_if_over(batch)
                if early is not None:
                    early()
            started_at = self._clock()
            with way.during:
                failures = self._caller.call(batch, begun, check=check)
            times = started_at, self._clock()
            ways = self._ways(batch.lane, begun, failures)
        except Yielded as left:
            for attempt in begun:
                yield attempt.record, _uncounted(attempt.before, to=left.to)
            return
        for attempt in begun:
            record, error = attempt.record, failures.get(attempt.work.id)
            yield record, self._ended(batch, attempt, error, times=times, way=ways.get(record.message_id))

    def breaker_of(self, record: RawRecord) -> Breaker | None:
        """Return the breaker of a record's resource if it is open: one record at a time tries it."""
        breakers = self.breakers
        if not any(one.is_open for one in breakers.known.values()):
            return None
        handler = self.resolve(record).handler
        return None if handler is None else breakers.open(handler.resource)

    def until_back(
        self, lane: Lane, record: RawRecord, seconds: float, *, reason: Reason = Reason.AWAY
    ) -> Outcome:
        """Return the outcome of a record that stays away for so many seconds, which begin now."""
        delay = self._settlement.delays.untouched(lane, record, math.floor(seconds))
        # Its batch may end long after that time.
        return Outcome(delay=delay, since=self._clock(), reason=reason)

    def until_next_try(
        self, lane: Lane, record: RawRecord, breaker: Breaker, *, has_tried: bool = False
    ) -> Outcome:
        """Return the outcome of a record whose resource is away for a pause, and which may have tried it."""
        pause = breaker.seconds_left
        if self.has_several_resources:
            # No slot waits, so that a lower lane must not have its records back first.
            is_later = lane.position > 0 and not breaker.is_for_others
            return self.until_back(lane, record, pause + TRIED_WITHIN * is_later)
        # Nothing is received meanwhile, and each slot should find what is urgent, whichever is the first to find the
        # resource. After a try the others make theirs of other records.
        is_at_once = self.slots_wait and not has_tried
        return self.until_back(lane, record, 0 if is_at_once else min(pause, self._tried_within))

    def goes_ahead(self, lane: Lane, breaker: Breaker) -> bool:
        """
        Whether a record of a lane tries its resource although lanes above have messages.

        It does where other slots have tries of their own, or lanes above have left it this one: all of what they have
        has said so.
        """
        if lane.position == 0 or not breaker.waits_for_others:
            return False
        return breaker.is_left or not (self._is_alone or self.has_several_resources)

    def passes(self, lane: Lane, breaker: Breaker, another: RawRecord | None, *, records: int) -> bool:
        """
        Whether a batch leaves a try that is for others to the next one.

        Args:
            lane: its lane.
            breaker: that of the resource.
            another: the record of the batch that has not said so, if one has not.
            records: the records of the batch.
        """
        if lane.position == 0:
            return another is None and (self._is_alone or self.has_several_resources)
        is_full = records == LARGEST_BATCH and breaker.is_early
        return another is None or (is_full and breaker.passed < MOST_FULL)

    @property
    def only_breaker(self) -> Breaker | None:
        """The breaker of the only resource of all records, if it is open."""
        if not self.breakers.known or self.has_several_resources:
            return None
        return self.breakers.open(next(iter(self._handlers.resources)))

    @property
    def has_several_resources(self) -> bool:
        """Whether records of another resource may start while one is away."""
        return len(self._handlers.resources) > 1

    def _ways(
        self, lane: Lane, begun: Sequence[Attempt], failures: Mapping[str, BaseException]
    ) -> Mapping[str, Away]:
        """Return how the records stay away that found their resource away, by SQS id."""
        if not failures and not self.breakers.known:
            return {}
        away: dict[str, tuple[Entry, Unavailable]] = {}
        for attempt in begun:
            raised = failures.get(attempt.work.id)
            if raised is not None and isinstance(error := _deciding(attempt, raised), Unavailable):
                away[attempt.record.message_id] = attempt.before, error
        found = any(attempt.work.id not in failures for attempt in begun)
        return self.breakers.judge(lane, begun[0].work.resource, found=found, away=away)

    def skipped(self, lane: Lane, record: RawRecord) -> Outcome:
        """Report a record that is done already, and return its outcome."""
        self._telemetry.count(Metric.DUPLICATES)
        work = self.resolve(record)
        report.decoded(self._telemetry, Event.DUPLICATE_SKIPPED, lane, record, work)
        return SENT_ON

    def _refused(self, lane: Lane, record: RawRecord, entry: Entry, work: Work) -> Outcome | None:
        """Return the outcome of a record that gets no attempt, or None."""
        if not entry.given_up and work.expires_at < self._clock():
            return self._expired(lane, record, work)
        if entry.given_up:
            return _dead_letter(entry, entry.given_up, error=last_error(entry))
        if entry.attempts >= self._settings.max_attempts:
            if not self._settings.blocks(work.kind):
                return _dead_letter(entry, EXHAUSTED, error=last_error(entry))
            if entry.ending is Ending.STARTED:
                return self._pause_crashed(lane, record, entry, work)
        if work.handler is not None:
            return None
        waiting = self._waits_for_code(lane, record, entry) if work.is_unknown else None
        return waiting or _dead_letter(entry, text_of(work.refusal))

    def not_taken(self, lane: Lane, record: RawRecord, entry: Entry) -> Outcome | None:
        """Return the dead letter of a record of a kind that its lane does not take."""
        work = self.resolve(record) if lane.kinds else None
        if work is None or lane.takes(work.kind):
            return None
        found = f"the kind {work.kind!r}" if work.kind else "a body without a kind"
        reason = (
            f"lane {lane.name} does not take {found}; its kinds in lanes.toml are {', '.join(lane.kinds)}"
        )
        return _dead_letter(entry, reason, work=work)

    def _expired(self, lane: Lane, record: RawRecord, work: Work) -> Outcome:
        """Report a record that is past its time, and return its outcome."""
        self._telemetry.count(Metric.EXPIRED)
        times = {"sent_at": record.sent_at, "expires_at": work.expires_at}
        report.decoded(self._telemetry, Event.MESSAGE_EXPIRED, lane, record, work, **times)
        return EXPIRED

    def _pause_crashed(self, lane: Lane, record: RawRecord, entry: Entry, work: Work) -> Outcome:
        """Return a record that blocks its group and killed its process, before it is tried again."""
        entry = dataclasses.replace(self._blocking(record, entry, work), ending=Ending.CRASHED)
        # Two receives a try: this one, and that of the attempt.
        delay = self._settlement.delays.while_blocking(lane, record, attempt=entry.attempts, receives=2)
        return Outcome(entry=entry, delay=delay, reason=Reason.CRASHED)

    def _blocking(self, record: RawRecord, entry: Entry, work: Work) -> Entry:
        """Count a failed attempt of a message that blocks its group; return its entry, which says so."""
        self._telemetry.count(Metric.BLOCKED)
        since = entry.blocking.since if entry.blocking else self._clock()
        blocking = Blocking(group=record.group, kind=work.kind, id=work.id or record.message_id, since=since)
        return dataclasses.replace(entry, blocking=blocking)

    def _waits_for_code(self, lane: Lane, record: RawRecord, entry: Entry) -> Outcome | None:
        """Return a record of an unknown kind for a while: a deploy or its end may bring the handler; else None."""
        # From the first receive that met no handler, not from the sending: a rollback meets messages that are old.
        now = self._clock()
        since = min(entry.unknown_since or now, now)
        left = since + self._settings.unknown_kind_for.total_seconds() - now
        if left <= 0:
            return None
        self._telemetry.count(Metric.UNKNOWN_KINDS)
        delay = self._settlement.delays.while_unknown(lane, record, waited=now - since, left=left)
        entry = dataclasses.replace(entry, unknown_since=since)
        return Outcome(entry=entry, delay=delay, reason=Reason.UNKNOWN_KIND)

    def _judge(
        self, batch: Batch, attempt: Attempt, interceptions: Sequence[Interception], *, joins: bool
    ) -> Outcome | None:
        """Return the outcome of a record that gets no attempt, or None."""
        record, work, entry = attempt.record, attempt.work, attempt.before
        for part in interceptions:
            if (outcome := part.before(record, entry, work, joins=joins)) is not None:
                return outcome
        # Refused after idempotency: the last attempt may have succeeded and lost only its deletion.
        outcome = self._refused(batch.lane, record, entry, work)
        if entry.unknown_since and not work.is_unknown:
            attempt.entry = attempt.before = dataclasses.replace(entry, unknown_since=0.0)
        return outcome

    def _begin(self, batch: Batch, attempt: Attempt, *, check: Callable[[], None] | None) -> Outcome | None:
        """
        Count an attempt that is written ahead; return its outcome if it can't be counted.

        Raises `Yielded` if it must not start.
        """
        # Before the count: an attempt that does not start must not rest on a second write that takes it back.
        _leave_if_over(batch)
        record, entry = attempt.record, attempt.entry
        # Written ahead, an attempt that kills its process counts. With idempotency every one is: its claim costs a
        # call in any case.
        if entry.suspect or entry.attempts > 0 or self._settings.idempotency:
            if check is not None:
                check()
            try:
                attempt.entry = self._count(entry, record, Ending.STARTED, error="")
            except AwsError:
                return self._settlement.deferred(batch.lane, record, entry, Reason.NOT_BEGUN)
            attempt.is_ahead = True
            # That call may have taken long: a message for a lane above, or a stop, may have come during it.
            if check is not None:
                check()
            _leave_if_over(batch)
        return None

    def _ended(
        self,
        batch: Batch,
        attempt: Attempt,
        raised: BaseException | None,
        *,
        times: tuple[float, float],
        way: Away | None,
    ) -> Outcome:
        """Return the outcome of one record after its handler's call, and its `way` if its resource is away."""
        if raised is not None:
            error = _deciding(attempt, raised)
            if way is not None:
                self._note_uncounted(attempt)
                return self._away(batch.lane, attempt, error, way)
            # A supervisor that signals every process ends the handler's own children too.
            if batch.is_stopped() and not isinstance(error, Retry | DeadLetter):
                return _uncounted(attempt.before)
            if not is_attempt(error):
                self._note_uncounted(attempt)
                return self._early(batch.lane, attempt, error)
            return self._failed(batch.lane, attempt, raised, error)
        # With idempotency the effect says that it is done, before any count is looked at.
        if attempt.is_ahead and not self._settings.idempotency:
            # A failed call may repeat work later, never undo it.
            done = _taken_back(attempt.entry)
            if not self._write(done, attempt.record, problem=Event.SUCCESS_NOT_NOTED):
                self._write(done, attempt.record, problem=Event.SUCCESS_NOT_NOTED)
        number = attempt.number
        report.handled(self._telemetry, batch.lane, attempt.record, attempt.work, attempt=number, times=times)
        return DONE

    def _note_uncounted(self, attempt: Attempt) -> None:
        """Take an attempt that was counted ahead back at once: a later record of its batch may kill the process."""
        if attempt.is_ahead:
            entry = _taken_back(attempt.entry)
            write = partial(self._ledger.write, [entry])
            report.tried(self._telemetry, Event.RETURN_NOT_NOTED, write, lane=entry.lane, records=1)

    def _away(self, lane: Lane, attempt: Attempt, error: BaseException, way: Away) -> Outcome:
        """Return a record that found its resource away; dead-letter one that has said so alone for too long."""
        is_over = self._clock() - way.since >= self._settings.unavailable_for.total_seconds()
        if way.is_alone and is_over and not self._settings.blocks(attempt.work.kind):
            return _dead_letter(attempt.before, UNAVAILABLE, error=text_of(error), work=attempt.work)
        breaker = self.breakers.open(attempt.work.resource)
        if way.is_alone or breaker is None:
            reason = Reason.ALONE if way.is_alone else Reason.AWAY
            outcome = self.until_back(lane, attempt.record, way.seconds, reason=reason)
        else:
            outcome = self.until_next_try(lane, attempt.record, breaker, has_tried=True)
        entry = dataclasses.replace(attempt.before, away_since=way.since)
        return dataclasses.replace(outcome, entry=entry, error=text_of(error))

    def _early(self, lane: Lane, attempt: Attempt, error: BaseException) -> Outcome:
        """Return a record that its handler wants later, without an attempt."""
        delays, after = self._settlement.delays, asked_delay(error)
        seconds = delays.after_failure(lane) if after is None else after.total_seconds()
        delay = delays.untouched(lane, attempt.record, seconds)
        return Outcome(entry=attempt.before, delay=delay, reason=Reason.EARLY)

    def _failed(self, lane: Lane, attempt: Attempt, raised: BaseException, error: BaseException) -> Outcome:
        record, entry, work, ahead = attempt.record, attempt.entry, attempt.work, attempt.is_ahead
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
            self._report(raised, lane, record, work)
        is_last = entry.attempts >= self._settings.max_attempts
        if is_last and not self._settings.blocks(work.kind):
            return _dead_letter(entry, EXHAUSTED, error=description, work=work)
        delays, event = self._settlement.delays, Event.MESSAGE_FAILED
        if (after := asked_delay(error)) is not None:
            delay = delays.asked(lane, after)
            if delay < after.total_seconds():
                description += (
                    f" (after {timedelta(seconds=delay)}, not {after}: SQS hides no message for longer)"
                )
        else:
            delay = delays.after_failure(lane, attempt=entry.attempts)
        if is_last:
            entry, event = self._blocking(record, entry, work), Event.GROUP_BLOCKED
            asked = None if after is None else delay
            delay = delays.while_blocking(lane, record, attempt=entry.attempts, asked=asked)
        fields = {"priority": work.priority, "attempt": entry.attempts, "sent_at": record.sent_at}
        failure = {"error": description, "delay": delay}
        report.decoded(self._telemetry, event, lane, record, work, **fields, **failure)
        return Outcome(ending=Ending.FAILED, entry=entry, delay=delay)

    def _report(self, raised: BaseException, lane: Lane, record: RawRecord, work: Work) -> None:
        ids = {"message_id": record.message_id, "trace_id": work.trace.trace_id if work.trace else None}
        try:
            raise raised  # noqa: TRY301 - the log prints the error that is being handled
        except BaseException:  # noqa: BLE001 - see above
            self._telemetry.problem(Event.HANDLER_FAILED, lane=lane.name, **ids)

    def _count(self, entry: Entry, record: RawRecord, ending: Ending, *, error: str) -> Entry:
        """Count one attempt in the table; one failed call is repeated, since an attempt must not go uncounted."""
        counted = dataclasses.replace(
            entry,
            attempts=entry.attempts + 1,
            ending=ending,
            noted_receive=record.receive_count,
            noted_at=self._clock(),
            last_error=error,
            away_since=0.0,
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


def _deciding(attempt: Attempt, raised: BaseException) -> BaseException:
    handler = attempt.work.handler
    return deciding(raised, unavailable=handler.unavailable if handler else ())


def _uncounted(entry: Entry, *, to: Lane | None = None) -> Outcome:
    """Return the outcome of a record whose attempt does not count; settlement writes its entry with the yield."""
    return Outcome(ending=Ending.YIELDED, entry=entry, to=to)


def _taken_back(entry: Entry) -> Entry:
    """Return an entry without the attempt that was counted ahead; how the receive ends is not known yet."""
    return dataclasses.replace(entry, attempts=entry.attempts - 1, ending=Ending.NONE)


def _leave_if_over(batch: Batch) -> None:
    """Raise `Yielded` if the time is over, or the process is to stop."""
    if batch.is_over:
        raise Yielded


def _dead_letter(entry: Entry, reason: str, *, error: str = "", work: Work | None = None) -> Outcome:
    ending, end = Ending.DEAD_LETTERED, "dead_lettered"
    return Outcome(ending=ending, entry=entry, reason=reason, error=error, work=work, end=end)


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
