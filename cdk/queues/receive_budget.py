"""
The receive budget: the smallest maxReceiveCount that yields cannot reach.

SQS counts every receive, also those that end in a yield. The consumer parks a yielded message for at least
``0.004 * receives ** 2`` seconds, so a message spends receives ever more slowly.
"""

from datetime import timedelta

from lanes.config import MAX_RECEIVES
from lanes.consumer.outcome import receive_floor


def receives_by_yields(*, retention: timedelta, yield_delay_min: timedelta) -> int:
    """
    Count the receives that yields alone can cost a message within its retention.

    The delays of ``n`` yields add up to about ``0.004 * n ** 3 / 3`` seconds: two weeks are 968 yields, four
    days 637.

    Args:
        retention: How long the queue keeps a message.
        yield_delay_min: The shortest yield delay of the lane; it applies until the growing delay exceeds it.

    Returns:
        The number of receives, at most 1,000.

    """
    waited = timedelta()
    receives = 0
    while waited < retention and receives < MAX_RECEIVES:
        receives += 1
        waited += max(yield_delay_min, timedelta(seconds=receive_floor(receives)))
    return receives


def minimum_max_receive_count(*, retention: timedelta, yield_delay_min: timedelta, max_attempts: int) -> int:
    """
    Give the smallest maxReceiveCount that yields and failed attempts together cannot reach.

    Args:
        retention: How long the queue keeps a message.
        yield_delay_min: The shortest yield delay of the lane.
        max_attempts: Failed attempts before the consumer dead-letters a message; each costs a receive too.

    Returns:
        The count, at most 1,000, the maximum of SQS.

    """
    yields = receives_by_yields(retention=retention, yield_delay_min=yield_delay_min)
    return min(MAX_RECEIVES, yields + max_attempts)
