"""The function in virtual time: reserved concurrency, environments that stay warm, crashes and timeouts."""

from __future__ import annotations

import dataclasses
import heapq
import itertools
from typing import TYPE_CHECKING, Any

from lanes.testing.event import sqs_event

from .kernel import ProcessLost

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.config import Lane
    from lanes.testing.fifo.message import ReceivedMessage

    from .kernel import Kernel
    from .parameters import Unknowns


@dataclasses.dataclass(slots=True)
class InvocationContext:
    """Lambda's context, on virtual time."""

    kernel: Kernel
    aws_request_id: str
    deadline: float

    def get_remaining_time_in_millis(self) -> float:
        """Return the milliseconds until the function is ended."""
        return max(0.0, self.deadline - self.kernel.now) * 1000


@dataclasses.dataclass(frozen=True, slots=True)
class Doom:
    """When a process dies by itself: so many seconds after its start, or when all but the answer is done."""

    after: float = float("inf")
    before_answer: bool = False


def _lives(_usual: float) -> Doom:
    return Doom()


@dataclasses.dataclass(slots=True)
class Environment:
    """One execution environment: a consumer, and the deployment of the function that it was started for."""

    handle: Callable[[Mapping[str, Any], InvocationContext], Mapping[str, Any]]
    deployment: int
    cold: bool = True


@dataclasses.dataclass(slots=True)
class SlotTimes:
    """Seconds of slot time by what they were used for, and how invocations ended."""

    invoked: float = 0.0
    invocations: int = 0
    only_yielded: float = 0.0
    cold_starts: int = 0
    lost: int = 0


class SimulatedFunction:
    """
    A function with reserved concurrency.

    AWS: an invocation over the reserved concurrency is refused, a warm environment is reused, and takes one
    invocation at a time (Lambda developer guide, "Reserved concurrency", "Execution environment"). One that crashes
    or reaches the timeout is ended with its environment, and the whole batch counts as failed.

    Args:
        slots: reserved concurrency.
        timeout: seconds after which an invocation is killed, with its environment.
        make_handle: gives the handler of a new environment.
        queue_arn: gives the ARN of a lane's queue.
        doom: decides at the start of an invocation, told how long they usually take, whether its process will die.

    """

    def __init__(
        self,
        *,
        slots: int,
        timeout: float,
        make_handle: Callable[[], Callable[[Mapping[str, Any], InvocationContext], Mapping[str, Any]]],
        queue_arn: Callable[[str], str],
        kernel: Kernel,
        unknowns: Unknowns,
        doom: Callable[[float], Doom] = _lives,
    ) -> None:
        self._slots = slots
        self._timeout = timeout
        self._make_handle = make_handle
        self._queue_arn = queue_arn
        self._kernel = kernel
        self._unknowns = unknowns
        self._doom = doom
        self._warm: list[Environment] = []
        self._running = 0
        self._deployment = 1
        self._line: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self.times = SlotTimes()

    @property
    def free(self) -> int:
        """Slots that nobody holds."""
        return self._slots - self._running

    def redeploy(self) -> None:
        """Replace the code: no new invocation begins in an old environment, those that run are left to end."""
        self._deployment += 1
        self._warm.clear()

    def stand_in_line(self, rank: int, retry: Callable[[], None]) -> None:
        """Remember who wants the next free slot; the lowest rank gets it, and among equals the first."""
        heapq.heappush(self._line, (rank, next(self._numbers), retry))

    def invoke(
        self, lane: Lane, messages: Sequence[ReceivedMessage], done: Callable[[set[str] | None], None]
    ) -> bool:
        """Start an invocation unless all slots are taken; return whether it started."""
        if self._running >= self._slots:
            return False
        self._running += 1
        environment = self._warm.pop() if self._warm else Environment(self._make_handle(), self._deployment)
        self._kernel.spawn(lambda: self._run(environment, lane, messages, done))
        return True

    def _run(
        self,
        environment: Environment,
        lane: Lane,
        messages: Sequence[ReceivedMessage],
        done: Callable[[set[str] | None], None],
    ) -> None:
        began = self._kernel.now
        kept: set[str] | None = None
        try:
            kept = self._handled(environment, lane, messages)
        except ProcessLost:
            self.times.lost += 1
        else:
            if environment.deployment == self._deployment:
                self._warm.append(environment)
        spent = self._kernel.now - began
        self.times.invoked += spent
        if kept is not None and len(kept) == len(messages):
            self.times.only_yielded += spent
        self._running -= 1
        done(kept)
        self._offer_slot()

    def _handled(self, environment: Environment, lane: Lane, messages: Sequence[ReceivedMessage]) -> set[str]:
        """Let the environment handle the batch; raises `ProcessLost` where it dies before it has answered."""
        kernel = self._kernel
        self.times.invocations += 1
        self.times.cold_starts += environment.cold
        kernel.sleep(self._unknowns.invoke + (self._unknowns.cold_start if environment.cold else 0.0))
        environment.cold = False
        doom = self._doom(self.times.invoked / self.times.invocations)
        kernel.ends_at(kernel.now + min(self._timeout, doom.after))
        context = InvocationContext(kernel, f"request-{self.times.invocations}", kernel.now + self._timeout)
        response = environment.handle(sqs_event(self._queue_arn(lane.name), messages), context)
        if doom.before_answer:
            kernel.die()
        kernel.sleep(self._unknowns.invoke)
        return {failure["itemIdentifier"] for failure in response["batchItemFailures"]}

    def _offer_slot(self) -> None:
        """Let those that stand in line try at once, the first first; who went on meanwhile passes."""
        if self._line and self.free:
            _, _, retry = heapq.heappop(self._line)
            self._kernel.after(0.0, retry)
            self._kernel.after(0.0, self._offer_slot)
