"""
Paused lanes as one item of the ledger's table, with a set of their names.

The item does not expire, so a later deploy leaves its lanes paused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.aws.errors import aws_errors

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

KEY = {"pk": {"S": "pauses"}}


class DynamoDBPauses:
    """The paused lanes of one deployment; every method raises `AwsError`."""

    def __init__(self, *, table: str, client: DynamoDBClient) -> None:
        self._table = table
        self._client = client

    def paused(self) -> set[str]:
        """Return the names of the paused lanes, in a consistent read."""
        with aws_errors("GetItem"):
            answer = self._client.get_item(TableName=self._table, Key=KEY, ConsistentRead=True)
        return set(answer.get("Item", {}).get("lanes", {}).get("SS", []))

    def pause(self, lane: str) -> None:
        """Pause a lane; a paused one stays so."""
        self._change("ADD", lane)

    def resume(self, lane: str) -> None:
        """Resume a lane, if it is paused."""
        self._change("DELETE", lane)

    def _change(self, verb: str, lane: str) -> None:
        # AWS: ADD and DELETE change elements of a set, so operators who pause two lanes at once do not undo each other
        # (API_UpdateItem).
        with aws_errors("UpdateItem"):
            self._client.update_item(
                TableName=self._table,
                Key=KEY,
                UpdateExpression=f"{verb} lanes :lane",
                ExpressionAttributeValues={":lane": {"SS": [lane]}},
            )
