"""
The receive budget: the smallest maxReceiveCount that neither yields nor outages reach.

SQS counts every receive, also those that end in a yield. The consumer keeps a message away for longer the more often it
was received, so a message spends receives ever more slowly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.config import MAX_RECEIVES
from lanes.consumer.outcome import outage_floor, receive_floor

if TYPE_CHECKING:
    from datetime import timedelta


def receives_within(retention: timedelta) -> int:
    """
    Count the receives that yields and outages can cost a message within its retention, at most 1,000.

    Up to 500 they are about 60 seconds apart in an outage; then ``0.004 * receives ** 2`` seconds, also for yields.
    """
    waited = 0.0
    receives = 0
    while waited < retention.total_seconds() and receives < MAX_RECEIVES:
        receives += 1
        waited += min(receive_floor(receives), outage_floor(receives))
    return receives


def minimum_max_receive_count(*, retention: timedelta, max_attempts: int) -> int:
    """
    Give the smallest maxReceiveCount that yields, outages and failed attempts together cannot reach.

    Args:
        retention: How long the queue keeps a message.
        max_attempts: Failed attempts before the consumer dead-letters a message; each costs a receive too.

    Returns:
        The count, at most 1,000, the maximum of SQS.

    """
    return min(MAX_RECEIVES, receives_within(retention) + max_attempts)
