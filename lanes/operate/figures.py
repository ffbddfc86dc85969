"""
Age, rates and yields of the lanes from CloudWatch, and the trend of each lane's depth.

Each figure has its span. A figure that is not known yet is None; none is guessed.
"""

from __future__ import annotations

import dataclasses
import enum
import time
from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lanes.operate.recent import RecentWork

AVERAGED = timedelta(minutes=5)
"""Span of the rates: in one minute a lane with a message every two minutes would change between idle and busy."""
OBSERVED = 60.0
"""Seconds of own counts that make a trend: as many as the page's own column of trends."""
# Records of a few seconds leave a lane in steps, and between two steps it would seem to stand still.
MIN_OBSERVED = 10.0
# Older counts of CloudWatch say nothing of now: it shows a minute one to two minutes after its end.
MAX_OBSERVED = 300.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """Waiting and in-flight messages of a lane at one moment, epoch seconds."""

    at: float
    messages: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LaneFigures:
    """
    The last minutes of a lane; None is not known yet.

    Attributes:
        since: start of the rates, epoch seconds.
        until: their end.
        oldest_age: age of the oldest message at the end.
        pace: messages handled per minute.
        dead: messages dead-lettered per minute by the consumer.
        leaving: messages deleted from the lane per minute: handled, skipped, dead-lettered, cancelled or moved.
        arrivals: messages sent to the lane per minute.
        yields: records per minute that yielded.
        inversion: milliseconds per minute of this lane's work while a higher lane had a backlog.
        depths: the depth of the lane by minute, the oldest first.

    """

    since: float | None = None
    until: float | None = None
    oldest_age: timedelta | None = None
    pace: float | None = None
    dead: float | None = None
    leaving: float | None = None
    arrivals: float | None = None
    yields: float | None = None
    inversion: float | None = None
    depths: Sequence[Depth] = ()


UNKNOWN = LaneFigures()


class Drain(enum.StrEnum):
    """The trend of a lane's depth."""

    EMPTY = "empty"
    FALLING = "falling"
    GROWING = "growing"
    STEADY = "steady"
    PAUSED = "paused"
    NOT_YET = "not yet"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The observed change of a depth per minute, and the seconds over which it was observed."""

    per_minute: float
    over: float


class DepthTrend:
    """
    The change of each lane's depth, from the readings of the last minute, and before these from those of CloudWatch.

    Rates say nothing of it: they are of minutes that are over, so a burst that already drains would still seem to grow.

    Args:
        clock: epoch seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self._readings: dict[str, deque[Depth]] = {}

    def growth(self, lane: str, depth: int, earlier: Iterable[Depth] = ()) -> Growth | None:
        """
        Add a reading, and return the change.

        Args:
            lane: its name.
            depth: its messages now.
            earlier: depths from elsewhere, the oldest first.

        Returns:
            None if no reading is ten seconds old.
        """
        now = self.clock()
        readings = self._readings.setdefault(lane, deque())
        readings.append(Depth(at=now, messages=depth))
        while not now - OBSERVED <= readings[0].at <= now:
            readings.popleft()
        if now - readings[0].at >= MIN_OBSERVED:
            return _growth(readings[0], readings[-1])
        known = [one for one in earlier if MIN_OBSERVED <= now - one.at <= MAX_OBSERVED]
        return _growth(known[-1], readings[-1]) if known else None


def _growth(first: Depth, last: Depth) -> Growth:
    over = last.at - first.at
    return Growth(per_minute=(last.messages - first.messages) / over * 60, over=over)


def drain_of(depth: int, growth: Growth | None, *, is_paused: bool = False) -> tuple[Drain, timedelta | None]:
    """
    Return the trend of a depth and, if it falls, the time to drain at the observed rate.

    Args:
        depth: messages in the lane.
        growth: observed change of the depth.
        is_paused: whether an operator paused the lane.
    """
    if depth == 0:
        return Drain.EMPTY, timedelta(0)
    if is_paused:
        return Drain.PAUSED, None
    if growth is None:
        return Drain.NOT_YET, None
    # Less than one message in the whole span: CloudWatch's depths are means of a minute.
    if abs(growth.per_minute) * growth.over / 60 < 1:
        return Drain.STEADY, None
    if growth.per_minute > 0:
        return Drain.GROWING, None
    return Drain.FALLING, timedelta(minutes=depth / -growth.per_minute)


def without_late_zeros(
    lane: str, figures: LaneFigures, *, growth: Growth | None, work: RecentWork | None
) -> LaneFigures:
    """Take back zeros of minutes that are over, if the lane had work since: its rate is not known yet."""
    until = figures.until or 0.0
    waits = () if work is None else work.waits
    failures = () if work is None else work.failures
    sent = figures.arrivals == 0 and growth is not None and growth.per_minute > 0
    handled = figures.pace == 0 and any(one.lane == lane and one.last_at > until for one in waits)
    died = figures.dead == 0 and any(
        one.lane == lane and one.dead_letters and one.last_at > until for one in failures
    )
    return dataclasses.replace(
        figures,
        arrivals=None if sent else figures.arrivals,
        pace=None if handled else figures.pace,
        dead=None if died else figures.dead,
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LaneMinute:
    """
    One minute of a lane; None is unknown.

    Attributes:
        at: its start, in epoch seconds.
        waiting: visible messages, on average.
        in_flight: messages received and not deleted, on average.
        handled: messages whose handler succeeded.
        failed: failed attempts.
        yields: records that yielded to a higher lane.
        inversion: milliseconds of this lane's work after which a higher lane had a backlog.
        dead_lettered: messages that the consumer dead-lettered.

    """

    at: float
    waiting: float | None = None
    in_flight: float | None = None
    handled: float | None = None
    failed: float | None = None
    yields: float | None = None
    inversion: float | None = None
    dead_lettered: float | None = None
