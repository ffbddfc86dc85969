"""The deployed stack of `lanes probe run`: its queues and the events in its table."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors
from lanes.errors import AwsError
from lanes.fault_codes import may_pass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient

# AWS: a batch call has at most 10 entries (API_SendMessageBatch).
LARGEST_BATCH = 10


class ProbeStand:
    """
    Sends to the queues and reads events; every method raises `AwsError`.

    Args:
        queues: URLs by name.
        table: name of the table.
        sqs: client of SQS.
        dynamodb: client of DynamoDB.
    """

    def __init__(
        self, queues: Mapping[str, str], table: str, *, sqs: SQSClient, dynamodb: DynamoDBClient
    ) -> None:
        self._queues = queues
        self._table = table
        self._sqs = sqs
        self._dynamodb = dynamodb

    def url(self, queue: str) -> str:
        """Return the URL of a queue by its name in the stack."""
        return self._queues[queue]

    def send(self, queue: str, messages: Sequence[tuple[str, str]]) -> None:
        """Send groups and bodies, in order."""
        for start in range(0, len(messages), LARGEST_BATCH):
            entries: Any = [
                {
                    "Id": str(number),
                    "MessageGroupId": group,
                    "MessageBody": body,
                    "MessageDeduplicationId": uuid.uuid4().hex,
                }
                for number, (group, body) in enumerate(messages[start : start + LARGEST_BATCH])
            ]
            with aws_errors("SendMessageBatch"):
                answer = self._sqs.send_message_batch(QueueUrl=self._queues[queue], Entries=entries)
            for failed in answer.get("Failed", []):
                raise AwsError(
                    operation="SendMessageBatch",
                    code=failed["Code"],
                    message=failed.get("Message", ""),
                    retryable=may_pass(failed["Code"], sender_fault=failed["SenderFault"]),
                )

    def events(self, run: str) -> list[dict[str, Any]]:
        """Return the events of a run, oldest first."""
        with aws_errors("Query"):
            pages = self._dynamodb.get_paginator("query").paginate(
                TableName=self._table,
                ConsistentRead=True,
                KeyConditionExpression="#run = :run",
                ExpressionAttributeNames={"#run": "run"},
                ExpressionAttributeValues={":run": {"S": run}},
            )
            return [json.loads(item["event"]["S"]) for page in pages for item in page["Items"]]
