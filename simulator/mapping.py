"""Event source mappings in virtual time: pollers that receive, try the function, back off, and delete."""

from __future__ import annotations

import contextlib
import dataclasses
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from lanes.testing.fifo.errors import FifoQueueError

from .parameters import Faults, Winner

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from lanes.config import Lane
    from lanes.testing.fifo.message import ReceivedMessage

    from .kernel import Kernel
    from .parameters import Unknowns

RAMP_EVERY = 1.0
"""Seconds between two looks at whether more pollers are needed."""

_PLACED = -1


class Queue(Protocol):
    """What a mapping does with its queue."""

    def receive(self, maximum: int = 1) -> list[ReceivedMessage]:
        """Take messages out."""

    def delete(self, receipt_handle: str) -> None:
        """Delete a message that was taken out."""

    def is_receivable(self) -> bool:
        """Whether there is something to take out."""

    def next_event_at(self) -> float | None:
        """Return when something becomes visible by itself."""


class Invocable(Protocol):
    """The function behind the mappings."""

    def invoke(
        self, lane: Lane, messages: Sequence[ReceivedMessage], done: Callable[[set[str] | None], None]
    ) -> bool:
        """
        Start an invocation unless all slots are taken; return whether it started.

        `done` is called at its end with the ids to keep, or with None where the whole batch failed.
        """

    def stand_in_line(self, rank: int, retry: Callable[[], None]) -> None:
        """Ask to be tried at once when a slot becomes free, in the order of ranks."""


@dataclasses.dataclass(slots=True, eq=False)
class Held:
    """A batch that was received and has no slot yet."""

    messages: Sequence[ReceivedMessage]
    until: float
    tries: int = 0


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
        queue: Queue,
        function: Invocable,
        kernel: Kernel,
        unknowns: Unknowns,
        chance: Random,
        faults: Faults | None = None,
    ) -> None:
        self._lane = lane
        self._queue = queue
        self._function = function
        self._kernel = kernel
        self._unknowns = unknowns
        self._chance = chance
        self._faults = faults or Faults()
        self._idle = 0
        self._alarm_at = float("inf")
        self._pollers = 0
        self._ramping = False
        self.throttles = 0
        self.receives = 0
        self.empty_receives = 0
        self.deletes = 0
        first = unknowns.first_pollers or lane.maximum_concurrency
        for _ in range(min(first, lane.maximum_concurrency)):
            self._add_poller()

    @property
    def pollers(self) -> int:
        """How many batches it may have at once by now."""
        return self._pollers

    def notice(self) -> None:
        """Wake idle pollers after something was sent, deleted, or made visible."""
        if not self._idle:
            return
        if not self._queue.is_receivable():
            self._set_alarm()
            return
        woken, self._idle = self._idle, 0
        for _ in range(woken):
            self._kernel.after(self._unknowns.notice * self._chance.random(), self._poll)

    def _ramp_soon(self) -> None:
        if not self._ramping and self._pollers < self._lane.maximum_concurrency:
            self._ramping = True
            self._kernel.after(RAMP_EVERY, self._ramp)

    def _add_poller(self) -> None:
        self._pollers += 1
        self._kernel.after(self._chance.random() * self._unknowns.notice, self._poll)

    def _ramp(self) -> None:
        """Add pollers while all are at work and there is more to receive."""
        self._ramping = False
        if self._idle or not self._queue.is_receivable():
            return
        wanted = self._unknowns.ramp * RAMP_EVERY
        more = int(wanted) + (self._chance.random() < wanted % 1)
        for _ in range(min(more, self._lane.maximum_concurrency - self._pollers)):
            self._add_poller()
        self._ramp_soon()

    def _poll(self) -> None:
        messages = self._queue.receive(self._lane.batch_size)
        if not messages:
            self.empty_receives += 1
            self._idle += 1
            self._set_alarm()
            return
        self.receives += 1
        self._ramp_soon()
        until = self._kernel.now + self._lane.visibility_timeout.total_seconds()
        held = Held(messages, until)
        self._kernel.after(self._unknowns.poll, lambda: self._try(held))

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

    def _try(self, held: Held) -> None:
        if self._function.invoke(self._lane, held.messages, lambda kept: self._answered(held.messages, kept)):
            held.tries = _PLACED
            self._repeat_perhaps(held.messages)
            return
        self.throttles += 1
        held.tries += 1
        left = timedelta(seconds=held.until - self._kernel.now)
        wait = self._unknowns.backoff.wait(held.tries, left=left, chance=self._chance)
        if wait is None:
            self._poll()
            return
        self._wait_for_slot(held, wait.total_seconds())

    def _wait_for_slot(self, held: Held, seconds: float) -> None:
        tries = held.tries

        def again() -> None:
            if held.tries == tries:
                self._try(held)

        self._kernel.after(seconds, again)
        if (rank := self._rank(held)) is not None:
            self._function.stand_in_line(rank, again)

    def _rank(self, held: Held) -> int | None:
        match self._unknowns.winner:
            case Winner.HIGHEST:
                return self._lane.position
            case Winner.LOWEST:
                return -self._lane.position
            case Winner.OLDEST:
                return int(held.until * 1000)
        return None

    def _repeat_perhaps(self, messages: Sequence[ReceivedMessage]) -> None:
        """AWS: a mapping may hand out a batch more than once (Lambda developer guide, "Using Lambda with SQS")."""
        faults = self._faults
        if faults.duplicates and self._chance.random() < faults.duplicates:
            self._kernel.after(
                self._chance.random(),
                lambda: self._function.invoke(
                    self._lane, messages, lambda kept: self._delete(messages, kept)
                ),
            )

    def _answered(self, messages: Sequence[ReceivedMessage], kept: set[str] | None) -> None:
        def delete() -> None:
            self._delete(messages, kept)
            self._poll()

        self._kernel.after(self._unknowns.delete, delete)

    def _delete(self, messages: Sequence[ReceivedMessage], kept: set[str] | None) -> None:
        if kept is None or len(kept) == len(messages):
            return
        faults = self._faults
        if faults.undeleted and self._chance.random() < faults.undeleted:
            return
        self.deletes += 1
        for message in messages:
            if message.message_id not in kept:
                # A receipt that is old by now belongs to a record that was received again.
                with contextlib.suppress(FifoQueueError):
                    self._queue.delete(message.receipt_handle)
        self.notice()
