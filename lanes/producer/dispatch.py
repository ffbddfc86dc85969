"""
One `send_many`: several calls in flight, retries when due, and a report of every message.

Only the calling thread changes the order of the lanes; the other threads make calls and nothing else.
"""

from __future__ import annotations

import random
import time
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lanes.producer.report import INTERRUPTED, SendReport, UnsentMessage
from lanes.retries import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.producer.order import SendOrder
    from lanes.producer.outgoing import Accepted, BatchSender, Outgoing, Refused


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


Answers = dict[int, "Accepted | Refused"]


class Dispatch:
    """
    Sends the messages of all lanes, higher lanes first.

    Args:
        orders: one for each lane, highest first.
        queue_urls: by name of the lane.
        sqs: sends one batch.
        concurrency: maximum number of calls in flight over all lanes; with 1 they run in the calling thread.
        pacing: time.
        progress: receives the number of accepted messages, after each call.
    """

    def __init__(
        self,
        orders: Sequence[SendOrder],
        *,
        queue_urls: Mapping[str, str],
        sqs: BatchSender,
        concurrency: int,
        pacing: Pacing,
        progress: Callable[[int], object] | None = None,
    ) -> None:
        self._orders = orders
        self._queue_urls = queue_urls
        self._sqs = sqs
        self._concurrency = concurrency
        self._clock = pacing.clock
        self._pause = pacing.pause
        self._progress = progress
        self._calls: dict[Future[Answers], tuple[SendOrder, list[Outgoing]]] = {}
        self._cause: BaseException | None = None

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
        try:
            # Its end waits for the calls in flight, so each has an answer in the report.
            with self._executor() as executor:
                try:
                    self._send_all(executor, should_stop)
                except BaseException:
                    self._stop()
                    raise
        except Exception as error:  # noqa: BLE001 - kept as the cause in the report
            self._cause = self._cause or error
        except BaseException as interrupt:
            self._collect_finished()
            raise interrupt from self._report(items).error()
        self._collect_finished()
        return self._report(items)

    def _executor(self) -> Executor:
        if self._concurrency == 1:
            return _CallingThread()
        return ThreadPoolExecutor(self._concurrency, thread_name_prefix="lanes-send")

    def _send_all(self, executor: Executor, should_stop: Callable[[], bool]) -> None:
        while True:
            if should_stop():
                self._stop()
            self._start_calls(executor)
            due = min((due for order in self._orders if (due := order.next_due()) is not None), default=None)
            wait_seconds = None if due is None else max(0.0, due - self._clock())
            if self._calls:
                # With all calls in use, a retry that falls due could not start anyway.
                timeout = wait_seconds if len(self._calls) < self._concurrency else None
                done, _ = wait(self._calls, timeout=timeout, return_when=FIRST_COMPLETED)
                for future in done:
                    self._settle(future)
            elif wait_seconds is not None:
                self._pause(wait_seconds)
            else:
                return

    def _start_calls(self, executor: Executor) -> None:
        for order in self._orders:
            while len(self._calls) < self._concurrency and (batch := order.next_batch(self._clock())):
                try:
                    future = executor.submit(self._call, order.lane, batch)
                except RuntimeError:
                    # Python starts no thread any more once the interpreter exits, as in a function of `atexit`.
                    future = _CallingThread().submit(self._call, order.lane, batch)
                self._calls[future] = (order, batch)

    def _call(self, lane: str, batch: Sequence[Outgoing]) -> Answers:
        entries = [item.entry(str(position)) for position, item in enumerate(batch)]
        answers = self._sqs.send_batch(self._queue_urls[lane], entries)
        return {
            item.index: answers[str(position)]
            for position, item in enumerate(batch)
            if str(position) in answers
        }

    def _settle(self, future: Future[Answers]) -> None:
        order, batch = self._calls.pop(future)
        error = future.exception()
        if error is None:
            order.settle(batch, future.result(), self._clock())
            if self._progress is not None:
                self._progress(sum(len(order.sent) for order in self._orders))
            return
        # The first one: later errors often follow from it.
        self._cause = self._cause or error
        order.settle_failure(batch, error, self._clock())
        if not isinstance(error, Exception):
            raise error

    def _stop(self) -> None:
        for order in self._orders:
            order.stop(INTERRUPTED, "sending was interrupted")

    def _collect_finished(self) -> None:
        """Settle the calls that returned after an interrupt; by then all threads have ended."""
        for future in [future for future in self._calls if future.done()]:
            order, batch = self._calls.pop(future)
            error = future.exception()
            if error is None:
                order.settle(batch, future.result(), self._clock())
            else:
                order.settle_failure(batch, error, self._clock())

    def _report(self, items: Sequence[Outgoing]) -> SendReport:
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
            cause=self._cause,
        )


class _CallingThread(Executor):
    """Runs a call immediately, in the calling thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - the future raises it again
            future.set_exception(error)
        return future
