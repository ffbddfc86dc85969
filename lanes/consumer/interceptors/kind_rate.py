"""
The rates of kinds: all slots together start no more records of a kind, or of the kinds of a pattern, than its rate.

The table has one small item for each rate: when the next record may start, and until when records of each lane come
back that found no time. A record takes its time as it starts, or returns until about the next one; meanwhile the slot
serves other records. A lane does not take a time that one above it waits for, so a rate never changes the order of
lanes.
"""

from __future__ import annotations

import dataclasses
import heapq
import math
from typing import TYPE_CHECKING

from lanes.consumer import telemetry as report
from lanes.consumer.interceptors import Interception
from lanes.consumer.outcome import Outcome, Reason
from lanes.errors import AwsError
from lanes.events import Event
from lanes.message_filter import first_like

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lanes.config import Lane
    from lanes.consumer.engines.order import Reserve
    from lanes.consumer.handlers import Work
    from lanes.consumer.ledger import Entry, Ledger
    from lanes.consumer.records import Batch, RawRecord
    from lanes.consumer.settlement import Settlement

# SQS takes a record back for whole seconds, so it is up to one late.
LATE = 1.0
"""Seconds, or half a pause, by which a record may be late with no loss for the rate; a call's may be so much early."""

LONGEST = 60.0
"""Most seconds beyond the next time until a record returns: the rate may be raised meanwhile."""

TRIES = 5
"""Writes for one record, each after another slot was faster, until it returns."""


@dataclasses.dataclass(frozen=True, slots=True)
class Times:
    """
    The state of one rate, in epoch seconds.

    Attributes:
        next_at: when the next record may start.
        asked: by position of the lane, until when records come back that found no time.
    """

    next_at: float = 0.0
    asked: Mapping[int, float] = dataclasses.field(default_factory=dict)

    def wait(self, lane: Lane, *, now: float, pause: float, is_overdue: bool = False) -> float:
        """Return the seconds until a record of a lane may start; an overdue one goes before those above."""
        # A later time is from before a clock was set back.
        longest = now + pause + 2 * LATE
        above = [at for place, at in self.asked.items() if place < lane.position and at <= longest + LONGEST]
        return max(now, min(self.next_at, longest), *(() if is_overdue else above)) - now

    def started(self, *, now: float, pause: float) -> Times:
        """Return the state after a start: a record that was late takes the time that it had, not one after it."""
        # By more only after a quiet time: then one record starts at once, and none after it to make up for that.
        time = self.next_at if -LATE <= now - self.next_at <= max(LATE, pause / 2) else now
        return Times(time + pause, {one: at for one, at in self.asked.items() if at > now})

    def returning(self, lane: Lane, *, until: float) -> Times:
        """Return the state with a record of a lane that comes back."""
        return Times(self.next_at, {**self.asked, lane.position: until})

    @property
    def text(self) -> str:
        """The state as an attribute of an item."""
        return ";".join(
            [f"{self.next_at:.3f}", *(f"{one}:{at:.3f}" for one, at in sorted(self.asked.items()))]
        )

    @classmethod
    def parse(cls, text: str) -> Times:
        """Read such an attribute; an empty one is that of a rate that was never used."""
        if not text:
            return cls()
        next_at, *asked = text.split(";")
        pairs = (one.split(":") for one in asked)
        return cls(float(next_at), {int(place): float(at) for place, at in pairs})


@dataclasses.dataclass(slots=True)
class _Rate:
    """A rate as this environment knows it: the last state that it read or wrote, and the end of each lane's line."""

    pattern: str
    pause: float
    stored: str = ""
    lines: dict[int, float] = dataclasses.field(default_factory=dict)

    def comes_back(self, lane: Lane, start: float) -> float:
        """Return when a record comes back that may start at a time: then, or behind others of its lane."""
        line = self.lines.get(lane.position, 0.0)
        due = start if line < start else min(line + self.pause, start + LONGEST)
        self.lines[lane.position] = due
        return due


class KindRates:
    """
    Lets records of kinds with a rate start at their time.

    Args:
        rates: records a second by pattern of kinds.
        ledger: has the state of each rate.
        settlement: gives delays and the clock.
        reserve: admits overdue records ahead of higher lanes.

    """

    def __init__(
        self, rates: Mapping[str, float], *, ledger: Ledger, settlement: Settlement, reserve: Reserve
    ) -> None:
        self._rates = {pattern: _Rate(pattern, 1 / rate) for pattern, rate in rates.items()}
        self._ledger = ledger
        self._settlement = settlement
        self._reserve = reserve
        self._returns: list[float] = []

    def begin(self, batch: Batch) -> Sequence[Interception]:
        """Take part in every batch."""
        return [_Starts(self, batch.lane)]

    def start(self, lane: Lane, record: RawRecord, entry: Entry, kind: str, *, joins: bool) -> Outcome | None:
        """Take the time of a record that starts; without one return its outcome."""
        pattern = first_like(kind, self._rates)
        if pattern is None:
            return None
        rate = self._rates[pattern]
        due, delay = 0.0, 0
        for _ in range(TRIES):
            now, times = self._settlement.clock(), Times.parse(rate.stored)
            is_overdue = self._reserve.admits(lane, record)
            wait = times.wait(lane, now=now, pause=rate.pause, is_overdue=is_overdue)
            if starts := wait <= (LATE if joins else 0.0):
                after = times.started(now=now, pause=rate.pause)
            else:
                due = due or rate.comes_back(lane, now + wait)
                delay = self._delay(lane, record, due - now)
                asked = times.asked.get(lane.position, 0.0)
                # SQS gives whole seconds, and more to a record that it has given out often.
                back = max(due, now + delay - LATE / 2) + LATE
                # None is below the last lane, and a later return has been written already.
                if lane.threshold is None or asked >= back:
                    break
                # So far that the next records of the line need no write.
                after = times.returning(lane, until=back + (rate.pause if asked < due + LATE else 0.0))
            try:
                other = self._ledger.swap_rate(pattern, rate.stored, after.text)
            except AwsError:
                report.failed_call(self._settlement.telemetry, Event.RATE_NOT_TAKEN, lane=lane.name)
                return self._later(entry, self._settlement.delays.after_error(lane, record))
            rate.stored = after.text if other is None else other
            if other is None:
                if not starts:
                    break
                if is_overdue:
                    # The lanes above lose a time of the rate.
                    self._reserve.charge(rate.pause)
                return None
        return self._later(entry, delay or self._delay(lane, record, 0.0))

    def next_return(self) -> float:
        """Return until when to wait for the next record that this environment returned; infinite if there is none."""
        while self._returns and self._returns[0] <= self._settlement.clock():
            heapq.heappop(self._returns)
        return self._returns[0] if self._returns else math.inf

    def _delay(self, lane: Lane, record: RawRecord, seconds: float) -> int:
        return self._settlement.delays.untouched(lane, record, max(1.0, seconds))

    def _later(self, entry: Entry, delay: int) -> Outcome:
        heapq.heappush(self._returns, self._settlement.clock() + delay + LATE)
        return Outcome(entry=entry, delay=delay, reason=Reason.RATE)


@dataclasses.dataclass(frozen=True, slots=True)
class _Starts(Interception):
    _rates: KindRates
    _lane: Lane

    def before(self, record: RawRecord, entry: Entry, work: Work, *, joins: bool) -> Outcome | None:
        """Let a record start if its kind may."""
        return self._rates.start(self._lane, record, entry, work.kind, joins=joins)
