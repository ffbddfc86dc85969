"""The reserve of an environment: a share of its time for messages that wait for longer than they may."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.config import Lane
    from lanes.consumer.records import RawRecord

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
