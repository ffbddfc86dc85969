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
    A share of the slots' time, saved up while it isn't used.

    Where environments wait for slots in a waiting room they keep one account for all slots, told through the register.
    Elsewhere each keeps its own, for one slot, so that all together spend the share of all slots.

    Args:
        share: of the slots' time.
        slots: how many the account is for.
        clock: epoch seconds.

    """

    def __init__(self, *, share: float, slots: int = 1, clock: Callable[[], float]) -> None:
        self._share = share * slots
        self._clock = clock
        self._paid_until = clock()

    @property
    def paid_until(self) -> float:
        """Until when the share is spent, in epoch seconds: what is earned till now is saved, what is beyond is owed."""
        return self._paid_until

    def learn(self, paid_until: float) -> None:
        """Take in what the others have spent."""
        self._paid_until = max(self._paid_until, paid_until)

    def admits(self, lane: Lane, record: RawRecord) -> bool:
        """Whether a record that would yield is served instead: it is overdue and there is something saved."""
        if lane.max_wait is None or not self._share:
            return False
        now = self._clock()
        return now - record.sent_at > lane.max_wait.total_seconds() and now > self._paid_until

    def spend(self, seconds: float) -> None:
        """Charge what a record took; the account may be overdrawn once, and is paid back before the next."""
        saved_since = max(self._paid_until, self._clock() - SAVED_UP)
        self._paid_until = saved_since + seconds / self._share
