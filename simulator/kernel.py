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

_NEVER = float("inf")
_ENDED = float("-inf")


class ProcessLost(KeyboardInterrupt):
    """The execution environment died here: nothing that would follow in it happens."""


class Strand(greenlet):  # type: ignore[misc] # greenlet comes without types
    """One line of code in virtual time; where time reaches `ends_at`, it is killed."""

    ends_at: float = _NEVER


class Kernel:
    """
    Runs events one at a time, in the order of their moments, those of one moment in the order they were added.

    Consumer code is written to block: it calls AWS and runs handlers. Here each invocation is a strand, a coroutine
    that needs no keyword, and `sleep` inside it lets everybody else go on until its time has passed.

    Attributes:
        now: epoch seconds.
        events: how many were run.

    """

    def __init__(self) -> None:
        self.now = START
        self.events = 0
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._hub: greenlet | None = None

    def clock(self) -> float:
        """Return the time in epoch seconds; give this method where a clock is asked for."""
        return self.now

    def after(self, seconds: float, action: Callable[[], object]) -> None:
        """Do something once so many seconds have passed."""
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), action))

    def spawn(self, action: Callable[[], object]) -> None:
        """Start a strand now; it runs until it sleeps or ends."""
        Strand(action, parent=self._hub).switch()

    def sleep(self, seconds: float) -> None:
        """
        Let time pass in the strand that calls this; outside of strands, nothing can sleep.

        Raises:
            ProcessLost: the strand's end came first. Whoever sleeps again in it gets no further.

        """
        strand = getcurrent()
        ends_at = getattr(strand, "ends_at", _NEVER)
        if self.now + seconds >= ends_at:
            self._pass(strand, ends_at - self.now)
            self.die()
        self._pass(strand, seconds)

    def die(self) -> None:
        """
        End the strand that calls this, as a killed process ends: its clean-up code may run, but gets no call through.

        Raises:
            ProcessLost: always.

        """
        getcurrent().ends_at = _ENDED
        raise ProcessLost

    def ends_at(self, moment: float) -> None:
        """Kill the strand that calls this once that moment has come, should it still run."""
        getcurrent().ends_at = moment

    def run(self, *, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Let time pass; return whether `until` came true, which is looked at after every event."""
        self._hub = getcurrent()
        end = self.now + seconds
        events = self._events
        while events and events[0][0] <= end:
            moment, _, action = heapq.heappop(events)
            self.now = max(self.now, moment)
            self.events += 1
            action()
            if until is not None and until():
                return True
        self.now = max(self.now, end) if until is None else self.now
        return False

    def _pass(self, strand: greenlet, seconds: float) -> None:
        if seconds <= 0:
            return
        self.after(seconds, strand.switch)
        assert self._hub is not None  # noqa: S101 - strands run inside of `run`
        self._hub.switch()
