"""Pace: how long records and looks take, so when to look and how much to receive, and the time of an invocation."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from typing import TYPE_CHECKING

from lanes.bell import MARGIN, RETURN_EVERY
from lanes.config.settings import LARGEST_BATCH
from lanes.consumer.records import WHOLE_INVOCATION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.config import ConsumerSettings, Lane
    from lanes.consumer.records import Batch, Invocation, RawRecord

# Numbers without a figure here have theirs in docs/decisions.md#the-pull-engine.
SPREAD = 0.2
"""Seconds of work to receive at once: urgent records are spread over the slots, and calls stay a small share."""

LONG_RECORD = 1.0
"""Seconds of a record from which its lane is received record by record: others would wait behind it in hand."""

REMEMBERED = 0.995
"""Share of a lane's longest record that is left after each further one, so that a first slow one is forgotten."""

UNEVEN = 2
"""Typical records that fit into the longest one of a lane from which no look can be timed to end with a record."""

BRIEF = 0.15
"""Share of a record's time that a look takes from which it is made beside a record, not between two."""

SLOWLY = 0.05
"""The same in a mean by which a lane's records are told from others', so that no single one turns it."""

NEW = 0.3
"""Weight of the newest measurement in a mean."""

FRESH = 0.05
"""Seconds for which a look counts as taken right now."""

ROUNDING = 0.001
"""Share of a record by which measured times may differ."""

TRIES = 5
"""Polls until a deep lane counts as empty where second polls found that first ones miss messages."""

STAYS_FOR = 5
"""Seconds for which a slot stays for a record that returns."""


@dataclasses.dataclass(slots=True)
class _Known:
    """One lane as far as it is known: the time of its records, and its front at the last receive."""

    typical: float | None = None
    mean: float = 0.0
    longest: float = 0.0
    tail: float = 0.0
    worked: int = 0
    is_deep: bool = False
    is_plenty: bool = False
    is_mixed: bool = False
    chain: int = 0
    together: int = 1
    last_groups: tuple[str, ...] = ()


class Pace:
    """The measurements of one environment: how long records and looks take, and how the lanes' fronts are."""

    def __init__(self, settings: ConsumerSettings) -> None:
        self._slots = settings.reserved_concurrency
        self._recheck = settings.recheck_interval.total_seconds()
        self._known: defaultdict[str, _Known] = defaultdict(_Known)
        self._look = 0.0
        self._missed = 0

    def worked(self, lane: Lane, seconds: float, *, together: int = 1) -> None:
        """Add the time of one call, which may handle up to so many records `together`."""
        # A clock that is set back measures less than nothing.
        known, seconds = self._known[lane.name], max(0.0, seconds)
        known.typical = seconds if known.typical is None else _mean(known.typical, seconds)
        known.mean += max(SLOWLY, 1 / (known.worked + 1)) * (seconds - known.mean)
        known.longest = max(REMEMBERED * known.longest, seconds)
        if known.worked:
            # The first one may have opened connections.
            known.tail = max(REMEMBERED * known.tail, seconds)
        known.worked += 1
        known.together = together

    @property
    def has_worked(self) -> bool:
        """Whether any record has ended in this environment."""
        return any(known.typical is not None for known in self._known.values())

    def looked(self, seconds: float) -> None:
        """Add the time of one look."""
        self._look = max(0.0, _mean(self._look or seconds, seconds))

    def received(self, lane: Lane, records: Sequence[RawRecord], *, is_full: bool) -> None:
        """Remember the front of a lane: one group, which only this slot can serve now, or more than a look takes."""
        known = self._known[lane.name]
        known.is_deep = is_full
        # A single record that was asked for may be the only one.
        known.is_plenty = is_full and len(records) > 1
        if not records:
            return
        group, groups = records[0].group, {record.group for record in records}
        known.is_mixed = known.chain > 0 and len(groups) > 1
        is_chain = len(records) > 1 or group in known.last_groups
        known.chain = 2 * len(records) if len(groups) == 1 and is_chain else 0
        # Two, since a look beside a record finds another group than its own: with one, five urgent groups where a poll
        # in ten misses were finished at 0.64 instead of 0.94 of the ideal speed, two of them by one slot for good.
        known.last_groups = (*known.last_groups, group)[-2:]

    def typical(self, lane: Lane) -> float:
        """Return the seconds that a record of a lane takes; 0 if that is not known."""
        return self._known[lane.name].typical or 0.0

    def is_short(self, lane: Lane) -> bool:
        """Whether messages of other lanes may be received beside a record: they wait for its end."""
        return self._known[lane.name].longest < LONG_RECORD

    def is_even(self, lane: Lane) -> bool:
        """Whether a look may end with a record: with one that takes long, what it finds would wait for a free slot."""
        known, record = self._known[lane.name], self.typical(lane)
        if self._slots == 1 or self._is_brief(lane):
            return True
        return known.tail <= max(SPREAD, UNEVEN * record)

    def _is_brief(self, lane: Lane) -> bool:
        """Whether calls between its records would take much of the slot's time."""
        return self._look > BRIEF * self._known[lane.name].mean

    def is_plenty(self, lane: Lane) -> bool:
        """Whether a lane's records may wait in hand: it has the lowest priority, and more than slots can take."""
        return lane.threshold is None and lane.max_wait is None and self._known[lane.name].is_plenty

    def is_chain(self, lane: Lane) -> bool:
        """Whether the next message of a lane may be one behind those in hand, in their group."""
        return self._known[lane.name].chain > 0

    def is_mixed(self, lane: Lane) -> bool:
        """Whether the end of a chain came with records of other groups, which other slots can serve."""
        return self._known[lane.name].is_mixed

    def most(self, lane: Lane, *, seconds_left: float) -> int:
        """Return how many records to receive at once: those of a batch handler's call count as one."""
        return min(LARGEST_BATCH, self._most_calls(lane, seconds_left) * self._known[lane.name].together)

    def _most_calls(self, lane: Lane, seconds_left: float) -> int:
        known, record = self._known[lane.name], self.typical(lane)
        fitting = max(1, int(seconds_left / record)) if record else LARGEST_BATCH
        if (known.typical is None and self._slots > 1) or record >= LONG_RECORD:
            return 1
        # Nothing has to wait behind the records of the last lane.
        is_last = lane.threshold is None and lane.max_wait is None
        if self._slots == 1 or (is_last and (known.is_deep or known.chain)):
            return min(LARGEST_BATCH, fitting)
        if not record or not self.is_short(lane):
            return min(LARGEST_BATCH, fitting, max(1, known.chain))
        # One of them may be the longest: what waits in hand behind it has to return, which costs more than a receive.
        longer = 0.0 if self._is_brief(lane) else max(0.0, known.tail - record)
        by_time = math.ceil((SPREAD - longer) / record - ROUNDING)
        return min(LARGEST_BATCH, fitting, max(1, min(by_time, known.worked - 1), known.chain))

    def is_stale(self, lane: Lane, age: float, *, expected: float) -> bool:
        """
        Whether a look at a lane is too old for a lower lane's record of `expected` seconds to start.

        Before a record of less than 50 ms, a look at the highest lane may be half as old. A look with a time in the
        future has no known age: the clock was set back.
        """
        recheck = self._recheck / 2 if 0 < expected < FRESH else self._recheck
        if lane.position > 0 and expected <= self._recheck:
            return not 0 <= age <= self._recheck
        return not 0 <= age <= max(min(FRESH, recheck), recheck - expected)

    def tries(self, lane: Lane) -> int:
        """
        Return how often to poll a lane before it counts as empty; AWS: a short poll asks some servers only.

        A chain is polled again only where that is known to miss messages: its next ones may be blocked.
        """
        if self._known[lane.name].is_deep and self._missed > TRIES:
            return TRIES
        return 2 if self._is_expected(lane) else 1

    def asked_again(self, lane: Lane, *, found: bool) -> None:
        """Count a lane's polls after the first one: a find of older records weighs as much as five without."""
        if self._is_expected(lane):
            self._missed = min(2 * TRIES, max(0, self._missed + (TRIES if found else -1)))

    def _is_expected(self, lane: Lane) -> bool:
        """Whether more records must be there, but for those behind a deletion: the last receive was full."""
        return self._known[lane.name].is_deep and not self.is_chain(lane)

    def look_in(self, lane: Lane, *, lanes: Sequence[Lane]) -> float:
        """Return the seconds from the start of a lane's record to the start of looks at lanes that end with it."""
        return max(0.0, self.typical(lane) - self._look * sum(map(self.tries, lanes)))


def _mean(known: float, new: float) -> float:
    return known + NEW * (new - known)


class SlotTime:
    """
    The time that an invocation has left, and its batches.

    Args:
        invocation: the invocation.
        clock: returns epoch seconds.
        needed: seconds that a record of each lane needs to end in time.
        whole: seconds of a whole invocation.

    Attributes:
        is_over: whether the time is too short for another record.

    """

    def __init__(
        self,
        invocation: Invocation,
        *,
        clock: Callable[[], float],
        needed: Mapping[str, float],
        whole: float,
    ) -> None:
        self.is_over = False
        self._invocation = invocation
        self._clock = clock
        self._needed = needed
        self._whole = whole
        self._batches = 0

    def left(self) -> float:
        """Return the seconds until Lambda ends the function."""
        return self._invocation.milliseconds_left() / 1000

    def has_time_for(self, *lanes: Lane, after: float = 0.0) -> bool:
        """Whether a record of each lane, started in some seconds, is likely to end in time; else this slot ends."""
        fits = not lanes or self.left() >= self._needed_by(lanes) + after
        self.is_over = self.is_over or not fits
        return fits

    def left_beside(self, lanes: Sequence[Lane]) -> float:
        """Return the seconds that may pass before a record of any of the lanes starts; without any, this slot ends."""
        left = self.left() - self._needed_by(lanes)
        self.is_over = self.is_over or left <= 0
        return left

    def batch(self, lane: Lane, records: Sequence[RawRecord]) -> Batch:
        """Return records as the next batch of the invocation, which begins now."""
        self._batches += 1
        return self._invocation.batch(lane, records, began_at=self._clock(), part=f"-{self._batches}")

    def _needed_by(self, lanes: Sequence[Lane]) -> float:
        return max([self._needed[lane.name] for lane in lanes])

    @property
    def is_fresh(self) -> bool:
        """Whether the first batch has nearly the whole time of the invocation."""
        return self._batches == 1 and self.left() >= WHOLE_INVOCATION * self._whole


class Stay:
    """
    Until when a slot stays although all lanes are empty.

    Args:
        clock: returns epoch seconds.
        rung: seconds from its start for which messages may come for which SQS drops the rings; None if that is over.
        patrol: seconds of one look without a ring; None if one was enough.
        linger: seconds after each of its looks at messages.
        next_rated: returns until when to wait for the next record that this environment returned for its rate.

    """

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        rung: float | None,
        patrol: float | None,
        linger: float,
        next_rated: Callable[[], float],
    ) -> None:
        self._clock = clock
        self._rung = rung
        self._rung_until = clock() + (rung or 0.0)
        self._patrol = patrol
        self._linger = linger
        self._next_rated = next_rated
        self._returns_at = 0.0

    @property
    def is_in_second(self) -> bool:
        """Whether SQS may still drop rings of new messages."""
        return self._clock() < self._rung_until

    def returns_in(self, seconds: float) -> None:
        """Stay for a record that returns soon: no sender rings for it."""
        if seconds <= STAYS_FOR:
            self._returns_at = max(self._returns_at, self._clock() + seconds + MARGIN)

    def until(self, *, has_worked: bool) -> float | None:
        """Return the epoch time until which the slot stays from now on; None if it leaves at once."""
        now, rated = self._clock(), self.rated_until
        if self._rung is not None or has_worked:
            # Each message of the ring's second is there when this has passed, so no wake-up is lost.
            return max(now + self._linger, self._rung_until, self._returns_at, rated)
        return rated or (None if self._patrol is None else now + self._patrol)

    @property
    def rated_until(self) -> float:
        """Until when it stays for a record that comes back for its rate; 0 if none does before the next heartbeat."""
        # It would else start with a heartbeat, which used a quarter of some rates.
        until = self._next_rated()
        return until if until - self._clock() <= RETURN_EVERY else 0.0
