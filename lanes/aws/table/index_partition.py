"""
Items of the ledger's table by time: the audit trail, and the messages that were cancelled.

They are in the index of parked records, each kind in a partition of its own. A lane's name never begins with a small
letter, and the names of these partitions do. The consumer may write any attribute of its own items, but no key of
another kind, so an item counts only with the key of its partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors
from lanes.aws.table.items import text_in
from lanes.aws.table.ledger import INDEX, sortable

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def latest_in(
    partition: str, *, client: DynamoDBClient, table: str, since: float, limit: int
) -> list[dict[str, Any]]:
    """
    Return the items of an index partition since a time, the latest first.

    Args:
        partition: its name.
        client: client of DynamoDB.
        table: the ledger's table.
        since: epoch seconds.
        limit: maximum number of items.

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
                KeyConditionExpression="parked_lane = :partition AND parked_until >= :since",
                ExpressionAttributeValues={":partition": {"S": partition}, ":since": {"S": sortable(since)}},
                ScanIndexForward=False,
                Limit=limit - len(found),
                **start,
            )
        found += [item for item in page["Items"] if text_in(item, "pk").startswith(f"{partition}#")]
        if "LastEvaluatedKey" not in page:
            break
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
    return found
