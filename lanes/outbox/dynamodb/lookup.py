"""A lookup of one outbox entry by the id and group of its message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.aws.errors import aws_errors
from lanes.outbox.dynamodb.item import entry_of, partition_of, text

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from lanes.outbox.entry import Entry


class OutboxLookup:
    """Finds entries by key, without a scan of the table; raises `AwsError`."""

    def __init__(self, *, table: str, client: DynamoDBClient) -> None:
        self._table = table
        self._client = client

    def find(self, entry_id: str, *, group: str) -> Entry | None:
        """Return an entry by its id: one without a group, or one of this group."""
        # The sort key begins with the time of writing, which the caller does not know, so the partition is read.
        for partition in dict.fromkeys([partition_of(entry_id, None), partition_of(entry_id, group or None)]):
            with aws_errors("Query"):
                pages = self._client.get_paginator("query").paginate(
                    TableName=self._table,
                    KeyConditionExpression="pk = :pk",
                    FilterExpression="#id = :id",
                    ExpressionAttributeNames={"#id": "id"},
                    ExpressionAttributeValues={":pk": text(partition), ":id": text(entry_id)},
                )
                for page in pages:
                    if page["Items"]:
                        return entry_of(page["Items"][0])
        return None
