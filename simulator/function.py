"""The function in virtual time: reserved concurrency, environments that stay warm, crashes and timeouts."""

from __future__ import annotations

import dataclasses
import heapq
import itertools
from collections import deque
from typing import TYPE_CHECKING, Any

from greenlet import getcurrent

from lanes.mapping.answer import BatchOutcome, failed
from lanes.testing.calls import ProcessKilled
from lanes.testing.function import InvocationContext, verdict_of
from lanes.testing.queues import BELL

PER_SLOT = 10
"""
AWS: a function starts at most ten invocations a second for each unit of its concurrency (Lambda quotas, "Invocation
requests per second").
"""

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.config import Lane
    from lanes.mapping.answer import Verdict
    from lanes.testing.fifo.message import ReceivedMessage

    from .parameters import Unknowns
    from .scheduler import Scheduler


@dataclasses.dataclass(frozen=True, slots=True)
class Doom:
    """When a process dies by itself: some seconds after its start, or just before its answer."""

    after: float = float("inf")
    before_answer: bool = False


@dataclasses.dataclass(slots=True)
class Environment:
    """One execution environment: a consumer, and the deployment that it belongs to."""

    handle: Callable[[Mapping[str, Any], InvocationContext], Mapping[str, Any]]
    deployment: int
    cold: bool = True


@dataclasses.dataclass(slots=True)
class SlotTimes:
    """Seconds of slot time by use, and how invocations ended."""

    invoked: float = 0.0
    invocations: int = 0
    only_yielded: float = 0.0
    cold_starts: int = 0
    lost: int = 0


class SimulatedFunction:
    """
    A function with reserved concurrency.

    AWS: an invocation over the reserved concurrency is refused, a warm environment is reused, and takes one
    invocation at a time (Lambda developer guide, "Reserved concurrency", "Execution environment"). A crash or a timeout
    ends the environment too, and the whole batch counts as failed.

    Args:
        slots: reserved concurrency.
        timeout: seconds after which an invocation is killed, with its environment.
        make_handle: returns the handler of a new environment.
        doom: decides at the start of an invocation, from their mean duration, whether its process dies.

    """

    def __init__(
        self,
        *,
        slots: int,
        timeout: float,
        make_handle: Callable[[], Callable[[Mapping[str, Any], InvocationContext], Mapping[str, Any]]],
        scheduler: Scheduler,
        unknowns: Unknowns,
        doom: Callable[[float], Doom],
    ) -> None:
        self._slots = slots
        self._timeout = timeout
        self._make_handle = make_handle
        self._scheduler = scheduler
        self._unknowns = unknowns
        self._doom = doom
        self._warm: list[Environment] = []
        self._running = 0
        self._tasks: list[Any] = []
        self._started: deque[float] = deque()
        self._deployment = 1
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self.times = SlotTimes()

    @property
    def free(self) -> int:
        """Number of free slots."""
        return self._slots - self._running

    def redeploy(self, *, slots: int | None = None) -> None:
        """Replace code and settings: new invocations start in new environments; running ones may end."""
        self._slots = slots or self._slots
        self._deployment += 1
        self._warm.clear()

    def kill(self, invocations: int) -> None:
        """Let the processes of so many invocations die, those that began first."""
        for task in self._tasks[:invocations]:
            task.ends_at = self._scheduler.now

    def queue_for_slot(self, rank: int, retry: Callable[[], None]) -> None:
        """Queue for the next free slot; the lowest rank gets it, and among equals the first."""
        heapq.heappush(self._queue, (rank, next(self._numbers), retry))

    def invoke(
        self, lane: Lane, messages: Sequence[ReceivedMessage], done: Callable[[Verdict], None]
    ) -> bool:
        """
        Start an invocation unless all slots are taken; return whether it started.

        `done` is called at its end with the verdict on the batch.
        """
        if self._running >= self._slots or self._may_start_at() > self._scheduler.now:
            return False
        self._started.append(self._scheduler.now)
        self._running += 1
        environment = self._warm.pop() if self._warm else Environment(self._make_handle(), self._deployment)
        self._scheduler.spawn(lambda: self._run(environment, lane, messages, done))
        return True

    def _run(
        self,
        environment: Environment,
        lane: Lane,
        messages: Sequence[ReceivedMessage],
        done: Callable[[Verdict], None],
    ) -> None:
        began, task = self._scheduler.now, getcurrent()
        self._tasks.append(task)
        verdict = failed([message.message_id for message in messages], "process lost")
        try:
            verdict = self._handled(environment, lane, messages)
        except ProcessKilled:
            self.times.lost += 1
        else:
            if environment.deployment == self._deployment:
                self._warm.append(environment)
        spent = self._scheduler.now - began
        self.times.invoked += spent
        returned = verdict.outcome is BatchOutcome.PARTIAL and len(verdict.failed_ids) == len(messages)
        if returned and lane.name != BELL:
            self.times.only_yielded += spent
        self._running -= 1
        self._tasks.remove(task)
        done(verdict)
        self._offer_slot()

    def _handled(self, environment: Environment, lane: Lane, messages: Sequence[ReceivedMessage]) -> Verdict:
        """Let the environment handle the batch; raise `ProcessKilled` if it dies before its answer."""
        scheduler = self._scheduler
        self.times.invocations += 1
        self.times.cold_starts += environment.cold
        scheduler.sleep(self._unknowns.invoke + (self._unknowns.cold_start if environment.cold else 0.0))
        environment.cold = False
        doom = self._doom(self.times.invoked / self.times.invocations)
        scheduler.ends_at(scheduler.now + min(self._timeout, doom.after))
        context = InvocationContext(
            scheduler.clock, seconds=self._timeout, request=f"request-{self.times.invocations}"
        )
        verdict = verdict_of(environment.handle, lane.name, messages, context)
        if doom.before_answer:
            scheduler.die()
        scheduler.sleep(self._unknowns.invoke)
        return verdict

    def _offer_slot(self) -> None:
        """Retry the queued batches as soon as one may start, in order; those that already run are skipped."""
        wait = self._may_start_at() - self._scheduler.now
        if self._queue and self.free > 0 and wait > 0:
            self._scheduler.after(wait, self._offer_slot)
        elif self._queue and self.free > 0:
            _, _, retry = heapq.heappop(self._queue)
            self._scheduler.after(0.0, retry)
            self._scheduler.after(0.0, self._offer_slot)

    def _may_start_at(self) -> float:
        """Return when the next invocation may start, as far as their number in a second decides."""
        while self._started and self._started[0] + 1.0 <= self._scheduler.now:
            self._started.popleft()
        most = PER_SLOT * self._slots
        return self._started[-most] + 1.0 if len(self._started) >= most else self._scheduler.now
