"""
Items of the consumer's table: their attributes, reads and writes in batches, and those that are found by time.

Items by time, such as the audit trail, are in the index of parked records, each kind in a partition of its own. A
lane's name never begins with a small letter, and the names of these partitions do. The consumer may write any attribute
of its own items, but no key of another kind, so an item counts only with the key of its partition.

Attributes are read as an earlier or a later release may have written them: one that is missing, or of another type,
has its empty value (docs/reference/formats.md).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors
from lanes.errors import AwsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

# AWS: BatchGetItem reads 100 items, BatchWriteItem writes 25 (DynamoDB API reference).
MAX_READ, MAX_WRITTEN = 100, 25
# botocore repeats a throttled call by itself; items that three calls leave over are left to the caller's own retry.
TRIES = 3
INDEX = "parked"
CONDITION_FAILED = "ConditionalCheckFailedException"


def sortable(moment: float) -> str:
    """Return epoch seconds as text that sorts by time."""
    return f"{moment:015.3f}"


def text_in(item: Mapping[str, Any], name: str) -> str:
    """Return the text of an attribute; empty without one."""
    return str(item.get(name, {}).get("S", ""))


def number_in(item: Mapping[str, Any], name: str, *, default: float = 0.0) -> float:
    """Return the number of an attribute, or the default."""
    return float(item.get(name, {}).get("N", default))


def flag_in(item: Mapping[str, Any], name: str) -> bool:
    """Whether an attribute is true."""
    return bool(item.get(name, {}).get("BOOL", False))


def key_parts(item: Mapping[str, Any], count: int = 3) -> list[str]:
    """Return the parts of an item's key, such as `message#LANE#ID`; the last one may contain the separator."""
    return str(item["pk"]["S"]).split("#", count - 1)


def read_items(client: DynamoDBClient, table: str, keys: Sequence[Any], **shown: Any) -> list[Any]:
    """Return the items that exist, whole or with the attributes of `shown`, in consistent reads; raises `AwsError`."""
    found: list[Any] = []
    for start in range(0, len(keys), MAX_READ):
        pending = list(keys[start : start + MAX_READ])
        for _ in range(TRIES):
            # Consistent, since another environment may have written the entry a moment ago.
            request: Any = {"Keys": pending, "ConsistentRead": True, **shown}
            with aws_errors("BatchGetItem"):
                answer = client.batch_get_item(RequestItems={table: request})
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


def pages_of(operation: str, call: Callable[..., Any], **parameters: Any) -> Iterator[Any]:
    """Yield the pages of a Query or a Scan, each read when it is asked for; raises `AwsError`."""
    while True:
        with aws_errors(operation):
            page = call(**parameters)
        yield page
        if "LastEvaluatedKey" not in page:
            return
        parameters["ExclusiveStartKey"] = page["LastEvaluatedKey"]


def query_pages(client: DynamoDBClient, **query: Any) -> Iterator[Any]:
    """Yield the pages of a query of the index, as many as you take; raises `AwsError`."""
    return pages_of("Query", client.query, IndexName=INDEX, **query)


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
    pages = query_pages(
        client,
        TableName=table,
        KeyConditionExpression="parked_lane = :partition AND parked_until >= :since",
        ExpressionAttributeValues={":partition": {"S": partition}, ":since": {"S": sortable(since)}},
        ScanIndexForward=False,
        Limit=limit,
    )
    items = (item for page in pages for item in page["Items"])
    return list(islice((one for one in items if text_in(one, "pk").startswith(f"{partition}#")), limit))
