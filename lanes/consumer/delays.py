"""Delays, in whole seconds as SQS takes them: the yield delay, the backoff after a failure, and their limits."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

    from lanes.config import ConsumerSettings, Lane

RECEIVE_FLOOR = 0.004
"""Seconds times the square of the receive count: the least yield delay of a record received so often.

AWS: a queue's maxReceiveCount is at most 1,000 and a message lives at most 14 days; summed over 1,000 receives
this floor is 15 days, so no number of yields brings a message to its native dead-letter queue.
"""

# AWS: a message stays invisible at most 12 hours after it was received (SQS, ChangeMessageVisibility).
VISIBILITY_LIMIT = timedelta(hours=12)
LEAST_LIMIT = timedelta(hours=6)


def yield_delay(lane: Lane, *, receive_count: int, random: Random) -> int:
    """Return the seconds for which a yielded batch is parked: jittered in the lane's bounds, never under the floor."""
    low, high = lane.yield_delay_min.total_seconds(), lane.yield_delay_max.total_seconds()
    chosen = min(math.ceil(random.uniform(low, high)), max(math.floor(high), math.ceil(low)))
    return _whole(max(chosen, receive_floor(receive_count)), lane)


def receive_floor(receive_count: int) -> float:
    """Return the least yield delay of a record received `receive_count` times, in seconds."""
    return RECEIVE_FLOOR * receive_count**2


def backoff(settings: ConsumerSettings, lane: Lane, *, attempt: int, random: Random) -> int:
    """Return the seconds until the next attempt: doubled each time, capped, with a jitter of a quarter below."""
    base, cap = settings.backoff_base.total_seconds(), settings.backoff_max.total_seconds()
    full = min(cap, base * 2.0 ** min(attempt - 1, 32))
    return _whole(full * random.uniform(0.75, 1.0), lane)


def asked(lane: Lane, after: timedelta) -> int:
    """Return the delay a handler asked for, in what SQS can do."""
    return _whole(after.total_seconds(), lane)


def _whole(seconds: float, lane: Lane) -> int:
    # A record may have been held for most of its visibility timeout before. Where that leaves no room, a change beyond
    # the limit is refused, and the record returns when its visibility ends.
    longest = max(VISIBILITY_LIMIT - lane.visibility_timeout, LEAST_LIMIT).total_seconds()
    return max(0, min(math.ceil(seconds), int(longest)))
