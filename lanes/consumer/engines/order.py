"""The order in which a slot serves its lanes."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.config import Lane, LanesConfig


class Strict:
    """The highest lane with messages, always."""

    def __init__(self, config: LanesConfig) -> None:
        self.above = config.lanes_above

    def order(self, lanes: Sequence[Lane]) -> Sequence[Lane]:
        """Return the lanes as configured."""
        return lanes

    def charge(self, lane: Lane, seconds: float) -> None:
        """Do nothing."""


class Weighted:
    """
    Lanes share a slot's time by their weights, as in stride scheduling (Waldspurger and Weihl, 1995).

    Each lane advances by the time it was served divided by its weight, and the lane that is behind goes first. A lane
    that had no messages saves up nothing: it joins at the others' progress.
    """

    def __init__(self) -> None:
        self._progress: defaultdict[str, float] = defaultdict(float)
        self._served_at = 0.0

    def order(self, lanes: Sequence[Lane]) -> Sequence[Lane]:
        """Return the lanes, the one that is most behind first; among equals the higher one."""
        return sorted(lanes, key=lambda lane: (self._joined(lane), lane.position))

    def above(self, lane: Lane) -> Sequence[Lane]:
        """Return none: the choice is made from batch to batch."""
        del lane
        return ()

    def charge(self, lane: Lane, seconds: float) -> None:
        """Let a lane advance."""
        self._served_at = self._joined(lane)
        self._progress[lane.name] = self._served_at + seconds / lane.weight

    def _joined(self, lane: Lane) -> float:
        return max(self._progress[lane.name], self._served_at)
