"""
The intake as a Lambda function: it forwards the messages of a queue to the lanes, and rings the bell for them.

Body and attributes of a message stay as they are. Group and deduplication id do too, or come from declared places of
the body: a repeat has the same ones, so the lane drops what it forwards again.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from lanes.body import TRACE_HEADER, attribute_bytes, path_problem, sendable_attribute, text_at
from lanes.errors import ConfigurationError, MessageDecodeError
from lanes.message import CLAIMED_AT, Message, size_bytes, sqs_id
from lanes.priority import Priority
from lanes.producer.outgoing import Outgoing
from lanes.producer.producer import Producer
from lanes.retries import SILENCE, OutageLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.producer.report import UnsentMessage

_logger = logging.getLogger(__name__)
VARIABLE = "LANES_INTAKE"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeRules:
    """
    Where the messages of senders that know nothing of lanes have their group, id and priority.

    Paths are keys of a JSON body and positions in its lists, joined by dots, such as `Records.0.s3.object.key`.

    Attributes:
        group_by: path of the group; without one, or where a body has nothing there, it is the group that the sender
            gave, and a group for the message alone in a standard queue.
        id_by: path of the deduplication id; else it is that of the sender, and in a standard queue that of a
            CloudEvents message or the message's id at SQS.
        priority: of bodies without one; it selects the lane.

    Raises:
        ConfigurationError: a path or the priority is invalid.
    """

    group_by: str | None = None
    id_by: str | None = None
    priority: int = Priority.NORMAL

    def __post_init__(self) -> None:
        """Check the values."""
        paths = [("group_by", self.group_by), ("id_by", self.id_by)]
        problems = [
            f"{name}: {problem}"
            for name, path in paths
            if path is not None and (problem := path_problem(path))
        ]
        if isinstance(self.priority, bool) or not isinstance(self.priority, int):
            problems.append(f"priority is {self.priority!r}; it must be an int")
        if problems:
            raise ConfigurationError(problems, source="intake")

    def to_json(self) -> str:
        """Write them for the function's environment."""
        return json.dumps(asdict(self) | {"priority": int(self.priority)}, separators=(",", ":"))

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> IntakeRules:
        """
        Read them from the variable LANES_INTAKE; without it they are the default ones.

        Raises:
            ConfigurationError: the variable is invalid.
        """
        text = (os.environ if environ is None else environ).get(VARIABLE)
        try:
            return cls(**json.loads(text or "{}"))
        except (TypeError, ValueError) as error:
            raise ConfigurationError([f"not the rules of an intake: {error}"], source=VARIABLE) from error


class Intake:
    """
    Forwards messages, each to the lane of its priority.

    A body without a priority goes to the lane of that of the rules, NORMAL by default. So does one that is not a
    CloudEvents message: your decoder or the handler for raw bodies gets it.

    While a lane takes no messages, the log has the first one that was not forwarded, then one a minute with their
    number.

    Args:
        producer: sends to the lanes; by default that of the function's environment.
        rules: by default those of the function's environment.
        clock: returns the time in epoch seconds.
    """

    def __init__(
        self,
        producer: Producer | None = None,
        *,
        rules: IntakeRules | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._producer = producer
        self._rules = rules
        self._clock = clock
        self._outages = OutageLog(over_after=SILENCE)

    def handle(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """
        Forward the messages of one event, and answer which of them stay in the queue.

        After a message that was not sent, the later ones of its group and lane stay too.

        Raises:
            ConfigurationError: LANES_DEPLOYMENT is missing, or this or LANES_INTAKE is invalid, or the event is not of
                an SQS mapping; all messages stay.
        """
        records = event.get("Records") if isinstance(event, Mapping) else None
        if not isinstance(records, list) or not all(map(_is_of_sqs, records)):
            problem = (
                "the event is not a batch of SQS records; let the sender send to the queue of the intake, and map only "
                "that to its function"
            )
            raise ConfigurationError([problem], source="event of the intake")
        self._producer = self._producer or Producer.from_env()
        rules = self._rules = self._rules or IntakeRules.from_env()
        items = [_item(index, record, rules) for index, record in enumerate(records)]
        report = self._producer.forward(items)
        for unsent in report.unsent:
            self._report(unsent)
        return {"batchItemFailures": [{"itemIdentifier": unsent.message.id} for unsent in report.unsent]}

    def _report(self, unsent: UnsentMessage) -> None:
        if unsent.is_own_fault:
            _logger.warning("message %s was not forwarded: %s", unsent.message.id, unsent.reason)
            return
        outage = self._outages.failed(
            unsent.lane, cause=unsent.code, reason=unsent.reason, now=self._clock(), error=None
        )
        if outage is not None:
            _logger.warning(
                "message %s was not forwarded: %s (messages to %s not forwarded until now: %d)",
                unsent.message.id,
                unsent.reason,
                unsent.lane,
                outage.failures,
            )


def _is_of_sqs(record: object) -> bool:
    return isinstance(record, Mapping) and record.get("eventSource") == "aws:sqs"


def _item(index: int, record: Mapping[str, Any], rules: IntakeRules) -> Outgoing:
    body, attributes, message_id = record["body"], record["attributes"], record["messageId"]
    try:
        message = Message.from_body(body)
        own_id = message.message_deduplication_id
    except MessageDecodeError:
        # Sent on as it is: handlers for raw bodies exist, and the intake cannot know of them.
        message, own_id = Message(kind=""), message_id
    group = rules.group_by and text_at(body, rules.group_by)
    deduplication_id = rules.id_by and text_at(body, rules.id_by)
    forwarded = replace(
        message,
        # Names the message in the answer; the event's own id is in the body.
        id=message_id,
        priority=rules.priority if message.priority is None else message.priority,
        # A standard queue has neither, or a group for fair queues.
        group=sqs_id(group) if group else attributes.get("MessageGroupId", message_id),
        deduplication_id=sqs_id(deduplication_id)
        if deduplication_id
        else attributes.get("MessageDeduplicationId", own_id),
    )
    kept = {
        name: sendable_attribute(value)
        for name, value in record.get("messageAttributes", {}).items()
        # The mark of a relay is about its own sending.
        if name != CLAIMED_AT
    }
    size = size_bytes(body) + sum(attribute_bytes(*named) for named in kept.items())
    return Outgoing(
        index=index,
        message=forwarded,
        body=body,
        size_bytes=size,
        attributes=kept,
        trace_header=attributes.get(TRACE_HEADER),
    )
