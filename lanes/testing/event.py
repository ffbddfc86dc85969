"""The Lambda event of a batch, as an event source mapping sends it, and the context of its invocation."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from lanes.mapping.event import sqs_record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.testing.fifo.message import ReceivedMessage


def _never() -> bool:
    return False


class InvocationContext:
    """
    Lambda's context.

    Args:
        clock: returns the time in epoch seconds.
        seconds: until the function is ended.
        request: the id of the invocation.
        is_cut_short: whether there is no time left already.

    """

    __slots__ = ("_is_cut_short", "aws_request_id", "clock", "deadline")

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        seconds: float,
        request: str,
        is_cut_short: Callable[[], bool] = _never,
    ) -> None:
        self.clock = clock
        self._is_cut_short = is_cut_short
        self.deadline = clock() + seconds
        self.aws_request_id = request

    def get_remaining_time_in_millis(self) -> float:
        """Return the milliseconds until the function is ended."""
        return 0.0 if self._is_cut_short() else max(0.0, self.deadline - self.clock()) * 1000


QUEUE_ARN = "arn:aws:sqs:eu-central-1:123456789012:{}.fifo"


def sqs_event(queue: str, messages: Sequence[ReceivedMessage]) -> dict[str, Any]:
    """
    Return the Lambda event of a batch of a queue.

    AWS: attribute values are text, times milliseconds (Lambda developer guide, "Using Lambda with Amazon SQS").
    """
    return {"Records": [event_entry(queue, message) for message in messages]}


def event_entry(queue: str, message: ReceivedMessage) -> dict[str, Any]:
    """Return a message of a queue as one entry of `Records`."""
    return sqs_record(
        message_id=message.message_id,
        receipt_handle=message.receipt_handle,
        body=message.body,
        md5_of_body=hashlib.md5(message.body.encode(), usedforsecurity=False).hexdigest(),
        attributes=system_attributes(message),
        queue_arn=QUEUE_ARN.format(queue),
        # In a lane, attributes have the form of Lambda's event.
        message_attributes=message.attributes if isinstance(message.attributes, dict) else None,
    )


def system_attributes(message: ReceivedMessage) -> dict[str, str]:
    """Return the attributes that SQS itself gives a message."""
    return {
        "ApproximateReceiveCount": str(message.receive_count),
        "SentTimestamp": str(int(message.sent_at * 1000)),
        "ApproximateFirstReceiveTimestamp": str(int(message.first_received_at * 1000)),
        "MessageGroupId": message.group,
        "MessageDeduplicationId": message.deduplication_id,
        "SequenceNumber": str(message.sequence_number),
    }
