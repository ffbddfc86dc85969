"""The pace of a slot: how long its records take, how many to receive at once, and when to look at other lanes."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.config import ConsumerSettings, Lane
    from lanes.consumer.records import RawRecord

LARGEST_RECEIVE = 10
"""AWS: the most messages of one receive (API_ReceiveMessage)."""

SPREAD = 0.2
"""Seconds of work to receive at once: urgent records are spread over the slots, and calls stay a small share."""

LONG_RECORD = 1.0
"""Seconds for which a received record may wait behind another while a slot may be free."""

FRESH = 0.05
ROUNDS = 5
"""A look counts as taken right now for this many seconds, or for so many round trips if they take longer."""

TRIES = 2
"""
Short polls of a lane that had as many records as were asked for a moment ago.

Where one short poll in three misses, HIGH's p99 at ten slots is 1.4 s instead of 2.1 s, for 7 % more calls and 1 % of
the work.
"""

NEW = 0.3
"""Weight of the newest measurement in a mean."""


class Pace:
    """The measurements of one environment."""

    def __init__(self, settings: ConsumerSettings) -> None:
        self._slots = settings.reserved_concurrency
        self._recheck = settings.recheck_interval.total_seconds()
        self._records: dict[str, float] = {}
        self._chains: defaultdict[str, int] = defaultdict(int)
        self._deep: defaultdict[str, bool] = defaultdict(bool)
        self._longest: defaultdict[str, float] = defaultdict(float)
        self._mixed: defaultdict[str, bool] = defaultdict(bool)
        self._last: dict[str, str] = {}
        self._look = 0.0

    def worked(self, lane: Lane, seconds: float) -> None:
        """Add the time of one record."""
        self._records[lane.name] = _mean(self._records.get(lane.name, seconds), seconds)
        self._longest[lane.name] = max(self._longest[lane.name], seconds)

    def is_regular(self, lane: Lane) -> bool:
        """
        Whether the records of a lane end about when they are expected to.

        If not, nothing is received beside them: it would wait for their end while another slot may be free.
        """
        record = self._records.get(lane.name)
        return record is not None and self._longest[lane.name] < record + LONG_RECORD

    def typical(self, lane: Lane) -> float:
        """Return the seconds that a record of a lane takes; 0 if that is not known."""
        return self._records.get(lane.name, 0.0)

    def looked(self, seconds: float) -> None:
        """Add the time of one look."""
        self._look = _mean(self._look or seconds, seconds)

    def received(self, lane: Lane, records: Sequence[RawRecord], *, is_full: bool) -> None:
        """Remember the front of a lane: one group, which only this slot can serve now, or more than a look takes."""
        self._deep[lane.name] = is_full
        if not records:
            return
        group, groups = records[0].group, {record.group for record in records}
        self._mixed[lane.name] = self._chains[lane.name] > 0 and len(groups) > 1
        known = self._chains[lane.name] or len(records) > 1 or group == self._last.get(lane.name)
        self._chains[lane.name] = 2 * len(records) if len(groups) == 1 and known else 0
        self._last[lane.name] = group

    def is_chain(self, lane: Lane) -> bool:
        """Whether the next message of a lane may be one behind those in hand, in their group."""
        return self._chains[lane.name] > 0

    def is_mixed(self, lane: Lane) -> bool:
        """Whether the end of a chain came with records of other groups, which other slots can serve."""
        return self._mixed[lane.name]

    def tries(self, lane: Lane) -> int:
        """Return how often to ask a lane that seems to be empty: a short poll may miss messages that must be there."""
        return TRIES if self._deep[lane.name] else 1

    def is_short(self, lane: Lane) -> bool:
        """Whether messages of other lanes may be received at the start of a record."""
        return self._longest[lane.name] < LONG_RECORD

    def most(self, lane: Lane, *, seconds_left: float) -> int:
        """Return how many records to receive at once."""
        record = self._records.get(lane.name)
        fitting = LARGEST_RECEIVE if not record else max(1, int(seconds_left / record))
        if (record is None and self._slots > 1) or (record or 0.0) >= LONG_RECORD:
            return 1
        # Nothing has to wait behind the records of the last lane.
        has_many = (
            lane.threshold is None
            and lane.max_wait is None
            and (self._deep[lane.name] or self.is_chain(lane))
        )
        if self._slots == 1 or has_many:
            return min(LARGEST_RECEIVE, fitting)
        by_time = math.ceil(SPREAD / record) if record else 1
        by_slots = math.ceil(LARGEST_RECEIVE / self._slots)
        return min(LARGEST_RECEIVE, fitting, max(by_slots, by_time, self._chains[lane.name]))

    def is_stale(self, lane: Lane, age: float, *, expected: float) -> bool:
        """Whether a look at a lane is too old for a lower lane's record of `expected` seconds to start."""
        fresh = min(max(FRESH, ROUNDS * self._look), self._recheck)
        if lane.position > 0 and expected <= self._recheck:
            return age > self._recheck
        return age > max(fresh, self._recheck - expected)

    def look_in(self, lane: Lane, *, calls: int) -> float:
        """Return the seconds from the start of a lane's record to the start of so many looks that end with it."""
        return max(0.0, self._records[lane.name] - self._look * calls)


def _mean(known: float, new: float) -> float:
    return known + NEW * (new - known)
