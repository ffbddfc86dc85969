"""What is measured while a run goes on: how slots were used while messages waited, and how long lanes stood still."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@dataclasses.dataclass(slots=True)
class Standstill:
    """One lane's messages that no handler has begun yet, and the longest time in which none of them began."""

    waiting: int = 0
    since: float = 0.0
    longest: float = 0.0


class Meter:
    """
    Integrates over time, at no cost per second and little per message.

    A group can be begun when a message of it waits, and none of it is with a handler or went back after a failure.

    Attributes:
        waited: seconds in which any group could be begun.
        idle: slot seconds without a handler at work in that time, at most one slot for each such group.
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
        """Note a message that arrives."""
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
        """Note a handler's start."""
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
        """Note that a handler returned; or failed or died, and the group waits for its next attempt."""
        self._advance()
        self._busy -= 1
        key = (lane, group)
        if done and key in self._held:
            self._held.remove(key)
            self._ready += key in self._waiting

    def standstill(self, lane: str) -> float:
        """Return the longest time in seconds in which messages of a lane waited and none began, to this moment."""
        one = self._lanes[lane]
        return max(one.longest, self._clock() - one.since) if one.waiting else one.longest

    @property
    def idle_share(self) -> float:
        """Share of all slot time, while groups could be begun, in which slots that might have were not at work."""
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
