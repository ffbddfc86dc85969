"""
Messages for later: each is a one-time schedule of EventBridge Scheduler, which sends it when it is due.

The name of the schedule comes from the message's identity, so a message that is scheduled twice is sent once.
"""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from lanes.errors import AwsError
from lanes.fault_codes import Cause, cause_of
from lanes.message import RUN, Message
from lanes.producer.outgoing import Accepted, Refused
from lanes.schedules import at_expression, at_time, later_name, target_input, without_places

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lanes.producer.outgoing import SendEntry, SentMessage

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


class LaterSender:
    """
    A `BatchSender` that schedules messages for one time in place of sending them.

    Args:
        later: creates the schedules.
        at: epoch seconds before which no message is sent.
    """

    def __init__(self, later: Later, *, at: float) -> None:
        self._later = later
        self._expression = at_expression(datetime.fromtimestamp(at, UTC))
        self._held: dict[str, str] = {}

    def send_batch(self, queue_url: str, entries: Sequence[SendEntry]) -> Mapping[str, Accepted | Refused]:
        """Schedule up to ten messages; a fault of all of them, such as a missing right, fails the call."""
        answers: dict[str, Accepted | Refused] = {}
        for entry in entries:
            name = later_name(Message.from_body(entry.body).identity)
            try:
                self._held[name] = self._later.create(
                    name, expression=self._expression, target=call_of(queue_url, entry)
                )
            except AwsError as error:
                if not error.retryable and cause_of(error.code) is not Cause.OTHER and not answers:
                    raise
                # Without an answer of AWS there is none here either: it may have been scheduled.
                if error.answered:
                    answers[entry.entry_id] = Refused(
                        code=error.code, reason=str(error), retryable=error.retryable
                    )
            else:
                answers[entry.entry_id] = Accepted(message_id=name, sequence_number="")
        return answers

    def with_times(self, sent: Sequence[SentMessage]) -> list[SentMessage]:
        """Return the scheduled messages with their times; they have no ids of SQS."""
        return [
            dataclasses.replace(one, message_id="", not_before=at_time(self._held[one.message_id]))
            for one in sent
        ]


def call_of(queue_url: str, entry: SendEntry) -> str:
    """Return the parameters of SendMessage for a message, as JSON."""
    call = target_input(
        queue_url,
        entry.body,
        entry.message_group_id,
        entry.message_deduplication_id,
        {RUN: entry.run} if entry.run else {},
    )
    return without_places(json.dumps(call, ensure_ascii=False, separators=(",", ":")))
