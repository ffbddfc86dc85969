"""Delays: the seconds after which a record returns, as pure numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lanes.config.lane_tables import LONGEST_VISIBILITY
from lanes.consumer.ledger import Ending
from lanes.consumer.outcome import SOON, Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from random import Random

    from lanes.config import ConsumerSettings, Lane
    from lanes.consumer.records import RawRecord

# AWS: a message lives at most 14 days (SQS quotas). Summed over `MAX_RECEIVES` this floor is 15 days, so neither yields
# nor failing calls let SQS dead-letter a healthy message by itself.
RECEIVE_FLOOR = 0.004
"""Seconds times the square of the receive count: the shortest yield delay of a record received so often."""


def receive_floor(receive_count: int) -> float:
    """Return the shortest yield delay of a record received `receive_count` times, in seconds."""
    return RECEIVE_FLOOR * receive_count**2


def shortest_delay(records: Sequence[RawRecord]) -> int:
    """Return the whole seconds after which untouched records may return: more if they were received often."""
    return math.floor(receive_floor(max(record.receive_count for record in records)))


def soon(record: RawRecord) -> int:
    """Return the seconds until a record returns that another delivery or its group keeps waiting."""
    return max(SOON, shortest_delay([record]))


class Delays:
    """Delays in whole seconds, as SQS takes them: after a yield, after a failure, and on a handler's request."""

    def __init__(self, settings: ConsumerSettings, random: Random) -> None:
        self._settings = settings
        self._random = random

    def after_yield(
        self, lane: Lane, records: Sequence[RawRecord], *, to: Lane | None = None, at_least: float = 0.0
    ) -> Outcome:
        """
        Return the outcome of records that yield together.

        The delay is random within the lane's bounds, or in the half above `at_least` seconds, and never below the
        floor of the record received most often. A floor above the bounds keeps its receives from running out, so such
        records can't be woken.
        """
        low, high = lane.yield_delay_min.total_seconds(), lane.yield_delay_max.total_seconds()
        # SQS takes whole seconds, and rounding up must not pass the upper bound.
        chosen = min(math.ceil(self._random.uniform(low, high)), max(math.floor(high), math.ceil(low)))
        floor = receive_floor(max(record.receive_count for record in records))
        longer = at_least * self._random.uniform(1.0, 1.5) if at_least else 0.0
        delay = _in_limits(max(chosen, floor, longer), lane)
        return Outcome(ending=Ending.YIELDED, delay=delay, wakeable=floor <= high, to=to)

    def after_failure(self, lane: Lane, *, attempt: int = 1) -> int:
        """Return the seconds until the next attempt: doubled each time, capped, up to a quarter less at random."""
        base, cap = self._settings.backoff_base.total_seconds(), self._settings.backoff_max.total_seconds()
        full = min(cap, base * 2.0 ** min(attempt - 1, 32))
        return _in_limits(full * self._random.uniform(0.75, 1.0), lane)

    def after_error(self, lane: Lane, record: RawRecord) -> int:
        """Return the seconds until a call that failed for a record is repeated: more if it was received often."""
        return _in_limits(max(self.after_failure(lane), receive_floor(record.receive_count)), lane)

    def asked(self, lane: Lane, after: timedelta) -> int:
        """Return the delay that a handler asked for, within SQS's limits."""
        return _in_limits(after.total_seconds(), lane)


def _in_limits(seconds: float, lane: Lane) -> int:
    # AWS: a message stays invisible at most 12 hours after it was received (SQS, ChangeMessageVisibility), and a record
    # may have been held for most of its visibility timeout. Where that leaves no room, SQS refuses a longer delay, and
    # the record returns when its visibility ends.
    longest = max(LONGEST_VISIBILITY - lane.visibility_timeout, LONGEST_VISIBILITY / 2).total_seconds()
    return max(0, min(math.ceil(seconds), int(longest)))
