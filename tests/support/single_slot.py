"""A function with one slot behind its mappings, in virtual time: the real consumer between documented rules."""

from __future__ import annotations

import heapq
import itertools
from random import Random
from typing import TYPE_CHECKING

from lanes.mapping.rules import MappingRules
from lanes.mapping.settings import MappingSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.mapping.rules import Batch
    from lanes.mapping.undocumented import ThrottleBackoff
    from lanes.testing.fifo.message import ReceivedMessage
    from tests.support.memory import World

POLL, INVOKE, DELETE = 0.010, 0.010, 0.010
"""Seconds of a receive, of an invocation beside the handler, and of the deletion after it."""


class SingleSlot:
    """
    Runs events in virtual time; a handler's work moves the clock and runs the events due in the meantime.

    With one slot invocations never nest: a batch that arrives during an invocation is throttled and backs off.
    """

    def __init__(self, world: World, *, seed: int = 1, backoff: ThrottleBackoff | None = None) -> None:
        self.world = world
        self.random = Random(seed)
        self.busy = False
        self.busy_seconds = 0.0
        self.invocations = 0
        self.throttles = 0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = itertools.count()
        self._waiting: dict[str, int] = {}
        world.calls.takes = lambda _operation: self.work(0.006)
        self._rules = {
            lane.name: MappingRules(
                MappingSettings(maximum_concurrency=lane.maximum_concurrency, reports_failures=True),
                visibility_timeout=lane.visibility_timeout,
                random=self.random,
                backoff=backoff,
            )
            for lane in world.config.lanes
        }
        for lane in world.config.lanes:
            for _ in range(lane.maximum_concurrency):
                self.at(self.random.random() * 0.02, self._poller(lane.name))

    def at(self, delay: float, action: Callable[[], None]) -> None:
        """Do something after a delay from now."""
        heapq.heappush(self._events, (self.world.clock.now + delay, next(self._number), action))

    def work(self, seconds: float) -> None:
        """Let the running invocation take time, while all other events go on."""
        self._run_until(self.world.clock.now + seconds)

    def run(self, seconds: float, *, until: Callable[[], bool] = lambda: False) -> None:
        """Run events for some seconds, or until a condition holds."""
        end = self.world.clock.now + seconds
        while self._events and self._events[0][0] <= end and not until():
            self._next()

    def _run_until(self, end: float) -> None:
        while self._events and self._events[0][0] <= end:
            self._next()
        self.world.clock.now = max(self.world.clock.now, end)

    def _next(self) -> None:
        moment, _, action = heapq.heappop(self._events)
        self.world.clock.now = max(self.world.clock.now, moment)
        action()

    def _poller(self, lane: str) -> Callable[[], None]:
        def poll() -> None:
            messages = self.world.receive(lane)
            if messages:
                batch = self._rules[lane].take(messages, now=self.world.clock.now)
                self.at(POLL, lambda: self._try(lane, batch))
            else:
                self.at(0.02, poll)  # a long poll answers as soon as there is something

        return poll

    def _try(self, lane: str, batch: Batch[ReceivedMessage]) -> None:
        now = self.world.clock.now
        if self.busy:
            self.throttles += 1
            wait = self._rules[lane].throttled(batch, now=now)
            if wait is None:
                self.at(0, self._poller(lane))
            else:
                self.at(wait.total_seconds(), lambda: self._try(lane, batch))
            return
        self.busy = True
        self.invocations += 1
        self.work(INVOKE / 2)
        kept = self.world.invoke(lane, batch.messages)
        self.work(INVOKE / 2)
        self.busy = False
        self.busy_seconds += self.world.clock.now - now
        self.at(DELETE, lambda: self.world.delete(lane, batch.messages, kept=kept))
        self.at(DELETE + POLL / 2, self._poller(lane))
