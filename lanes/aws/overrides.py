"""Overrides in the ledger's table: the consumer's side, and the operators'."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors
from lanes.aws.ledger import read_items
from lanes.aws.override_items import (
    BOARD,
    CANCELLED_SHELF,
    OVERRIDE,
    board_of,
    cancelled_of,
    follow_key,
    follow_of,
    item_of_cancelled,
    item_of_follow,
    override_text,
)
from lanes.aws.shelf import latest_on
from lanes.errors import AwsError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

    from lanes.consumer.overrides import Board, Cancelled, Follow, Override

MOST_STANDING = 100
"""Overrides that may stand at once. AWS: an item holds 400 KB, and each environment reads all of it."""


class DynamoDBOverrides:
    """The board of one deployment; every method raises `AwsError`."""

    def __init__(self, *, table: str, client: DynamoDBClient, clock: Callable[[], float] = time.time) -> None:
        self._table = table
        self._client = client
        self._clock = clock

    def now(self) -> float:
        """
        Return the time by the clock of AWS, epoch seconds: an operator's own may be minutes off.

        AWS: answers carry their time in whole seconds (HTTP header Date); the end of that second is meant, so that
        nothing counts as later that was sent before.
        """
        with aws_errors("GetItem"):
            answer = self._client.get_item(TableName=self._table, Key=BOARD, ProjectionExpression="pk")
        told = answer["ResponseMetadata"].get("HTTPHeaders", {}).get("date")
        return parsedate_to_datetime(told).timestamp() + 1.0 if told else self._clock()

    def board(self) -> Board:
        """Read the board, as it stands now."""
        with aws_errors("GetItem"):
            answer = self._client.get_item(TableName=self._table, Key=BOARD, ConsistentRead=True)
        return board_of(answer.get("Item", {}), now=self._clock())

    def follows(self, lane: str, groups: Sequence[str]) -> dict[str, Follow]:
        """Return which of the groups have to follow, by group."""
        keys = [follow_key(lane, group) for group in groups]
        found = [follow_of(item) for item in read_items(self._client, self._table, keys)]
        return {follow.group: follow for follow in found if follow.expires_at > self._clock()}

    def follow(self, follow: Follow) -> None:
        """Let the later messages of a group follow."""
        self._put(item_of_follow(follow))

    def cancelled(self, cancelled: Cancelled) -> None:
        """Record a cancelled message."""
        self._put(item_of_cancelled(cancelled))

    def add(self, override: Override) -> None:
        """
        Put an override on the board, and take off what has expired.

        Raises:
            AwsError: also where too many stand there already.
        """
        with aws_errors("GetItem"):
            item: Any = self._client.get_item(TableName=self._table, Key=BOARD, ConsistentRead=True).get(
                "Item", {}
            )
        board = board_of(item, now=self._clock())
        living = {OVERRIDE + one.id for one in board.overrides} | {OVERRIDE + one for one in board.unread}
        if len(living) >= MOST_STANDING:
            raise AwsError(
                operation="UpdateItem",
                code="TooManyOverrides",
                message=f"{len(living)} overrides stand already; withdraw some first",
                retryable=False,
            )
        names = {"#new": OVERRIDE + override.id}
        expired = [name for name in item if name.startswith(OVERRIDE) and name not in living]
        names |= {f"#old{place}": name for place, name in enumerate(expired)}
        removed = ", ".join(f"#old{place}" for place in range(len(expired)))
        with aws_errors("UpdateItem"):
            self._client.update_item(
                TableName=self._table,
                Key=BOARD,
                UpdateExpression="SET #new = :new" + (f" REMOVE {removed}" if removed else ""),
                ExpressionAttributeNames=names,
                ExpressionAttributeValues={":new": {"S": override_text(override)}},
            )

    def withdraw(self, override_id: str) -> None:
        """Take an override off the board."""
        with aws_errors("UpdateItem"):
            self._client.update_item(
                TableName=self._table,
                Key=BOARD,
                UpdateExpression="REMOVE #one",
                ExpressionAttributeNames={"#one": OVERRIDE + override_id},
            )

    def cancellations(self, *, since: float, limit: int) -> list[Cancelled]:
        """Return cancelled messages, the latest first."""
        items = latest_on(CANCELLED_SHELF, client=self._client, table=self._table, since=since, limit=limit)
        return [cancelled_of(item) for item in items]

    def _put(self, item: Any) -> None:
        with aws_errors("PutItem"):
            self._client.put_item(TableName=self._table, Item=item)
