"""Numbers in, the next lane or moment out: the order of lanes, the reserve for overdue messages, and rates."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from lanes.config import Lane, LanesConfig
    from lanes.consumer.records import RawRecord


class Strict:
    """The highest lane with messages, always."""

    def __init__(self, config: LanesConfig) -> None:
        self.above = config.lanes_above

    def order(self, lanes: Sequence[Lane]) -> Sequence[Lane]:
        """Return the lanes as configured."""
        return lanes

    def charge(self, lane: Lane, seconds: float) -> None:
        """Do nothing."""


class Weighted:
    """
    Lanes share a slot's time by their weights, as in stride scheduling (Waldspurger and Weihl, 1995).

    Each lane advances by the time it was served divided by its weight, and the lane that is behind goes first. A lane
    that had no messages saves up nothing: it joins at the others' progress.
    """

    def __init__(self) -> None:
        self._progress: defaultdict[str, float] = defaultdict(float)
        self._served_at = 0.0

    def order(self, lanes: Sequence[Lane]) -> Sequence[Lane]:
        """Return the lanes, the one that is most behind first; among equals the higher one."""
        return sorted(lanes, key=lambda lane: (self._joined(lane), lane.position))

    def above(self, lane: Lane) -> Sequence[Lane]:
        """Return none: the choice is made from batch to batch."""
        del lane
        return ()

    def charge(self, lane: Lane, seconds: float) -> None:
        """Let a lane advance."""
        self._served_at = self._joined(lane)
        self._progress[lane.name] = self._served_at + seconds / lane.weight

    def _joined(self, lane: Lane) -> float:
        return max(self._progress[lane.name], self._served_at)


# Without the savings, overdue messages start up to 27 s after their `max_wait` instead of 0.3 s at one slot of the pull
# engine, and a MAIN backlog gets 0.4 % of three slots instead of 4.3 % in the mapped engine (`benchmarks.bounded`).
SAVED_UP = 60.0
"""Seconds of capacity that the reserve may save up; more would let a burst of overdue messages through at once."""


class Reserve:
    """
    A small share of one slot's time for a lane's overdue messages while higher lanes are busy, saved up until used.

    Each environment keeps its own account for its one slot, so all together spend the share of all slots.

    Args:
        share: of the slot's time, 0 to 1.
        clock: returns epoch seconds.
        monotonic: returns seconds that no one sets back.

    """

    def __init__(self, *, share: float, clock: Callable[[], float], monotonic: Callable[[], float]) -> None:
        self.monotonic = monotonic
        self._share = share
        self._clock = clock
        # No credit at first: each new environment would serve overdue records at once, and Lambda may start many.
        self._paid_until = monotonic()

    def admits(self, lane: Lane, record: RawRecord) -> bool:
        """Whether a record starts although its lane would yield: it is overdue and the account has time left."""
        if lane.max_wait is None or not self.has_time:
            return False
        return self._clock() - record.sent_at > lane.max_wait.total_seconds()

    @property
    def has_time(self) -> bool:
        """Whether the account has time left."""
        return self._share > 0 and self.monotonic() > self._paid_until

    def charge(self, seconds: float) -> None:
        """Charge a record's time. The account may be overdrawn once, and is paid back before the next record."""
        saved_since = max(self._paid_until, self.monotonic() - SAVED_UP)
        self._paid_until = saved_since + seconds / self._share


class Rate:
    """
    One slot's part of a `rate` in records a second of all slots.

    A slot spaces its records evenly, and begins with a pause of about that length, spread at `random`: a new
    environment knows nothing of the one before. After a quiet time each slot may start one record at once.
    """

    def __init__(self, rate: float, *, slots: int, clock: Callable[[], float], random: Random) -> None:
        self._clock = clock
        self._pause = slots / rate
        self._next = clock() + self._pause * (0.5 + random.random())
        self._ahead = 0.0

    def wait(self) -> float:
        """Return the seconds until a record may start."""
        # The longest first pause, or that after a call of several: a later time is from before the clock was set back.
        latest = self._clock() + 1.5 * self._pause + self._ahead
        self._next = min(self._next, latest)
        return max(0.0, self._next - self._clock())

    def start(self) -> None:
        """Count a record that starts now."""
        self._ahead = 0.0
        self._next = max(self._clock(), self._next) + self._pause

    def join(self) -> bool:
        """Count one more record that starts now with the last one, if its time comes within a second."""
        if self.wait() > 1:
            return False
        self._ahead += self._pause
        self._next += self._pause
        return True
