"""Virtual time: events in their order, and strands of plain code that take time without knowing it."""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING

from greenlet import getcurrent, greenlet

if TYPE_CHECKING:
    from collections.abc import Callable

START = 1_800_000_000.0
"""Epoch seconds at which every run begins."""


class Kernel:
    """
    Runs events one at a time, in the order of their moments, those of one moment in the order they were added.

    Consumer code is written to block: it calls AWS and runs handlers. Here each invocation is a strand, a coroutine
    that needs no keyword, and `sleep` inside it lets everybody else go on until its time has passed.
    """

    def __init__(self) -> None:
        self.now = START
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._hub: greenlet | None = None
        self._lost: list[greenlet] = []

    def clock(self) -> float:
        """Return the time in epoch seconds; give this method where a clock is asked for."""
        return self.now

    def after(self, seconds: float, action: Callable[[], object]) -> None:
        """Do something once so many seconds have passed."""
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), action))

    def spawn(self, action: Callable[[], object]) -> None:
        """Start a strand now; it runs until it sleeps or ends."""
        greenlet(action, parent=self._hub).switch()

    def sleep(self, seconds: float) -> None:
        """Let time pass in the strand that calls this; outside of strands, nothing can sleep."""
        if seconds <= 0:
            return
        strand = getcurrent()
        self.after(seconds, strand.switch)
        assert self._hub is not None  # noqa: S101 - strands run inside of `run`
        self._hub.switch()

    def vanish(self) -> None:
        """End the strand that calls this where it stands, as a killed process ends: nothing in it runs any more."""
        self._lost.append(getcurrent())  # kept, since collecting it would run its `finally` blocks
        assert self._hub is not None  # noqa: S101
        self._hub.switch()

    def run(self, *, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Let time pass; return whether `until` came true, which is looked at after every event."""
        self._hub = getcurrent()
        end = self.now + seconds
        events = self._events
        while events and events[0][0] <= end:
            moment, _, action = heapq.heappop(events)
            self.now = max(self.now, moment)
            action()
            if until is not None and until():
                return True
        self.now = max(self.now, end) if until is None else self.now
        return False
