"""The Lambda event of a batch, as an event source mapping sends it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.testing.fifo.message import ReceivedMessage


def sqs_event(queue_arn: str, messages: Sequence[ReceivedMessage]) -> dict[str, Any]:
    """
    Return the Lambda event of a batch.

    AWS: attribute values are text, times milliseconds (Lambda developer guide, "Using Lambda with Amazon SQS").
    """
    return {
        "Records": [
            {
                "messageId": message.message_id,
                "receiptHandle": message.receipt_handle,
                "body": message.body,
                "attributes": {
                    "ApproximateReceiveCount": str(message.receive_count),
                    "SentTimestamp": str(int(message.sent_at * 1000)),
                    "ApproximateFirstReceiveTimestamp": str(int(message.first_received_at * 1000)),
                    "MessageGroupId": message.group,
                    "MessageDeduplicationId": message.deduplication_id,
                    "SequenceNumber": str(message.sequence_number),
                },
                "messageAttributes": {},
                "eventSource": "aws:sqs",
                "eventSourceARN": queue_arn,
                "awsRegion": queue_arn.split(":")[3],
            }
            for message in messages
        ]
    }
