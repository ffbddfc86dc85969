"""A function with one slot behind its mappings, in virtual time: the real consumer between documented rules."""

from __future__ import annotations

import heapq
import itertools
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING

from simulator.backoff import ThrottleBackoff

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.testing.fifo.message import ReceivedMessage
    from tests.support.memory import World

POLL, INVOKE, DELETE = 0.010, 0.010, 0.010
"""Seconds of a receive, of an invocation beside the handler, and of the deletion after it."""


class SingleSlot:
    """
    Runs events in virtual time; a handler's work moves the clock, and what happens meanwhile happens inside.

    With one slot invocations never nest: whoever comes while one runs is throttled and backs off.
    """

    def __init__(self, world: World, *, seed: int = 1, backoff: ThrottleBackoff | None = None) -> None:
        self.world = world
        self.random = Random(seed)
        self.backoff = backoff or ThrottleBackoff()
        self.busy = False
        self.busy_seconds = 0.0
        self.invocations = 0
        self.throttles = 0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = itertools.count()
        self._waiting: dict[str, int] = {}
        world.calls.takes = lambda _operation: self.work(0.006)
        for lane in world.config.lanes:
            for _ in range(lane.maximum_concurrency):
                self.at(self.random.random() * 0.02, self._poller(lane.name))

    def at(self, delay: float, action: Callable[[], None]) -> None:
        """Do something after a delay from now."""
        heapq.heappush(self._events, (self.world.clock.now + delay, next(self._number), action))

    def work(self, seconds: float) -> None:
        """Let the invocation that runs take time; everybody else goes on meanwhile."""
        self._run_until(self.world.clock.now + seconds)

    def run(self, seconds: float, *, until: Callable[[], bool] = lambda: False) -> None:
        """Let time pass until something is reached."""
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
                until = self.world.clock.now + self.world.config.lane(lane).visibility_timeout.total_seconds()
                self.at(POLL, lambda: self._try(lane, messages, 1, until))
            else:
                self.at(0.02, poll)  # a long poll answers as soon as there is something

        return poll

    def _try(self, lane: str, messages: list[ReceivedMessage], tries: int, until: float) -> None:
        now = self.world.clock.now
        if self.busy:
            self.throttles += 1
            wait = self.backoff.wait(tries, left=timedelta(seconds=until - now), chance=self.random)
            if wait is None:
                self.at(0, self._poller(lane))
            else:
                self.at(wait.total_seconds(), lambda: self._try(lane, messages, tries + 1, until))
            return
        self.busy = True
        self.invocations += 1
        self.work(INVOKE / 2)
        kept = self.world.invoke(lane, messages)
        self.work(INVOKE / 2)
        self.busy = False
        self.busy_seconds += self.world.clock.now - now
        self.at(DELETE, lambda: self.world.delete(lane, messages, kept=kept))
        self.at(DELETE + POLL / 2, self._poller(lane))
