"""
Messages that EventBridge Scheduler sends to a lane: the periodic ones of `[[schedules]]`, and those for later.

Owns the words schedule, occurrence and scheduled message. Pure; `lanes.aws.scheduler` makes the calls.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lanes.encoding import encoded
from lanes.message import OVERLAP, JsonText, Message
from lanes.schedule_times import cron_expression, rate_expression

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lanes.config.settings import Schedule

SOURCE = "schedules"
"""Source of the messages of all schedules."""
SCHEDULED_TIME = "<aws.scheduler.scheduled-time>"
"""
Scheduler puts its time here, such as 2026-11-28T03:00:00Z.

# AWS: "Adding context attributes" (EventBridge Scheduler User Guide).
"""
PLACE = "<aws.scheduler."
"""Beginning of the places that Scheduler fills in, wherever a target's input has one."""
PERIODIC, LATER = "s-", "m-"
"""Beginnings of the names of schedules, and of messages for later."""
SEND_MESSAGE = "scheduler:::aws-sdk:sqs:sendMessage"
"""
Scheduler's universal target for SQS, without `arn:` and the partition.

# AWS: its templated target for SQS takes a group and no deduplication id (Scheduler API, "SqsParameters").
"""
LARGEST_INPUT_BYTES = 256 * 1024
"""# AWS: the quota of a target's input (EventBridge Scheduler, CreateSchedule)."""
DIGITS = 32
"""Hexadecimal digits of a hash in a name: enough that no two messages share one, and short enough to type."""
_UNSET = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduler:
    """
    The parts of EventBridge Scheduler in a stack.

    Attributes:
        group: name of its schedule group.
        role_arn: role that sends to the lanes.
        role_id: its id, by which the consumer knows its messages.
        dead_letter_arn: queue for messages that could not be sent.
        key_arn: your key for the messages, or None for one of AWS.
    """

    group: str
    role_arn: str
    role_id: str
    dead_letter_arn: str
    key_arn: str | None = None


def expression_of(schedule: Schedule) -> str:
    """Return the expression of a schedule."""
    if schedule.every is not None:
        return rate_expression(schedule.every)
    return cron_expression(schedule.cron or "")


def occurrence(schedule: Schedule, queue_url: str) -> dict[str, Any]:
    """
    Return the input of a schedule's target: each message is named by its schedule and its scheduled time.

    Args:
        schedule: the schedule.
        queue_url: of the lane's queue.
    """
    message = Message(
        kind=schedule.kind,
        data=JsonText(without_places(encoded(schedule.data))),
        id=f"{schedule.name}@{SCHEDULED_TIME}",
        source=SOURCE,
        group=schedule.message_group_id,
        priority=schedule.priority,
        time=_UNSET,
    )
    body = message.to_body().replace(f'"time":"{_UNSET.isoformat()}"', f'"time":"{SCHEDULED_TIME}"', 1)
    attributes = {OVERLAP: str(schedule.overlap)} if schedule.overlap != "queue" else {}
    # Not hashed: the reader of the configuration refuses names that are too long.
    return target_input(queue_url, body, message.message_group_id, message.identity, attributes)


def without_places(text: str) -> str:
    """Return JSON of the same meaning without places for Scheduler, which would change a value that looks like one."""
    return text.replace(PLACE, PLACE.replace("<", "\\u003c"))


def target_input(
    queue_url: str, body: str, group: str, deduplication_id: str, attributes: Mapping[str, str]
) -> dict[str, Any]:
    """Return the parameters of SendMessage for Scheduler's universal target."""
    return {
        "QueueUrl": queue_url,
        "MessageBody": body,
        "MessageGroupId": group,
        "MessageDeduplicationId": deduplication_id,
        **(
            {
                "MessageAttributes": {
                    name: {"DataType": "String", "StringValue": value} for name, value in attributes.items()
                }
            }
            if attributes
            else {}
        ),
    }


def later_name(identity: str) -> str:
    """Return the name of a message for later: the same for the same message."""
    return f"{LATER}{hashlib.sha256(identity.encode()).hexdigest()[:DIGITS]}"
