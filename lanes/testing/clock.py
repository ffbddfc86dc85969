"""Time that a test moves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

START = 1_800_000_000.0
"""Epoch seconds at which a clock begins unless told otherwise: 15 January 2027, 08:00 UTC."""


class FakeClock:
    """
    A clock that stands until it is moved; give it where a function that returns epoch seconds is asked for.

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
        Let time pass, as seconds or as a timedelta.

        Raises:
            ValueError: it is less than nothing.

        """
        seconds = by.total_seconds() if isinstance(by, timedelta) else by
        if seconds < 0:
            raise ValueError(f"a clock can't go back, and {seconds} s were asked for")
        self.now += seconds

    def advance_to(self, moment: float) -> None:
        """Let time pass until a moment in epoch seconds; one that has passed changes nothing."""
        self.now = max(self.now, moment)
