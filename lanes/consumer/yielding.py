"""
The yield policy: whether the next record may start, decided from numbers alone.

A lower lane makes way for records that wait for a slot. A queue's counts don't say that: "in flight" holds records
that run, that are parked by a yield, that wait out a backoff, and those which the mapping took out and can't place;
only the last ones wait. "Visible" holds records that nobody took yet, and those behind a parked record of their
group, which nobody can take.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lanes.config import Lane

VISIBLE_GRACE = 1.0
"""Seconds for which visible records count as waiting although nothing of their lane is held.

A mapping with a free poller takes a deliverable message within milliseconds. Records that stay visible longer are
behind another record of their group, or their mapping is paused: neither may hold the lower lanes back.
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LaneDepth:
    """
    A queue's own counts, which AWS calls approximate.

    Attributes:
        backlog: visible records.
        in_flight: records received and neither deleted nor visible again.

    """

    backlog: int
    in_flight: int

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing at all."""
        return self.backlog == 0 and self.in_flight == 0


@dataclasses.dataclass(slots=True)
class VisibleBaseline:
    """How many visible records of one lane have proved not to be deliverable."""

    settled: int = 0
    risen_to: int = 0
    risen_at: float = 0.0

    def observe_anew(self, now: float) -> None:
        """Let the grace begin now for the records that have not proved it yet."""
        self.risen_at = now

    def fresh(self, backlog: int, *, held: int, now: float, blockable: bool = False) -> int:
        """
        Return how many of the visible records count as waiting, and learn from the reading.

        Args:
            backlog: visible records.
            held: records that the lane's mapping has taken out and can't place.
            now: when they were counted.
            blockable: some records of the lane are parked or in backoff, and none were just done. Then visible ones
                are behind those, or so new that the mapping takes them before the next reading.

        """
        before, self.risen_to = self.risen_to, backlog
        self.settled = backlog if blockable and not held else min(self.settled, backlog)
        if held > 0:
            self.risen_at = now
            return backlog - self.settled if blockable else backlog
        if backlog > before or before <= self.settled:
            self.risen_at = now
        elif now - self.risen_at >= VISIBLE_GRACE:
            self.settled = backlog
        return backlog - self.settled


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LaneLoad:
    """A lane above: how many of its records wait for a slot, and how many slots it has already."""

    lane: Lane
    waiting: int
    running: int = 0

    @property
    def slots_needed(self) -> int:
        """How many slots those records could fill at once; its mapping starts no more than its maximum concurrency."""
        spare = max(0, self.lane.maximum_concurrency - self.running)
        return min(math.ceil(self.waiting / self.lane.batch_size), spare)


def held_records(depth: LaneDepth, *, parked: int, elsewhere: int) -> int:
    """Return how many records the lane's mapping has taken out and can't place."""
    return max(0, depth.in_flight - parked - elsewhere)


def lane_to_yield_to(loads: Iterable[LaneLoad], *, free_slots: Callable[[], int]) -> Lane | None:
    """
    Return the highest lane that waits for the slot asked about, or None where all that waits finds another.

    `loads` comes highest lane first and may be lazy: it is read no further than needed. `free_slots` leaves out the
    slot of whoever asks, and is asked once the first lane turns out to wait.
    """
    free: int | None = None
    for load in loads:
        if load.slots_needed == 0:
            continue
        free = (free_slots() if free is None else free) - load.slots_needed
        if free < 0:
            return load.lane
    return None
