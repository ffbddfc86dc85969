"""Policies: which lane a slot serves next, and when its next record may start."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from typing import TYPE_CHECKING

from lanes.config.settings import MAX_RECEIVES
from lanes.consumer.interceptors import Interception
from lanes.consumer.outcome import Outcome, Reason, receive_floor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from lanes.config import Lane, LanesConfig
    from lanes.consumer.handlers import Work
    from lanes.consumer.ledger import Entry
    from lanes.consumer.records import Batch, RawRecord

PROMISED = 0.25
"""
Share of its pause after which the next returned record is promised a time.

With the whole pause 20 to 40 % of a rate were used, since records came back too late; with a quarter all of it, for six
receives a record instead of two (600 records at 30 and 60 a minute, in simulation).
"""


class Strict:
    """The highest lane with messages, always."""

    def __init__(self, config: LanesConfig) -> None:
        self._config = config

    def order(self, lanes: Sequence[Lane]) -> Sequence[Lane]:
        """Return the lanes as configured."""
        return lanes

    def above(self, lane: Lane) -> Sequence[Lane]:
        """Return the higher lanes."""
        return self._config.lanes_above(lane)

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


class Rate:
    """
    One slot's part of a rate.

    A slot spaces its records evenly, and begins with a pause of about that length: a new environment knows nothing of
    the one before. After a quiet time each slot may start one record at once.

    Args:
        rate: records a second, of all slots.
        slots: number of slots.
        clock: epoch seconds.
        random: spreads the first records of the slots.

    """

    def __init__(self, rate: float, *, slots: int, clock: Callable[[], float], random: Random) -> None:
        self._clock = clock
        self._pause = slots / rate
        self._next = self._promised = clock() + self._pause * (0.5 + random.random())

    def wait(self) -> float:
        """Return the seconds until a record may start."""
        # The longest first pause: a later time is from before the clock was set back.
        latest = self._clock() + 1.5 * self._pause
        if self._next > latest:
            self._next = self._promised = latest
        return max(0.0, self._next - self._clock())

    def start(self) -> None:
        """Count a record that starts now."""
        self._next = max(self._clock(), self._next) + self._pause

    def promise(self) -> float:
        """Return the seconds after which one more record is tried, behind all those that were promised a time."""
        self._promised = max(self._next, self._promised) + PROMISED * self._pause
        return self._promised - self._clock()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KindRate(Interception):
    """
    Spaces the records of kinds with a rate: one that comes too early returns to its lane.

    Attributes:
        rates: the slot's part of each rate, by kind.
        sleep: lets seconds pass.

    """

    rates: dict[str, Rate]
    sleep: Callable[[float], None]

    def begin(self, batch: Batch) -> Sequence[Interception]:
        """Take part in every batch."""
        del batch
        return [self]

    def before(self, record: RawRecord, entry: Entry, work: Work) -> Outcome | None:
        """Let a record start if its kind may, or within a second: SQS takes it back for whole ones."""
        del record
        rate = self.rates.get(work.kind)
        if rate is None:
            return None
        if (wait := rate.wait()) > 1:
            # No longer than any yield: the rate may be raised meanwhile.
            delay = math.ceil(min(rate.promise(), receive_floor(MAX_RECEIVES)))
            return Outcome(entry=entry, delay=delay, reason=Reason.RATE)
        if wait > 0:
            self.sleep(wait)
        rate.start()
        return None
