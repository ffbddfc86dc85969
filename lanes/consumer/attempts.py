"""One record, from its body to what became of it: decode, find the handler, count the attempt, run, classify."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lanes.consumer import delays
from lanes.consumer.context import HandlerContext, Yielded
from lanes.consumer.handlers import check_ran
from lanes.consumer.ledger import Effect, Ending
from lanes.consumer.outcomes import Failed, GivenUp, Handled, MadeWay, Postponed
from lanes.consumer.settlement import Reason
from lanes.consumer.telemetry import Metric
from lanes.consumer.wording import text_of, words_of
from lanes.consumer.work import resolve
from lanes.errors import AwsError, DeadLetter, MessageDecodeError, Retry, UnknownKindError
from lanes.priority import CURRENT_PRIORITY
from lanes.trace_context import CONTINUED_TRACE

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from lanes.config import ConsumerSettings, Lane
    from lanes.consumer.handlers import Handlers
    from lanes.consumer.ledger import Cause, Entry, Ledger
    from lanes.consumer.outcomes import Outcome
    from lanes.consumer.records import RawRecord
    from lanes.consumer.telemetry import Telemetry
    from lanes.consumer.tracing import Tracing
    from lanes.consumer.work import Work
    from lanes.trace_context import TraceContext

EXHAUSTED = "attempts exhausted"
ELSEWHERE_RETRY = 2
"""Seconds until a record is looked at again whose id is being handled by another delivery."""


class Attempts:
    """Runs attempts and keeps their count right, whatever ends them."""

    def __init__(
        self,
        *,
        settings: ConsumerSettings,
        handlers: Handlers,
        ledger: Ledger,
        telemetry: Telemetry,
        tracing: Tracing,
        clock: Callable[[], float],
        random: Random,
    ) -> None:
        self._settings = settings
        self._handlers = handlers
        self._ledger = ledger
        self._telemetry = telemetry
        self._tracing = tracing
        self._clock = clock
        self._random = random

    def run(
        self,
        lane: Lane,
        record: RawRecord,
        entry: Entry,
        *,
        check: Callable[[], None],
        seconds_left: Callable[[], float],
    ) -> Outcome:
        """Handle one record; `check` is what `context.checkpoint` does."""
        exhausted = entry.attempts >= self._settings.max_attempts
        if entry.given_up or (exhausted and not self._settings.idempotency):
            return GivenUp(entry=entry, reason=entry.given_up or EXHAUSTED, error=last_words(entry))
        try:
            work = resolve(record, self._handlers)
        except (MessageDecodeError, UnknownKindError) as error:
            return GivenUp(entry=entry, reason=str(error))
        if self._settings.idempotency:
            effect = self._begin(work, record, seconds_left())
            if effect is Effect.DONE:
                return self._done_before(entry, work)
            if effect is Effect.ELSEWHERE:
                return Postponed(entry=entry, delay=ELSEWHERE_RETRY, reason=Reason.ELSEWHERE)
        if exhausted:
            # Only now, since its last attempt may have done it and lost no more than the deletion.
            self._release(work, record)
            return GivenUp(entry=entry, reason=EXHAUSTED, error=last_words(entry))
        return self._attempt(lane, record, entry, work, check=check, seconds_left=seconds_left)

    def _done_before(self, entry: Entry, work: Work) -> Handled:
        now = self._clock()
        return Handled(
            entry=entry, work=work, attempt=entry.attempts, started_at=now, finished_at=now, duplicate=True
        )

    def _begin(self, work: Work, record: RawRecord, seconds_left: float) -> Effect:
        now = self._clock()
        return self._ledger.begin_effect(
            work.effect_id, owner=record.message_id, now=now, until=now + max(0.0, seconds_left) + 1
        )

    def _attempt(
        self,
        lane: Lane,
        record: RawRecord,
        entry: Entry,
        work: Work,
        *,
        check: Callable[[], None],
        seconds_left: Callable[[], float],
    ) -> Outcome:
        announced = entry.announces_attempts or self._settings.idempotency
        cause = entry.cause_of(record)
        if announced:
            entry = self._count(entry, record, Ending.STARTED, error="")
        attempt = entry.attempts if announced else entry.attempts + 1
        started_at = self._clock()
        try:
            self._run(
                lane, record, work, attempt=attempt, cause=cause, check=check, seconds_left=seconds_left
            )
        except Yielded:
            self._release(work, record)
            forgiven = dataclasses.replace(entry, attempts=entry.attempts - 1) if announced else entry
            return MadeWay(entry=forgiven)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - the border to user code: whatever it raises is an outcome
            return self._failed(lane, record, entry, work, error, announced=announced)
        if announced:
            self._succeeded(entry, work, record)
        return Handled(
            entry=entry, work=work, attempt=attempt, started_at=started_at, finished_at=self._clock()
        )

    def _run(
        self,
        lane: Lane,
        record: RawRecord,
        work: Work,
        *,
        attempt: int,
        cause: Cause,
        check: Callable[[], None],
        seconds_left: Callable[[], float],
    ) -> None:
        """Call the handler inside the message's priority and trace."""
        with self._tracing.attempt(lane, record, work, attempt=attempt, cause=cause) as trace:
            given: list[Any] = [work.argument]
            if work.handler.takes_context:
                given.append(
                    self._context(
                        lane, record, trace, attempt=attempt, check=check, seconds_left=seconds_left
                    )
                )
            # The blocks that users open check what they are given, and are objects: every message passes here.
            outer = CURRENT_PRIORITY.set(CURRENT_PRIORITY.get() if work.priority is None else work.priority)
            before = CONTINUED_TRACE.set(trace)
            try:
                if (result := work.handler.function(*given)) is not None:
                    check_ran(result)
            finally:
                CONTINUED_TRACE.reset(before)
                CURRENT_PRIORITY.reset(outer)

    def _context(
        self,
        lane: Lane,
        record: RawRecord,
        trace: TraceContext | None,
        *,
        attempt: int,
        check: Callable[[], None],
        seconds_left: Callable[[], float],
    ) -> HandlerContext:
        return HandlerContext(
            lane=lane.name,
            attempt=attempt,
            max_attempts=self._settings.max_attempts,
            receive_count=record.receive_count,
            message_id=record.message_id,
            remaining=lambda: timedelta(seconds=max(0.0, seconds_left())),
            check=check,
            traceparent=str(trace) if trace else None,
        )

    def _failed(
        self,
        lane: Lane,
        record: RawRecord,
        entry: Entry,
        work: Work,
        error: BaseException,
        *,
        announced: bool,
    ) -> Outcome:
        words = words_of(error)
        self._telemetry.count(Metric.FAILED)
        if isinstance(error, DeadLetter):
            # Noted before it is sent: after a crash in between it must not run once more, and then perhaps succeed.
            # Without a word of a reason it would not count as given up.
            entry = dataclasses.replace(entry, given_up=text_of(error.reason) or words)
        if not announced:
            entry = self._count(entry, record, Ending.FAILED, error=words)
        entry = dataclasses.replace(entry, last_error=words, ending=Ending.FAILED)
        if announced and entry.given_up:
            self._note_given_up(entry, record)
        self._release(work, record)
        if isinstance(error, DeadLetter):
            return GivenUp(entry=entry, work=work, reason=entry.given_up)
        if not isinstance(error, Retry):
            self._telemetry.problem(
                "handler_failed", lane=lane.name, message_id=record.message_id, trace_id=work.trace_id
            )
        if entry.attempts >= self._settings.max_attempts:
            return GivenUp(entry=entry, work=work, reason=EXHAUSTED, error=words)
        if isinstance(error, Retry) and isinstance(error.after, timedelta):
            delay = delays.asked(lane, error.after)
        else:
            delay = delays.backoff(self._settings, lane, attempt=entry.attempts, random=self._random)
        return Failed(entry=entry, work=work, delay=delay, error=words)

    def _count(self, entry: Entry, record: RawRecord, ending: Ending, *, error: str) -> Entry:
        """Count one attempt in the table; one failed call is repeated, since an attempt must not go uncounted."""
        counted = dataclasses.replace(
            entry,
            attempts=entry.attempts + 1,
            ending=ending,
            noted_receive=record.receive_count,
            noted_at=self._clock(),
            last_error=error,
        )
        try:
            self._ledger.note([counted])
        except AwsError:
            try:
                self._ledger.note([counted])
            except AwsError:
                if ending is Ending.STARTED:
                    raise  # it has not begun, so it must not begin
                # Settlement notes the same entry once more.
                self._telemetry.problem("attempt_not_counted", lane=entry.lane, message_id=record.message_id)
        return counted

    def _note_given_up(self, entry: Entry, record: RawRecord) -> None:
        try:
            self._ledger.note([entry])
        except AwsError:
            self._telemetry.problem("given_up_not_noted", lane=entry.lane, message_id=record.message_id)

    def _succeeded(self, entry: Entry, work: Work, record: RawRecord) -> None:
        """Tell the ledger. The handler is done either way: a failed call may repeat work later, never undo it."""
        for _ in range(2):
            try:
                self._note_success(entry, work, record)
                break
            except AwsError:
                self._telemetry.problem("success_not_noted", lane=entry.lane, message_id=record.message_id)

    def _note_success(self, entry: Entry, work: Work, record: RawRecord) -> None:
        if self._settings.idempotency:
            now = self._clock()
            keep_until = now + self._settings.idempotency_window.total_seconds()
            self._ledger.finish_effect(
                work.effect_id, owner=record.message_id, now=now, keep_until=keep_until
            )
        else:
            self._ledger.note([dataclasses.replace(entry, attempts=entry.attempts - 1, ending=Ending.NONE)])

    def _release(self, work: Work, record: RawRecord) -> None:
        if not self._settings.idempotency:
            return
        try:
            self._ledger.release_effect(work.effect_id, owner=record.message_id)
        except AwsError:
            # The claim ends with the function's time.
            self._telemetry.problem("effect_not_released", message_id=record.message_id)


def last_words(entry: Entry) -> str:
    """Return what is known of the last failed attempt."""
    if entry.ending is Ending.STARTED:
        return "the attempt ended without an answer: its process crashed or ran out of time"
    return entry.last_error
