"""
Messages for later: each is a one-time schedule of EventBridge Scheduler, which sends it when it is due.

The name of the schedule comes from the message's identity, so a message that is scheduled twice is sent once.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from lanes.errors import AwsError, MessageTooLargeError
from lanes.message import RUN
from lanes.producer.report import SendReport, SentMessage, UnsentMessage
from lanes.schedule_times import at_expression, at_time
from lanes.scheduled import LARGEST_INPUT_BYTES, later_name, target_input

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.config.deployment import Deployment
    from lanes.producer.outgoing import Outgoing

LATEST = timedelta(days=366)
"""Beyond it a time is a mistake rather than a plan, and a message outlives the code that understands it."""
LATEST_OF_RUN = timedelta(days=30)
"""For a member of a run, whose record is kept for 45 days."""
NO_SCHEDULER = (
    "not_before needs EventBridge Scheduler, and this deployment has none: write scheduler = true in lanes.toml and "
    "deploy, or use an outbox, which needs none"
)


class Later(Protocol):
    """Creates one-time schedules; shared by threads."""

    def create(self, name: str, *, expression: str, target: str) -> str:
        """
        Create a schedule that is deleted once it has sent its message, and return its expression.

        One of this name that exists is left alone, and its expression is returned.

        Args:
            name: of the schedule.
            expression: its time, in UTC.
            target: parameters of SendMessage, as JSON.

        Raises:
            AwsError: the call failed.
        """


def call_of(item: Outgoing, deployment: Deployment) -> str:
    """
    Return the parameters of SendMessage for a message, as JSON.

    Raises:
        MessageTooLargeError: they are larger than Scheduler takes.
    """
    message = item.message
    call = json.dumps(
        target_input(
            deployment.queues[deployment.config.lane_for(message.priority or 0).name].url,
            item.body,
            message.message_group_id,
            message.message_deduplication_id,
            {RUN: item.run} if item.run else {},
        ),
        ensure_ascii=False,
        separators=(",", ":"),
    )
    size = len(call.encode())
    if size > LARGEST_INPUT_BYTES:
        raise MessageTooLargeError(size_bytes=size, limit_bytes=LARGEST_INPUT_BYTES)
    return call


def schedule(
    items: Sequence[Outgoing], *, at: float, deployment: Deployment, later: Later, concurrency: int
) -> SendReport:
    """
    Schedule messages, and report each; the order of a group is that in which they become due.

    Args:
        items: the messages.
        at: epoch seconds before which none is sent.
        deployment: the lanes.
        later: creates the schedules.
        concurrency: maximum number of calls in flight.
    """
    expression = at_expression(datetime.fromtimestamp(at, UTC))

    def create(item: Outgoing) -> SentMessage | AwsError:
        name = later_name(item.message.identity)
        try:
            held = later.create(name, expression=expression, target=call_of(item, deployment))
        except AwsError as error:
            return error
        lane = deployment.config.lane_for(item.message.priority or 0).name
        return SentMessage(
            id=item.message.id, lane=lane, message_id="", sequence_number="", not_before=at_time(held)
        )

    if concurrency == 1:
        answers = [create(item) for item in items]
    else:
        with ThreadPoolExecutor(concurrency, thread_name_prefix="lanes-later") as executor:
            answers = list(executor.map(create, items))
    errors = [(item, one) for item, one in zip(items, answers, strict=True) if isinstance(one, AwsError)]
    return SendReport(
        sent=[one for one in answers if isinstance(one, SentMessage)],
        unsent=[_unsent(item, error, deployment) for item, error in errors],
        cause=errors[0][1] if errors else None,
    )


def _unsent(item: Outgoing, error: AwsError, deployment: Deployment) -> UnsentMessage:
    return UnsentMessage(
        message=item.message,
        lane=deployment.config.lane_for(item.message.priority or 0).name,
        reason=str(error),
        code=error.code,
        maybe_sent=not error.answered,
    )
