"""The rate at which a slot starts records."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

# With the whole pause 20 to 40 % of a rate were used, since records came back too late; with a quarter all of it, for
# six receives a record instead of two (600 records at 30 and 60 a minute, in simulation).
PROMISED = 0.25
"""Share of its pause after which the next record that is returned for its rate is promised a time."""


class Rate:
    """
    One slot's part of a `rate` in records a second of all slots.

    A slot spaces its records evenly, and begins with a pause of about that length, spread at `random`: a new
    environment knows nothing of the one before. After a quiet time each slot may start one record at once.
    """

    def __init__(self, rate: float, *, slots: int, clock: Callable[[], float], random: Random) -> None:
        self._clock = clock
        self._pause = slots / rate
        self._next = self._promised = clock() + self._pause * (0.5 + random.random())
        self._ahead = 0.0

    def wait(self) -> float:
        """Return the seconds until a record may start."""
        # The longest first pause, or that after a call of several: a later time is from before the clock was set back.
        latest = self._clock() + 1.5 * self._pause + self._ahead
        if self._next > latest:
            self._next = self._promised = latest
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

    def promise(self) -> float:
        """Return the seconds after which one more record is tried, behind all those that were promised a time."""
        self._promised = max(self._next, self._promised) + PROMISED * self._pause
        return self._promised - self._clock()
