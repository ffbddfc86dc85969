"""The Lambda event of a batch, as an event source mapping sends it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from lanes.mapping.event import sqs_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.testing.fifo.message import ReceivedMessage

QUEUE_ARN = "arn:aws:sqs:eu-central-1:123456789012:{}.fifo"


def sqs_event(queue_arn: str, messages: Sequence[ReceivedMessage]) -> dict[str, Any]:
    """
    Return the Lambda event of a batch.

    AWS: attribute values are text, times milliseconds (Lambda developer guide, "Using Lambda with Amazon SQS").
    """
    return {"Records": [event_entry(queue_arn, message) for message in messages]}


def event_entry(queue_arn: str, message: ReceivedMessage) -> dict[str, Any]:
    """Return a message as one entry of `Records`."""
    return sqs_record(
        message_id=message.message_id,
        receipt_handle=message.receipt_handle,
        body=message.body,
        md5_of_body=hashlib.md5(message.body.encode(), usedforsecurity=False).hexdigest(),
        attributes={
            "ApproximateReceiveCount": str(message.receive_count),
            "SentTimestamp": str(int(message.sent_at * 1000)),
            "ApproximateFirstReceiveTimestamp": str(int(message.first_received_at * 1000)),
            "MessageGroupId": message.group,
            "MessageDeduplicationId": message.deduplication_id,
            "SequenceNumber": str(message.sequence_number),
        },
        queue_arn=queue_arn,
        # In a lane, attributes have the form of Lambda's event.
        message_attributes=message.attributes if isinstance(message.attributes, dict) else None,
    )
