"""The plain pattern: check the higher queues before each record."""

import json
import os
import time
from collections.abc import Mapping
from typing import Any

import boto3

ATTRIBUTES = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
HIGHER = json.loads(os.environ["HIGHER"])
"""The URLs of higher queues by queue ARN."""

sqs = boto3.client("sqs")


class PriorityMessageAvailableError(Exception):
    """Raised if a higher queue has a message in any state."""


def lambda_handler(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    """Handle a batch and return the records to keep."""
    returned = []
    for record in event["Records"]:
        try:
            process(record)
        except PriorityMessageAvailableError:
            print("yields", json.loads(record["body"])["lane"])  # noqa: T201 - the log
            returned.append(record["messageId"])
    return {"batchItemFailures": [{"itemIdentifier": one} for one in returned]}


def process(record: Mapping[str, Any]) -> None:
    """Handle the record unless a higher queue has messages."""
    for url in HIGHER[record["eventSourceARN"]]:
        counts = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=ATTRIBUTES)["Attributes"]
        if any(int(count) for count in counts.values()):
            raise PriorityMessageAvailableError
    message = json.loads(record["body"])
    time.sleep(message["seconds"])
    print("done", message["lane"], message["number"])  # noqa: T201 - the log
