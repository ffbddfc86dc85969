"""Sends batches to SQS, and rings the bell for them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lanes.aws.bell import SenderBell, date_of, sender_bell
from lanes.aws.errors import aws_errors
from lanes.encoding import sendable_trace
from lanes.fault_codes import may_pass
from lanes.message import CLAIMED_AT, RUN
from lanes.producer.outgoing import Accepted, Refused, SendEntry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import MessageAttributeValueTypeDef, SendMessageBatchRequestEntryTypeDef

    from lanes.config.deployment import Deployment


class SqsSender:
    """
    Sends batches through one client, which threads may share.

    Args:
        client: client of SQS.
        bell: rung for accepted messages; by default none is.
    """

    def __init__(self, client: SQSClient, bell: SenderBell | None = None) -> None:
        self._client = client
        self._bell = bell or SenderBell()

    @classmethod
    def to_lanes(cls, deployment: Deployment, client: SQSClient) -> SqsSender:
        """Return a sender for the lanes of a deployment, with their bell if they have one."""
        return cls(client, sender_bell(deployment, client))

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
        # Before the refusals are read: messages that arrived need a slot in any case.
        if answers:
            self._bell.answered(queue_url, date_of(answer), messages=len(answers))
        for failed in answer.get("Failed", []):
            code = failed["Code"]
            answers[failed["Id"]] = Refused(
                code=code,
                reason=failed.get("Message", ""),
                retryable=may_pass(code, sender_fault=failed["SenderFault"]),
            )
        return answers


def _entry(entry: SendEntry) -> SendMessageBatchRequestEntryTypeDef:
    wire: SendMessageBatchRequestEntryTypeDef = {
        "Id": entry.entry_id,
        "MessageBody": entry.body,
        "MessageGroupId": entry.message_group_id,
        "MessageDeduplicationId": entry.message_deduplication_id,
    }
    attributes: dict[str, MessageAttributeValueTypeDef] = dict(entry.attributes or ())
    if entry.claimed_at is not None:
        claimed_at = str(math.floor(entry.claimed_at * 1000))
        attributes[CLAIMED_AT] = {"DataType": "Number", "StringValue": claimed_at}
    if entry.run:
        attributes[RUN] = {"DataType": "String", "StringValue": entry.run}
    if attributes:
        wire["MessageAttributes"] = attributes
    wire.update(sendable_trace(entry.trace_header))
    return wire
