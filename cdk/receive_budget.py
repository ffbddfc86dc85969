"""
The receive budget: why a queue's own maxReceiveCount is a last resort set far above the attempts.

SQS counts every receive, also those that end in a yield. The consumer hides a yielded message for at least
``0.004 * receives ** 2`` seconds, so the more often a message has yielded the slower it spends receives.
"""

from datetime import timedelta

from lanes.consumer.delays import receive_floor

# AWS: maxReceiveCount is 1 to 1,000 (Amazon SQS Developer Guide, "Configure a dead-letter queue").
MOST_RECEIVES = 1000


def receives_by_yields(*, retention: timedelta, yield_delay_min: timedelta) -> int:
    """
    Count the receives that yields alone can cost a message before its retention ends.

    The delays of ``n`` yields add up to about ``0.004 * n ** 3 / 3`` seconds: two weeks are 968 yields, four
    days 637.

    Args:
        retention: How long the queue keeps a message.
        yield_delay_min: The shortest yield delay of the lane, which holds until the growth overtakes it.

    Returns:
        The number of receives, at most 1,000.

    """
    waited = timedelta()
    receives = 0
    while waited < retention and receives < MOST_RECEIVES:
        receives += 1
        waited += max(yield_delay_min, timedelta(seconds=receive_floor(receives)))
    return receives


def least_max_receive_count(*, retention: timedelta, yield_delay_min: timedelta, max_attempts: int) -> int:
    """
    Give the smallest maxReceiveCount that yields and failed attempts together can't reach.

    Args:
        retention: How long the queue keeps a message.
        yield_delay_min: The shortest yield delay of the lane.
        max_attempts: Failed attempts before the consumer gives a message up; each costs a receive too.

    Returns:
        The count, at most 1,000, which is all that SQS allows.

    """
    yields = receives_by_yields(retention=retention, yield_delay_min=yield_delay_min)
    return min(MOST_RECEIVES, yields + max_attempts)
