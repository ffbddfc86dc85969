"""
What stands in the ledger's table by time, beside the parked records: the audit trail, messages that were cancelled.

Owns the word shelf: a partition of the index of parked records that holds something else. No lane's name begins with a
small letter, and shelves' names do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors
from lanes.aws.ledger import INDEX, sortable

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def latest_on(
    shelf: str, *, client: DynamoDBClient, table: str, since: float, limit: int
) -> list[dict[str, Any]]:
    """
    Return the items of a shelf since a time, the latest first.

    Args:
        shelf: its name.
        client: of DynamoDB.
        table: the ledger's table.
        since: epoch seconds.
        limit: at most so many.

    Raises:
        AwsError: a call failed.
    """
    found: list[dict[str, Any]] = []
    start: dict[str, Any] = {}
    while len(found) < limit:
        with aws_errors("Query"):
            page = client.query(
                TableName=table,
                IndexName=INDEX,
                KeyConditionExpression="parked_lane = :shelf AND parked_until >= :since",
                ExpressionAttributeValues={":shelf": {"S": shelf}, ":since": {"S": sortable(since)}},
                ScanIndexForward=False,
                Limit=limit - len(found),
                **start,
            )
        found += page["Items"]
        if "LastEvaluatedKey" not in page:
            break
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
    return found
