"""Batch calls through a sender that blocks."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import count
from typing import TYPE_CHECKING, Protocol

from lanes.producer.outgoing import UNANSWERED, CallEnded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.producer.outgoing import Accepted, BatchSender, Refused, SendEntry

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
