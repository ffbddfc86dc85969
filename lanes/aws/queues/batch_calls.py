"""
Batch calls of bulk senders: several on their way at once, answered in whatever order.

Owns the seam `BatchCalls` and its plain form on boto3's client; `lanes.aws.queues.lean_calls` has the lean one.
"""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from lanes.errors import AwsError
from lanes.producer.outgoing import Accepted, BatchSender, Refused, SendEntry

if TYPE_CHECKING:
    from collections.abc import Sequence

UNANSWERED = Refused(code="Unanswered", reason="the answer of SQS leaves it out", retryable=True)


class Entry(Protocol):
    """A message, for a batch call; `run` is the mark of its run, empty for none."""

    body: str
    message_group_id: str
    message_deduplication_id: str
    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnded:
    """
    A call that ended.

    Attributes:
        number: what `start` gave.
        answers: by position in the batch, None for an entry that is in the queue.
        error: the failure of the whole call; there are no answers then.
    """

    number: int
    answers: Sequence[Refused | None] = ()
    error: AwsError | None = None


class BatchCalls(Protocol):
    """Makes batch calls; used by one thread."""

    def start(self, queue_url: str, entries: Sequence[Entry]) -> int:
        """Start a call with up to ten entries and return its number."""

    def ended(self, timeout: float | None) -> list[CallEnded]:
        """Wait until a call ends or the timeout has passed, and return the calls that ended."""

    def close(self) -> None:
        """Close the connections; calls in progress are left alone."""


class ClientCalls:
    """
    Makes batch calls through a blocking sender, each in a thread.

    Args:
        sender: sends one batch.
        concurrency: most calls at once.
    """

    def __init__(self, sender: BatchSender, *, concurrency: int) -> None:
        self._sender = sender
        self._threads = ThreadPoolExecutor(concurrency, thread_name_prefix="lanes-bulk")
        self._futures: dict[Future[list[Refused | None]], int] = {}
        self._count = 0

    def start(self, queue_url: str, entries: Sequence[Entry]) -> int:
        """Start a call with up to ten entries and return its number."""
        self._count += 1
        self._futures[self._threads.submit(self._call, queue_url, list(entries))] = self._count
        return self._count

    def ended(self, timeout: float | None) -> list[CallEnded]:
        """Wait until a call ends or the timeout has passed, and return the calls that ended."""
        done, _ = wait(self._futures, timeout=timeout, return_when=FIRST_COMPLETED)
        return [self._ended(future) for future in done]

    def close(self) -> None:
        """End the threads; calls in progress are left alone."""
        # Without waiting: a task that ends must not hang on a call that has no reader left.
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _call(self, queue_url: str, entries: Sequence[Entry]) -> list[Refused | None]:
        answers = self._sender.send_batch(
            queue_url,
            [
                SendEntry(
                    entry_id=str(place),
                    body=entry.body,
                    message_group_id=entry.message_group_id,
                    message_deduplication_id=entry.message_deduplication_id,
                    run=entry.run,
                )
                for place, entry in enumerate(entries)
            ],
        )
        found = (answers.get(str(place), UNANSWERED) for place in range(len(entries)))
        return [None if isinstance(answer, Accepted) else answer for answer in found]

    def _ended(self, future: Future[list[Refused | None]]) -> CallEnded:
        number = self._futures.pop(future)
        error = future.exception()
        if error is None:
            return CallEnded(number=number, answers=future.result())
        if isinstance(error, AwsError):
            return CallEnded(number=number, error=error)
        raise error
