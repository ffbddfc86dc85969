"""Read and write items of the consumer's table in batches, repeating what DynamoDB leaves unprocessed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors
from lanes.errors import AwsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

# AWS: BatchGetItem reads 100 items, BatchWriteItem writes 25 (DynamoDB API reference).
MAX_READ, MAX_WRITTEN = 100, 25
# botocore repeats a throttled call by itself; items that three calls leave over are left to the caller's own retry.
TRIES = 3


def read_items(client: DynamoDBClient, table: str, keys: Sequence[Any]) -> list[Any]:
    """Return the items that exist, each in a consistent read; raises `AwsError`."""
    found: list[Any] = []
    for start in range(0, len(keys), MAX_READ):
        pending = list(keys[start : start + MAX_READ])
        for _ in range(TRIES):
            with aws_errors("BatchGetItem"):
                answer = client.batch_get_item(
                    # Consistent, since another environment may have written the entry a moment ago.
                    RequestItems={table: {"Keys": pending, "ConsistentRead": True}}
                )
            found += answer["Responses"].get(table, [])
            unread: Any = answer.get("UnprocessedKeys", {})
            pending = unread.get(table, {}).get("Keys", [])
            if not pending:
                break
        if pending:
            raise AwsError(operation="BatchGetItem", code="UnprocessedKeys", retryable=True)
    return found


def write_items(client: DynamoDBClient, table: str, items: Sequence[Any]) -> None:
    """Write whole items; raises `AwsError`, after which some of them may be written."""
    for start in range(0, len(items), MAX_WRITTEN):
        pending: Any = [{"PutRequest": {"Item": item}} for item in items[start : start + MAX_WRITTEN]]
        for _ in range(TRIES):
            with aws_errors("BatchWriteItem"):
                answer = client.batch_write_item(RequestItems={table: pending})
            pending = answer.get("UnprocessedItems", {}).get(table, [])
            if not pending:
                break
        if pending:
            raise AwsError(operation="BatchWriteItem", code="UnprocessedItems", retryable=True)
