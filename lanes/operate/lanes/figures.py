"""
Age, rates and yields of the lanes from CloudWatch, and the time to drain that follows from them.

An unknown figure is None; none is guessed.
"""

from __future__ import annotations

import dataclasses
import enum
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LaneFigures:
    """
    The last minutes of a lane; None is unknown.

    Attributes:
        oldest_age: age of the oldest message.
        pace: messages handled per minute.
        arrivals: messages sent to the lane per minute.
        yields: records per minute that yielded.

    """

    oldest_age: timedelta | None = None
    pace: float | None = None
    arrivals: float | None = None
    yields: float | None = None


UNKNOWN = LaneFigures()


class Figures(Protocol):
    """The source of figures."""

    def read(self) -> Mapping[str, LaneFigures]:
        """Return the known figures by lane; raises `AwsError`."""


class Drain(enum.StrEnum):
    """The trend of a lane's depth."""

    EMPTY = "empty"
    FALLING = "falling"
    GROWING = "growing"  # or constant: it does not end by itself
    UNKNOWN = "unknown"


def drain_of(depth: int, figures: LaneFigures) -> tuple[Drain, timedelta | None]:
    """Return the trend of a depth and, if it falls, the time to drain at the current rates."""
    if depth == 0:
        return Drain.EMPTY, timedelta(0)
    if figures.pace is None or figures.arrivals is None:
        return Drain.UNKNOWN, None
    net = figures.pace - figures.arrivals
    if net <= 0:
        return Drain.GROWING, None
    return Drain.FALLING, timedelta(minutes=depth / net)
