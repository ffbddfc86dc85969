"""Rates: how many records may start a second, split over the slots."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

PROMISED = 0.25
"""
Share of its pause after which the next returned record is promised a time.

With the whole pause 20 to 40 % of a rate were used, since records came back too late; with a quarter all of it, for six
receives a record instead of two (600 records at 30 and 60 a minute, in simulation).
"""


class Rate:
    """
    One slot's part of a rate.

    A slot spaces its records evenly, and begins with a pause of about that length: a new environment knows nothing of
    the one before. After a quiet time each slot may start one record at once.

    Args:
        rate: records a second, of all slots.
        slots: number of slots.
        clock: epoch seconds.
        random: spreads the first records of the slots.

    """

    def __init__(self, rate: float, *, slots: int, clock: Callable[[], float], random: Random) -> None:
        self._clock = clock
        self._pause = slots / rate
        self._next = self._promised = clock() + self._pause * (0.5 + random.random())

    def wait(self) -> float:
        """Return the seconds until a record may start."""
        return max(0.0, self._next - self._clock())

    def start(self) -> None:
        """Count a record that starts now."""
        self._next = max(self._clock(), self._next) + self._pause

    def promise(self) -> float:
        """Return the seconds after which one more record is tried, behind all those that were promised a time."""
        self._promised = max(self._next, self._promised) + PROMISED * self._pause
        return self._promised - self._clock()
