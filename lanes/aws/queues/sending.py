"""Sends batches to SQS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.aws.errors import aws_errors, is_throttle
from lanes.producer.outgoing import Accepted, Refused, SendEntry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import SendMessageBatchRequestEntryTypeDef


class SqsSender:
    """Sends batches through one client, which threads may share."""

    def __init__(self, client: SQSClient) -> None:
        self._client = client

    def send_batch(self, queue_url: str, entries: Sequence[SendEntry]) -> dict[str, Accepted | Refused]:
        """
        Send up to ten entries and give the answers by entry id.

        Raises:
            AwsError: the call as a whole failed.
        """
        with aws_errors("SendMessageBatch"):
            answer = self._client.send_message_batch(
                QueueUrl=queue_url,
                Entries=[_entry(entry) for entry in entries],
            )
        # AWS: a batch may fail in part while its HTTP status is 200 (API_SendMessageBatch).
        answers: dict[str, Accepted | Refused] = {
            sent["Id"]: Accepted(message_id=sent["MessageId"], sequence_number=sent.get("SequenceNumber", ""))
            for sent in answer.get("Successful", [])
        }
        for failed in answer.get("Failed", []):
            answers[failed["Id"]] = Refused(
                code=failed["Code"],
                reason=failed.get("Message", ""),
                retryable=not failed["SenderFault"] or is_throttle(failed["Code"]),
            )
        return answers


def _entry(entry: SendEntry) -> SendMessageBatchRequestEntryTypeDef:
    wire: SendMessageBatchRequestEntryTypeDef = {
        "Id": entry.entry_id,
        "MessageBody": entry.body,
        "MessageGroupId": entry.message_group_id,
        "MessageDeduplicationId": entry.message_deduplication_id,
    }
    if entry.trace_header is not None:
        # AWS: by it X-Ray links the traces of senders to that of the consumer; it counts towards no quota of the
        # message (X-Ray developer guide, "Amazon SQS").
        wire["MessageSystemAttributes"] = {
            "AWSTraceHeader": {"DataType": "String", "StringValue": entry.trace_header}
        }
    return wire
