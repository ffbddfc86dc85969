"""A clock for tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

START = 1_800_000_000.0
"""Epoch seconds at which a clock begins by default: 15 January 2027, 08:00 UTC."""


class FakeClock:
    """
    A clock that only you move; pass it wherever a function that returns epoch seconds is asked for.

    Args:
        now: epoch seconds at which it begins.

    Example:
        >>> clock = FakeClock()
        >>> clock.advance(timedelta(minutes=1))
        >>> clock() - clock.started_at
        60.0

    """

    def __init__(self, now: float = START) -> None:
        self.now = now
        self.started_at = now

    def __call__(self) -> float:
        """Return the time in epoch seconds."""
        return self.now

    @property
    def time(self) -> datetime:
        """The time, in UTC."""
        return datetime.fromtimestamp(self.now, UTC)

    def advance(self, by: timedelta | float) -> None:
        """
        Advance the time by seconds or a timedelta.

        Raises:
            ValueError: it is negative.

        """
        seconds = by.total_seconds() if isinstance(by, timedelta) else by
        if seconds < 0:
            raise ValueError(f"a clock can't go back, and {seconds} s were asked for")
        self.now += seconds

    def advance_to(self, moment: float) -> None:
        """Advance to a moment in epoch seconds; a past moment changes nothing."""
        self.now = max(self.now, moment)
