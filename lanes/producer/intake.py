"""
The intake as a Lambda function: it forwards the messages of a queue to the lanes, and rings the bell for them.

Group, deduplication id and body of a message stay as they are, so the lane drops what a repeat forwards again.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lanes.errors import MessageDecodeError
from lanes.message import Message, size_bytes
from lanes.producer.outgoing import Outgoing
from lanes.producer.producer import Producer
from lanes.retries import SILENCE, OutageLog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lanes.producer.report import UnsentMessage

_logger = logging.getLogger(__name__)


class Intake:
    """
    Forwards messages, each to the lane of its priority.

    A body without a priority goes to the lane of NORMAL. So does one that is not a CloudEvents message: the handler for
    raw bodies gets it.

    While a lane takes no messages, the log has the first one that was not forwarded, then one a minute with their
    number.

    Args:
        producer: sends to the lanes; by default that of the function's environment.
        clock: returns the time in epoch seconds.
    """

    def __init__(self, producer: Producer | None = None, *, clock: Callable[[], float] = time.time) -> None:
        self._producer = producer
        self._clock = clock
        self._outages = OutageLog(over_after=SILENCE)

    def handle(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """
        Forward the messages of one event, and answer which of them stay in the queue.

        After a message that was not sent, the later ones of its group and lane stay too.

        Raises:
            ConfigurationError: LANES_DEPLOYMENT is missing or invalid; all messages stay.
        """
        self._producer = self._producer or Producer.from_env()
        items = [_item(index, record) for index, record in enumerate(event["Records"])]
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


def _item(index: int, record: Mapping[str, Any]) -> Outgoing:
    body, attributes = record["body"], record["attributes"]
    try:
        message = Message.from_body(body)
    except MessageDecodeError:
        # Sent on as it is: handlers for raw bodies exist, and the intake cannot know of them.
        message = Message(kind="")
    forwarded = replace(
        message,
        # Names the message in the answer; the event's own id is in the body.
        id=record["messageId"],
        group=attributes["MessageGroupId"],
        deduplication_id=attributes["MessageDeduplicationId"],
    )
    return Outgoing(index=index, message=forwarded, body=body, size_bytes=size_bytes(body))
