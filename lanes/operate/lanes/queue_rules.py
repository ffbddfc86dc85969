"""The rules of a check for the queues of the lanes: those of the stack, and those that it only uses."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

from lanes.config import MAX_RECEIVES
from lanes.consumer.outcome import outage_floor, receive_floor
from lanes.operate.lanes.check_rules import DEPLOY, Problem, Problems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lanes.config import Lane

OWNER = "change it where the queue is defined; the stack only uses it"
GONE = (
    "restore it where it was defined, or correct `existing` or `dead_letter_queues` of LaneQueues and deploy"
)
SECONDS_OF_A_DAY = 86_400


def queue_problems(queue: Mapping[str, str]) -> Problems:
    """Compare a queue of the stack with the requirements of every lane."""
    wanted = {
        "FifoQueue": "true",
        # AWS: high throughput needs both (SQS quotas of messages). Without it a queue takes 300 calls a second of
        # each kind.
        "DeduplicationScope": "messageGroup",
        "FifoThroughputLimit": "perMessageGroupId",
        # Equal bodies are two messages: the id comes from the event (docs/decisions.md#kinds-and-cloudevents).
        "ContentBasedDeduplication": "false",
    }
    problems = [
        Problem("queue_setting", f"{name} is {queue.get(name, 'not set')}; it must be {value}", DEPLOY)
        for name, value in wanted.items()
        if queue.get(name, "false") != value
    ]
    return problems + encryption_problems(queue, DEPLOY)


def existing_queue_problems(queue: Mapping[str, str]) -> Problems:
    """Compare a queue that the stack does not define with the needs of every lane."""
    problems = []
    if queue.get("FifoQueue") != "true":
        problems.append(Problem("queue_setting", "it is a standard queue; a lane needs FIFO queues", OWNER))
    return problems + encryption_problems(queue, OWNER)


def existing_queue_notes(queue: Mapping[str, str]) -> list[str]:
    """Return what the settings of such a queue mean for its lane."""
    notes = []
    if queue.get("ContentBasedDeduplication") == "true":
        text = "of equal bodies from senders that set no deduplication id, SQS drops all but one within five minutes"
        notes.append(f"ContentBasedDeduplication is true: {text}")
    if queue.get("FifoThroughputLimit") != "perMessageGroupId":
        notes.append("FifoThroughputLimit is perQueue: it takes 300 calls a second of each kind")
    return notes


def encryption_problems(queue: Mapping[str, str], advice: str) -> Problems:
    """Return whether a queue is not encrypted."""
    if queue.get("SqsManagedSseEnabled") == "true" or queue.get("KmsMasterKeyId"):
        return []
    return [Problem("not_encrypted", "it is not encrypted", advice)]


def visibility_problems(lane: Lane, queue: Mapping[str, str]) -> Problems:
    """Compare the visibility timeout of a queue of the stack with the lane's."""
    seconds, wanted = int(queue.get("VisibilityTimeout", 0)), lane.visibility_timeout.total_seconds()
    if seconds == wanted:
        return []
    text = f"visibility timeout is {seconds} s, {wanted:g} s was deployed"
    return [Problem("visibility_timeout_differs", text, DEPLOY)]


def existing_visibility_problems(lane: Lane, queue: Mapping[str, str]) -> Problems:
    """Compare the visibility timeout of a queue that the stack does not define with the lane's: longer is fine."""
    seconds, wanted = int(queue.get("VisibilityTimeout", 0)), lane.visibility_timeout.total_seconds()
    if seconds >= wanted:
        return []
    text = f"visibility timeout is {seconds} s, below the lane's {wanted:g} s: a batch could come twice"
    advice = f"set at least {wanted:g} s where the queue is defined, or shorten function_timeout"
    return [Problem("visibility_timeout_short", text, advice)]


def dead_letter_problems(
    queue: Mapping[str, str], dead: Mapping[str, str], *, max_attempts: int, advice: str
) -> Problems:
    """Compare a dead-letter queue with the lane's queue, if that is known."""
    if not queue:
        return []
    policy = json.loads(queue.get("RedrivePolicy", "{}"))
    most, keeps = int(policy.get("maxReceiveCount", 0)), int(queue.get("MessageRetentionPeriod", 0))
    # Fewer would dead-letter messages that only yielded, were throttled or waited for a resource.
    least = minimum_max_receive_count(retention=timedelta(seconds=keeps), max_attempts=max_attempts)
    problems = []
    if policy.get("deadLetterTargetArn") != dead.get("QueueArn"):
        text = "the lane's queue does not name it as its dead-letter queue"
        problems.append(Problem("dead_letter_queue_unused", text, advice))
    elif most < least:
        text = f"SQS moves messages there after {most} receives, yields included; it must be {least} or more"
        problems.append(Problem("few_receives", text, advice))
    return problems + retention_problems(queue, dead, of="the lane's queue", advice=advice)


def retention_problems(
    queue: Mapping[str, str], dead: Mapping[str, str], *, of: str, advice: str
) -> Problems:
    """Return whether a dead-letter queue keeps messages for less time than its queue."""
    if int(dead.get("MessageRetentionPeriod", 0)) >= int(queue.get("MessageRetentionPeriod", 0)):
        return []
    return [Problem("short_retention", f"it keeps {kept_for(dead)}, {of} {kept_for(queue)}", advice)]


def kept_for(queue: Mapping[str, str]) -> str:
    """Describe a queue's retention."""
    days = int(queue.get("MessageRetentionPeriod", 0)) / SECONDS_OF_A_DAY
    return f"messages {days:g} days"


def receives_within(retention: timedelta) -> int:
    """
    Count the receives that yields and outages can cost a message within its retention, at most 1,000.

    SQS counts every receive, also those that end in a yield. The consumer keeps a message away for longer the more
    often it was received, so a message spends receives ever more slowly.

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
