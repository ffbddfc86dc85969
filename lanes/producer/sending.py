"""
The engine of every sender: several calls in flight, retries when due, higher lanes first.

Only the calling thread changes the order of the lanes.
"""

from __future__ import annotations

import random
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Generic, Protocol

from lanes.producer.order import MAX_ENTRIES, T
from lanes.producer.outgoing import INTERRUPTED, UNANSWERED, CallEnded, SendReport, UnsentMessage
from lanes.retries import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.producer.order import LaneOrder, SendOrder
    from lanes.producer.outgoing import Accepted, BatchCalls, BatchSender, Outgoing, Refused, SendEntry

    Answers = list[Accepted | Refused]


class Enterable(Protocol):
    """A message that knows its entry in a call."""

    def entry(self, entry_id: str) -> SendEntry:
        """Return it as an entry of a batch call."""


class ThreadedCalls:
    """
    Makes batch calls through a blocking sender.

    Args:
        sender: sends one batch.
        concurrency: most calls at the same time; with 1 they run in the calling thread, and no other is started.
    """

    def __init__(self, sender: BatchSender, *, concurrency: int) -> None:
        self._sender = sender
        self._threads = (
            None if concurrency == 1 else ThreadPoolExecutor(concurrency, thread_name_prefix="lanes-send")
        )
        self._futures: dict[Future[Answers], int] = {}
        self._numbers = count(1)

    def start(self, queue_url: str, items: Sequence[Enterable]) -> int:
        """Start a call with up to ten messages and return its number."""
        number = next(self._numbers)
        self._futures[self._submitted(queue_url, items)] = number
        return number

    def ended(self, timeout: float | None) -> list[CallEnded]:
        """Wait until a call ends or the timeout has passed, and return the calls that ended."""
        done, _ = wait(self._futures, timeout=timeout, return_when=FIRST_COMPLETED)
        return [self._ended(future) for future in done]

    def close(self) -> None:
        """End the threads; calls in progress are left alone."""
        # Without waiting: a task that ends must not hang on a call that has no reader left.
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _submitted(self, queue_url: str, items: Sequence[Enterable]) -> Future[Answers]:
        if self._threads is not None:
            try:
                return self._threads.submit(self._call, queue_url, items)
            except RuntimeError:
                # Python starts no thread any more once the interpreter exits, as in a function of `atexit`.
                pass
        future: Future[Answers] = Future()
        try:
            future.set_result(self._call(queue_url, items))
        except BaseException as error:  # noqa: BLE001 - the dispatch raises it again
            future.set_exception(error)
        return future

    def _call(self, queue_url: str, items: Sequence[Enterable]) -> Answers:
        answers = self._sender.send_batch(queue_url, [item.entry(str(at)) for at, item in enumerate(items)])
        return [answers.get(str(at), UNANSWERED) for at in range(len(items))]

    def _ended(self, future: Future[Answers]) -> CallEnded:
        number, error = self._futures.pop(future), future.exception()
        return CallEnded(number=number, answers=() if error else future.result(), error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pacing:
    """
    When a producer sends, and with which sources of time and chance.

    Attributes:
        retries: decides about retries.
        max_concurrency: limit for the `concurrency` of `send_many`; with 1 no thread is started.
        clock: monotonic seconds.
        pause: sleeps for a number of seconds.
        jitter: returns numbers from 0 to 1 that spread the retries.
    """

    retries: RetryPolicy = field(default_factory=RetryPolicy)
    max_concurrency: int | None = None
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random


class Dispatch(Generic[T]):
    """
    Sends the messages of all lanes, also those that are added meanwhile.

    Args:
        orders: one for each lane, highest first.
        queue_urls: by name of the lane.
        calls: makes the calls.
        concurrency: maximum number of calls in flight over all lanes.
        pacing: time.
        max_entries: maximum number of messages of a call.
        starting: called before each call of messages that SQS has not seen, with lane and number; it may wait, by
            `pause`.
        settled: receives the lane and what SQS has accepted, after each call that was answered.
        answered: called when answers have been settled.

    Attributes:
        cause: the first failure of a whole call, None without any; later ones often follow from it.
    """

    def __init__(
        self,
        orders: Sequence[LaneOrder[T]],
        *,
        queue_urls: Mapping[str, str],
        calls: BatchCalls[T],
        concurrency: int,
        pacing: Pacing,
        max_entries: int = MAX_ENTRIES,
        starting: Callable[[str, int], object] = lambda _lane, _messages: None,
        settled: Callable[[str, list[T]], object] = lambda _lane, _accepted: None,
        answered: Callable[[], object] = lambda: None,
    ) -> None:
        self.cause: BaseException | None = None
        self._orders = orders
        self._queue_urls = queue_urls
        self._calls = calls
        self._concurrency = concurrency
        self._clock = pacing.clock
        self._pause = pacing.pause
        self._max_entries = max_entries
        self._starting = starting
        self._settled = settled
        self._answered = answered
        self._in_flight: dict[int, tuple[LaneOrder[T], list[T]]] = {}

    def add(self, order: LaneOrder[T], item: T) -> None:
        """Add a message and start a call that it fills; returns when there is room for another message."""
        order.add(item)
        while order.has_batch and not self._start(order) and self._in_flight:
            self._collect(None)
        while order.is_full:
            self._step()

    def drain(self, before_step: Callable[[], object] = lambda: None) -> None:
        """Send all messages; `before_step` is called before each wait, and may stop the orders."""
        before_step()
        while self._step():
            before_step()

    def pause(self, seconds: float) -> None:
        """Let time pass, settle the answers that come meanwhile, and repeat messages without one."""
        until = self._clock() + seconds
        while (left := until - self._clock()) > 0:
            # SQS knows a message again for five minutes, and a pause may take hours.
            due = self._start_all(only_repeats=True)
            left = left if due is None else min(left, due)
            if self._in_flight:
                self._collect(left)
            else:
                self._pause(left)

    def finish(self) -> None:
        """Wait for the calls in flight and start no others; the first error is raised at the end."""
        failure: BaseException | None = None
        while self._in_flight:
            failure = self._settle(None) or failure
        if failure is not None:
            raise failure

    def _step(self) -> bool:
        """Start the calls that may start, then wait for an answer or the next retry; false if there is neither."""
        seconds = self._start_all()
        if self._in_flight:
            self._collect(seconds)
        elif seconds is not None:
            self._pause(seconds)
        else:
            return False
        return True

    def _start_all(self, *, only_repeats: bool = False) -> float | None:
        """Start the calls that may start; return the seconds until another one may without an answer, or None."""
        for order in self._orders:
            while self._start(order, only_repeats=only_repeats):
                pass
        if len(self._in_flight) >= self._concurrency:
            return None
        moments = (order.next_due(only_repeats=only_repeats) for order in self._orders)
        due = min((at for at in moments if at is not None), default=None)
        return None if due is None else max(0.0, due - self._clock())

    def _start(self, order: LaneOrder[T], *, only_repeats: bool = False) -> bool:
        if len(self._in_flight) >= self._concurrency:
            return False
        batch = order.next_batch(self._clock(), max_entries=self._max_entries, only_repeats=only_repeats)
        if not batch:
            return False
        if batch[0].attempts == 0:
            self._starting(order.lane, len(batch))
            while len(self._in_flight) >= self._concurrency:
                self._collect(None)
        if carried := order.start(batch, self._clock()):
            self._in_flight[self._calls.start(self._queue_urls[order.lane], carried)] = (order, carried)
        return True

    def _collect(self, timeout: float | None) -> None:
        failure = self._settle(timeout)
        if failure is not None:
            raise failure
        self._answered()

    def _settle(self, timeout: float | None) -> BaseException | None:
        """Settle the calls that ended, all of them, and give the first error."""
        # All leave at once: no answer comes any more for one that is left behind.
        ended = [(one, *self._in_flight.pop(one.number)) for one in self._calls.ended(timeout)]
        failure: BaseException | None = None
        for one, order, batch in ended:
            try:
                self._apply(one, order, batch)
            except BaseException as error:  # noqa: BLE001 - the caller raises it
                failure = failure or error
        return failure

    def _apply(self, one: CallEnded, order: LaneOrder[T], batch: list[T]) -> None:
        if one.error is None:
            self._settled(order.lane, order.settle(batch, one.answers, self._clock()))
            return
        self.cause = self.cause or one.error
        order.settle_failure(batch, one.error, self._clock())
        if not isinstance(one.error, Exception):
            raise one.error


class SendAll:
    """
    One `send_many`, with a report of every message.

    Args:
        orders: one for each lane with all of its messages, highest first.
        queue_urls: by name of the lane.
        calls: makes the calls; closed at the end.
        concurrency: as of `Dispatch`.
        pacing: time.
        progress: receives the number of accepted messages, after each call.
    """

    def __init__(
        self,
        orders: Sequence[SendOrder],
        *,
        queue_urls: Mapping[str, str],
        calls: BatchCalls[Outgoing],
        concurrency: int,
        pacing: Pacing,
        progress: Callable[[int], object] | None = None,
    ) -> None:
        self._orders = orders
        self._calls = calls
        self._progress = progress
        self._dispatch = Dispatch(
            orders,
            queue_urls=queue_urls,
            calls=calls,
            concurrency=concurrency,
            pacing=pacing,
            settled=self._settled,
        )

    def run(
        self, items: Sequence[Outgoing], *, should_stop: Callable[[], bool] = lambda: False
    ) -> SendReport:
        """
        Send everything and report each message as sent or unsent.

        Args:
            items: the messages.
            should_stop: asked before each call; from True on no call is made.

        Raises:
            BaseException: an interrupt (KeyboardInterrupt, SystemExit), after the calls in flight have returned; its
                cause is the error that lists what was sent until then.
        """
        cause: Exception | None = None
        try:
            self._send(should_stop)
        except Exception as error:  # noqa: BLE001 - kept as the cause in the report
            cause = error
        except BaseException as interrupt:
            raise interrupt from self._report(items, None).error()
        return self._report(items, cause)

    def _send(self, should_stop: Callable[[], bool]) -> None:
        def stop_if_asked() -> None:
            if should_stop():
                self._stop()

        try:
            self._dispatch.drain(stop_if_asked)
        except BaseException:
            self._stop()
            # Each call in flight has an answer in the report.
            with suppress(Exception):
                self._dispatch.finish()
            raise
        finally:
            self._calls.close()

    def _settled(self, _lane: str, _accepted: Sequence[Outgoing]) -> None:
        if self._progress is not None:
            self._progress(sum(len(order.sent) for order in self._orders))

    def _stop(self) -> None:
        for order in self._orders:
            order.stop(INTERRUPTED, "sending was interrupted")

    def _report(self, items: Sequence[Outgoing], cause: Exception | None) -> SendReport:
        """List every message as sent or unsent, also one that an interrupt left between the two."""
        sent = {index: record for order in self._orders for index, record in order.sent.items()}
        unsent = {index: record for order in self._orders for index, record in order.unsent.items()}
        for item in items:
            if item.index not in sent and item.index not in unsent:
                # An interrupt may come between a batch's removal from its lane and its call.
                unsent[item.index] = UnsentMessage(
                    message=item.message,
                    lane="",
                    reason="Interrupted: sending was interrupted",
                    code=INTERRUPTED,
                    maybe_sent=item.attempts > 0,
                )
        return SendReport(
            sent=[sent[index] for index in sorted(sent)],
            unsent=[unsent[index] for index in sorted(unsent)],
            cause=self._dispatch.cause or cause,
        )
