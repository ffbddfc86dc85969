"""
Age, rates and yields of the lanes from CloudWatch, and the time to drain that follows from them or from own counts.

An unknown figure is None; none is guessed.
"""

from __future__ import annotations

import dataclasses
import enum
import time
from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

OBSERVED = 60.0
"""Seconds of own counts that make a trend: as many as the page's own column of trends."""
# Records of a few seconds leave a lane in steps, and between two steps it would seem to stand still.
MIN_OBSERVED = 10.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LaneFigures:
    """
    The last minutes of a lane; None is unknown.

    Attributes:
        oldest_age: age of the oldest message.
        pace: messages handled per minute.
        leaving: messages deleted from the lane per minute: handled, skipped, dead-lettered, cancelled or moved.
        arrivals: messages sent to the lane per minute.
        yields: records per minute that yielded.
        inversion: milliseconds per minute of this lane's work while a higher lane had a backlog.

    """

    oldest_age: timedelta | None = None
    pace: float | None = None
    leaving: float | None = None
    arrivals: float | None = None
    yields: float | None = None
    inversion: float | None = None


UNKNOWN = LaneFigures()


class Figures(Protocol):
    """The source of figures."""

    def read(self) -> Mapping[str, LaneFigures]:
        """Return the known figures by lane; raises `AwsError`."""


class Drain(enum.StrEnum):
    """The trend of a lane's depth."""

    EMPTY = "empty"
    FALLING = "falling"
    GROWING = "growing"
    STEADY = "steady"
    PAUSED = "paused"
    UNKNOWN = "unknown"


class DepthTrend:
    """
    The change of each lane's depth, from the readings of the last minute.

    CloudWatch averages minutes that are over, so a burst that already drains would still seem to grow.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._readings: dict[str, deque[tuple[float, int]]] = {}

    def growth(self, lane: str, depth: int) -> float | None:
        """Add a reading, and return the change per minute; None until the readings span ten seconds."""
        now = self._clock()
        readings = self._readings.setdefault(lane, deque())
        readings.append((now, depth))
        while readings[0][0] < now - OBSERVED:
            readings.popleft()
        began, depth_then = readings[0]
        return (depth - depth_then) / (now - began) * 60 if now - began >= MIN_OBSERVED else None


def drain_of(
    depth: int, figures: LaneFigures, *, growth: float | None = None, is_paused: bool = False
) -> tuple[Drain, timedelta | None]:
    """
    Return the trend of a depth and, if it falls, the time to drain at the current rates.

    Args:
        depth: messages in the lane.
        figures: the rates of the last minutes, used if `growth` is unknown.
        growth: observed change of the depth per minute.
        is_paused: whether an operator paused the lane.
    """
    if depth == 0:
        return Drain.EMPTY, timedelta(0)
    if is_paused:
        return Drain.PAUSED, None
    if growth is None:
        if figures.leaving is None or figures.arrivals is None:
            return Drain.UNKNOWN, None
        growth = figures.arrivals - figures.leaving
    if growth >= 0:
        return Drain.GROWING if growth else Drain.STEADY, None
    return Drain.FALLING, timedelta(minutes=depth / -growth)
