"""Event source mappings in virtual time: pollers that receive, try the function, back off, and delete."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from lanes.testing.fifo.errors import FifoQueueError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from lanes.config import Lane
    from lanes.testing.fifo.message import ReceivedMessage
    from lanes.testing.fifo.queue import FifoQueue
    from simulator.kernel import Kernel
    from simulator.parameters import Unknowns


class Invocable(Protocol):
    """The function behind the mappings."""

    def invoke(
        self, lane: Lane, messages: Sequence[ReceivedMessage], done: Callable[[set[str] | None], None]
    ) -> bool:
        """
        Start an invocation unless all slots are taken; return whether it started.

        `done` is called at its end with the ids to keep, or with None where the whole batch failed.
        """


class SimulatedMapping:
    """
    The mapping of one lane.

    AWS: it has at most its maximum concurrency of batches at once, knows nothing of the function's reserved
    concurrency, and tries a throttled batch again until the visibility timeout ends (Lambda developer guide,
    "Using Lambda with Amazon SQS"). Without work its pollers sleep until the queue has something.
    """

    def __init__(
        self,
        lane: Lane,
        *,
        queue: FifoQueue,
        function: Invocable,
        kernel: Kernel,
        unknowns: Unknowns,
        chance: Random,
    ) -> None:
        self._lane = lane
        self._queue = queue
        self._function = function
        self._kernel = kernel
        self._unknowns = unknowns
        self._chance = chance
        self._idle = 0
        self._alarm_at = float("inf")
        self.throttles = 0
        self.receives = 0
        for _ in range(lane.maximum_concurrency):
            kernel.after(chance.random() * unknowns.notice, self._poll)

    def notice(self) -> None:
        """Wake idle pollers after something was sent, deleted, or made visible."""
        if self._idle and self._queue.is_receivable():
            woken, self._idle = self._idle, 0
            for _ in range(woken):
                self._kernel.after(self._unknowns.notice * self._chance.random(), self._poll)

    def _poll(self) -> None:
        messages = self._queue.receive(self._lane.batch_size)
        if not messages:
            self._idle += 1
            self._set_alarm()
            return
        self.receives += 1
        until = self._kernel.now + self._lane.visibility_timeout.total_seconds()
        self._kernel.after(self._unknowns.poll, lambda: self._try(messages, 1, until))

    def _set_alarm(self) -> None:
        """Look again when the queue says that something will become visible."""
        moment = self._queue.next_event_at()
        if moment is None or moment >= self._alarm_at:
            return
        self._alarm_at = moment
        self._kernel.after(max(0.0, moment - self._kernel.now), self._alarm)

    def _alarm(self) -> None:
        if self._kernel.now >= self._alarm_at:
            self._alarm_at = float("inf")
        self.notice()
        if self._idle:
            self._set_alarm()

    def _try(self, messages: Sequence[ReceivedMessage], tries: int, until: float) -> None:
        if self._function.invoke(self._lane, messages, lambda kept: self._answered(messages, kept)):
            return
        self.throttles += 1
        left = timedelta(seconds=until - self._kernel.now)
        wait = self._unknowns.backoff.wait(tries, left=left, chance=self._chance)
        if wait is None:
            self._poll()
            return
        self._kernel.after(wait.total_seconds(), lambda: self._try(messages, tries + 1, until))

    def _answered(self, messages: Sequence[ReceivedMessage], kept: set[str] | None) -> None:
        def delete() -> None:
            for message in messages:
                if kept is not None and message.message_id not in kept:
                    # A receipt that is old by now belongs to a record that was received again.
                    with contextlib.suppress(FifoQueueError):
                        self._queue.delete(message.receipt_handle)
            self._poll()

        self._kernel.after(self._unknowns.delete, delete)
