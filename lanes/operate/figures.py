"""
Figures of lanes over time: age, pace and yields, as far as CloudWatch knows them, and what follows from them.

Owns the words pace and time to drain. None stands for unknown everywhere: nothing is guessed.
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
    What is known of a lane's last minutes; None is unknown.

    Attributes:
        oldest_age: age of the oldest message.
        pace: messages handled per minute.
        arrivals: messages sent to the lane per minute.
        yields: records per minute that made way.

    """

    oldest_age: timedelta | None = None
    pace: float | None = None
    arrivals: float | None = None
    yields: float | None = None


UNKNOWN = LaneFigures()


class Figures(Protocol):
    """Where figures come from."""

    def read(self) -> Mapping[str, LaneFigures]:
        """Return what is known, by lane; raises `AwsError`."""


class Drain(enum.StrEnum):
    """Where the depth of a lane is heading."""

    EMPTY = "empty"
    FALLING = "falling"
    GROWING = "growing"  # also where it stands still: it won't end by itself
    UNKNOWN = "unknown"


def drain_of(depth: int, figures: LaneFigures) -> tuple[Drain, timedelta | None]:
    """Return where a depth is heading and, where it falls, how long it takes at the present pace and arrivals."""
    if depth == 0:
        return Drain.EMPTY, timedelta(0)
    if figures.pace is None or figures.arrivals is None:
        return Drain.UNKNOWN, None
    net = figures.pace - figures.arrivals
    if net <= 0:
        return Drain.GROWING, None
    return Drain.FALLING, timedelta(minutes=depth / net)
