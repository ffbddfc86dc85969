"""The reserve: a small share of capacity for a lane's overdue messages while higher lanes are busy."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.config import Lane
    from lanes.consumer.records import RawRecord

SAVED_UP = 60.0
"""Seconds of capacity whose share may be saved up; more would let a burst of overdue messages through at once."""


class Reserve:
    """
    The share of one environment's time, saved up while it isn't used.

    Each environment keeps its own account, so that all together spend the share of all slots and nobody has to ask.
    """

    def __init__(self, *, share: float, clock: Callable[[], float]) -> None:
        self._share = share
        self._clock = clock
        self._credit = 0.0
        self._counted_at = clock()

    def admits(self, lane: Lane, record: RawRecord) -> bool:
        """Whether a record that would yield is served instead: it is overdue and there is credit."""
        if lane.max_wait is None or not self._share:
            return False
        now = self._clock()
        self._credit = min(self._credit + (now - self._counted_at) * self._share, SAVED_UP * self._share)
        self._counted_at = now
        return now - record.sent_at > lane.max_wait.total_seconds() and self._credit > 0

    def spend(self, seconds: float) -> None:
        """Charge what a record took; the account may be overdrawn once, and is paid back before the next."""
        self._credit -= seconds
