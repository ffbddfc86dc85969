"""Measurements during a run: the use of slots while messages waited, and the standstills of lanes."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@dataclasses.dataclass(slots=True)
class Standstill:
    """Number of a lane's messages that no handler has started, and the longest time in which none was started."""

    waiting: int = 0
    since: float = 0.0
    longest: float = 0.0


class SlotWatch:
    """
    The running handlers, compared with the number of slots.

    Args:
        clock: epoch seconds.
        slots: number of slots.
        timeout: seconds of the longest invocation: those of an earlier deployment may still run for so long.

    Attributes:
        excess: the largest number of running handlers beyond the slots.

    """

    def __init__(self, clock: Callable[[], float], *, slots: int, timeout: float) -> None:
        self._clock = clock
        self._timeout = timeout
        self._slots = slots
        self._earlier: list[tuple[float, int]] = []
        self._busy = 0
        self.excess = 0

    def deployed(self, slots: int) -> None:
        """Follow a deploy."""
        self._earlier.append((self._clock() + self._timeout, self._slots))
        self._slots = slots

    def began(self) -> None:
        """Add a handler's start."""
        self._busy += 1
        if self._busy > self._slots:
            now = self._clock()
            allowed = max([self._slots, *(slots for until, slots in self._earlier if now <= until)])
            self.excess = max(self.excess, self._busy - allowed)

    def ended(self) -> None:
        """Add a handler's end."""
        self._busy -= 1


class Meter:
    """
    Integrate over time, at no cost per second and little per message.

    A group is startable if a message of it waits, and none of its messages runs or was returned after a failure.

    Attributes:
        waited: seconds with a startable group.
        idle: slot seconds without a running handler in that time, at most one slot per startable group.
        worked: slot seconds of handlers.

    """

    def __init__(self, clock: Callable[[], float], *, lanes: Iterable[str], slots: int) -> None:
        self._clock = clock
        self._slots = slots
        self._lanes = {lane: Standstill() for lane in lanes}
        self._waiting: dict[tuple[str, str], int] = {}
        self._held: set[tuple[str, str]] = set()
        self._ready = 0
        self._busy = 0
        self._at = clock()
        self.waited = 0.0
        self.idle = 0.0
        self.worked = 0.0

    def sent(self, lane: str, group: str) -> None:
        """Add a message that arrives."""
        now = self._advance()
        one = self._lanes[lane]
        if not one.waiting:
            one.since = now
        one.waiting += 1
        key = (lane, group)
        waiting = self._waiting.get(key, 0)
        self._waiting[key] = waiting + 1
        self._ready += not waiting and key not in self._held

    def began(self, lane: str, group: str, *, first: bool) -> None:
        """Add a handler's start."""
        now = self._advance()
        self._busy += 1
        key = (lane, group)
        if key not in self._held:
            self._held.add(key)
            self._ready -= key in self._waiting
        if not first:
            return
        one = self._lanes[lane]
        one.waiting -= 1
        one.longest = max(one.longest, now - one.since)
        one.since = now
        self._waiting[key] -= 1
        if not self._waiting[key]:
            del self._waiting[key]

    def ended(self, lane: str, group: str, *, done: bool) -> None:
        """Add a handler's end; after a failure or a death the group waits for its next attempt."""
        self._advance()
        self._busy -= 1
        key = (lane, group)
        if done and key in self._held:
            self._held.remove(key)
            self._ready += key in self._waiting

    def standstill(self, lane: str) -> float:
        """Return the longest time in seconds in which messages of a lane waited and none was started, until now."""
        one = self._lanes[lane]
        return max(one.longest, self._clock() - one.since) if one.waiting else one.longest

    @property
    def idle_share(self) -> float:
        """Share of slot time, while groups were startable, in which a slot that could have run one was idle."""
        self._advance()
        return self.idle / (self.waited * self._slots) if self.waited else 0.0

    def _advance(self) -> float:
        now = self._clock()
        passed = now - self._at
        if passed > 0:
            self._at = now
            self.worked += self._busy * passed
            if self._ready:
                self.waited += passed
                self.idle += min(self._slots - self._busy, self._ready) * passed
        return now
