"""The function and its event source mappings in virtual time: environments, crashes, throttles and pollers."""

from __future__ import annotations

import dataclasses
import heapq
import itertools
from collections import deque
from typing import TYPE_CHECKING, Any

from greenlet import getcurrent

from lanes.mapping.rules import BatchOutcome, failed, handled
from lanes.testing.calls import ProcessKilled
from lanes.testing.function import InvocationContext, verdict_of
from lanes.testing.mapping import deleted, rules_of
from lanes.testing.queues import BELL

from .parameters import Faults

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random

    from lanes.config import Lane
    from lanes.mapping.rules import Batch, Verdict
    from lanes.testing.fifo.message import ReceivedMessage
    from lanes.testing.fifo.queue import FifoQueue

    from .parameters import Unknowns
    from .scheduler import Scheduler


PER_SLOT = 10
"""
AWS: a function starts at most ten invocations a second for each unit of its concurrency (Lambda quotas, "Invocation
requests per second").
"""


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


RAMP_EVERY = 1.0
"""Seconds between two looks at whether more pollers are needed."""

_PLACED = -1


class SimulatedMapping:
    """
    The mapping of one lane, after the rules of `lanes.mapping`.

    A poller is one unit of concurrency. Without work, pollers sleep until the queue has something.
    """

    def __init__(
        self,
        lane: Lane,
        *,
        queue: FifoQueue,
        function: SimulatedFunction,
        scheduler: Scheduler,
        unknowns: Unknowns,
        chance: Random,
        faults: Faults | None = None,
        enabled: bool = True,
    ) -> None:
        self._lane = lane
        self._queue = queue
        self._function = function
        self._scheduler = scheduler
        self._unknowns = unknowns
        self._chance = chance
        self._faults = faults or Faults()
        self._idle = 0
        self._alarm_at = float("inf")
        self._ramping = False
        self._rules = rules_of(
            lane, random=chance, enabled=enabled, backoff=unknowns.backoff, scaling=unknowns.scaling
        )
        self.throttles = 0
        self.receives = 0
        self.deletes = 0
        for _ in range(self._rules.concurrency):
            self._add_poller()

    @property
    def pollers(self) -> int:
        """How many batches it may have at once by now."""
        return self._rules.concurrency

    def notice(self) -> None:
        """Wake idle pollers after something was sent, deleted, or made visible."""
        if not self._idle or not self._rules.settings.enabled:
            return
        if not self._queue.is_receivable():
            self._set_alarm()
            return
        woken, self._idle = self._idle, 0
        for _ in range(woken):
            self._scheduler.after(self._unknowns.notice * self._chance.random(), self._poll)

    def deploy(self, *, enabled: bool, maximum_concurrency: int) -> None:
        """Follow a deploy: a disabled mapping receives nothing more, but places the batches that it has."""
        settings = dataclasses.replace(
            self._rules.settings, enabled=enabled, maximum_concurrency=maximum_concurrency
        )
        before = self._rules.concurrency
        self._rules.update(settings, visibility_timeout=self._lane.visibility_timeout)
        for _ in range(self._rules.concurrency - before):
            self._add_poller()
        self.notice()

    def _ramp_soon(self) -> None:
        if not self._ramping and self._rules.can_scale:
            self._ramping = True
            self._scheduler.after(RAMP_EVERY, self._ramp)

    def _add_poller(self) -> None:
        self._scheduler.after(self._chance.random() * self._unknowns.notice, self._poll)

    def _ramp(self) -> None:
        """Add pollers while all are busy and there is more to receive."""
        self._ramping = False
        if self._idle or not self._queue.is_receivable():
            return
        for _ in range(self._rules.scale(RAMP_EVERY)):
            self._add_poller()
        self._ramp_soon()

    def _poll(self) -> None:
        # Refused only after a deploy: each poller is one unit of concurrency.
        if not self._rules.start():
            self._idle += self._rules.settings.enabled is False
            return
        messages = self._queue.receive(self._rules.settings.receive_size)
        if not messages:
            self._rules.finish()
            self._idle += 1
            self._set_alarm()
            return
        self.receives += 1
        self._ramp_soon()
        batch = self._rules.take(messages, now=self._scheduler.now)
        self._scheduler.after(self._unknowns.poll, lambda: self._try(batch))

    def _set_alarm(self) -> None:
        """Look again when the queue says that something will become visible."""
        moment = self._queue.next_event_at()
        if moment is None or moment >= self._alarm_at:
            return
        self._alarm_at = moment
        self._scheduler.after(max(0.0, moment - self._scheduler.now), self._alarm)

    def _alarm(self) -> None:
        if self._scheduler.now >= self._alarm_at:
            self._alarm_at = float("inf")
        self.notice()

    def _try(self, batch: Batch[ReceivedMessage]) -> None:
        if self._function.invoke(
            self._lane, batch.messages, lambda verdict: self._answered(batch.messages, verdict)
        ):
            batch.throttles = _PLACED
            self._repeat_perhaps(batch.messages)
            return
        self.throttles += 1
        wait = self._rules.throttled(batch, now=self._scheduler.now)
        if wait is None:
            self._rules.finish()
            self._poll()
            return
        self._wait_for_slot(batch, wait.total_seconds())

    def _wait_for_slot(self, batch: Batch[ReceivedMessage], seconds: float) -> None:
        throttles = batch.throttles

        def again() -> None:
            if batch.throttles == throttles:
                self._try(batch)

        self._scheduler.after(seconds, again)
        rank = self._unknowns.winner.rank(position=self._lane.position, until=batch.until)
        if rank is not None:
            self._function.queue_for_slot(rank, again)

    def _repeat_perhaps(self, messages: Sequence[ReceivedMessage]) -> None:
        """AWS: a mapping may hand out a batch more than once (Lambda developer guide, "Using Lambda with SQS")."""
        faults = self._faults
        if faults.duplicates and self._chance.random() < faults.duplicates:
            self._scheduler.after(
                self._chance.random(),
                lambda: self._function.invoke(
                    self._lane, messages, lambda verdict: self._delete(messages, verdict)
                ),
            )

    def _answered(self, messages: Sequence[ReceivedMessage], verdict: Verdict) -> None:
        def delete() -> None:
            self._delete(messages, verdict)
            self._rules.finish()
            self._poll()

        self._scheduler.after(self._unknowns.delete, delete)

    def _delete(self, messages: Sequence[ReceivedMessage], verdict: Verdict) -> None:
        done = handled(messages, verdict)
        if not done:
            return
        faults = self._faults
        if faults.undeleted and self._chance.random() < faults.undeleted:
            return
        self.deletes += 1
        deleted(self._queue, done)
        self.notice()
