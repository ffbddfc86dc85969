"""
Backlogs as pure numbers.

A lower lane yields to records that wait for a slot. A queue's counts don't show those: "in flight" holds records that
run, that are parked by a yield, that wait out a backoff, and those that the mapping received and can't place. Only the
last ones wait. "Visible" holds records that were never received, and those behind a parked record of their group,
which can't be.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from lanes.bell import MARGIN
from lanes.consumer.values import value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.config import Lane
    from lanes.consumer.records import RawRecord

# AWS documents no time for it. With less, peers take finished records for waiting ones and yield to them; with more,
# they overlook as many that do wait (docs/decisions.md#a-slot-table).
UNDELETED = 0.25
"""Seconds for which finished records may still be in flight: the mapping deletes them after the invocation."""

VISIBLE_GRACE = 1.0
"""
Seconds for which visible records count as waiting although the mapping can place all that it received.

A mapping with a free poller receives a deliverable message within milliseconds. Records that stay visible longer are
behind another record of their group, or their mapping is paused: neither may hold the lower lanes back.
"""

# AWS documents no waits of a throttled batch; the simulations go up to 10 s. A mapping that a free slot has not served
# in that time holds nothing (docs/decisions.md#records-left-behind).
STRANDED = 10.0
"""Seconds of a free slot after which records in flight count as left behind."""


@dataclasses.dataclass(slots=True)
class VisibleBacklog:
    """The visible records of one lane that proved undeliverable (`stuck`), learned from one reading to the next."""

    stuck: int = 0
    risen_to: int = 0
    risen_at: float = 0.0

    def deliverable(self, backlog: int, *, undelivered: int, now: float, blockable: bool = False) -> int:
        """
        Return how many of the `backlog` visible records wait for a slot, at a reading.

        `undelivered` are those that the lane's mapping received and can't place. The lane is `blockable` while some of
        its records are parked or in backoff, and none were just done: then visible ones are behind those, or so new
        that the mapping receives them before the next reading.
        """
        before, self.risen_to = self.risen_to, backlog
        self.stuck = backlog if blockable and not undelivered else min(self.stuck, backlog)
        if undelivered > 0:
            self.risen_at = now
            return backlog - self.stuck if blockable else backlog
        if backlog > before or before <= self.stuck:
            self.risen_at = now
        elif now - self.risen_at >= VISIBLE_GRACE:
            self.stuck = backlog
        return backlog - self.stuck


@dataclasses.dataclass(slots=True)
class HeldBacklog:
    """
    The records of one lane in flight that an ended invocation left behind (`stranded`), learned between readings.

    For one slot, where no peer publishes them. A mapping retries the records that it holds: those that were in flight
    at a reading (`suspected`) and got no slot, although it was free for so long, have no mapping.
    """

    stranded: int = 0
    stranded_at: float = 0.0
    suspected: int = 0
    suspected_at: float = 0.0
    free_at: float = 0.0

    def waiting(self, held: int, *, undeleted: int, now: float, free: float) -> int:
        """
        Return how many of the `held` records in flight, which neither run nor are parked, wait for a slot.

        `undeleted` finished ones are left out of those, although some may be deleted by now. The slot was `free` for so
        many seconds so far.
        """
        self.stranded = min(self.stranded, held + undeleted)
        self.suspected = min(self.suspected, held + undeleted)
        if self.suspected <= self.stranded:
            self.suspected, self.suspected_at, self.free_at = held, now, free
        elif free - self.free_at >= STRANDED:
            self.stranded, self.stranded_at = self.suspected, self.suspected_at
        return max(0, held - self.stranded)

    def served(self, records: Sequence[RawRecord]) -> None:
        """Take in that an invocation had records: those received before the reading are not left behind any more."""

        def received_by(moment: float) -> int:
            return sum(record.first_received_at <= moment + MARGIN for record in records)

        self.suspected = max(0, self.suspected - received_by(self.suspected_at))
        self.stranded = max(0, self.stranded - received_by(self.stranded_at))


@value(frozen=True, slots=True, kw_only=True)
class LaneBacklog:
    """A higher lane's records that wait for a slot, and the slots that it has already."""

    lane: Lane
    waiting: int
    running: int = 0

    @property
    def slots_needed(self) -> int:
        """Slots that those records could fill at once, within the mapping's maximum concurrency."""
        # A mapping at its maximum concurrency starts no batch: a slot that is yielded to it stays empty.
        spare = max(0, self.lane.maximum_concurrency - self.running)
        return min(math.ceil(self.waiting / self.lane.batch_size), spare)
