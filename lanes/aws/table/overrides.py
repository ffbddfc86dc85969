"""Overrides in the ledger's table: the consumer's side, and the operators'."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors
from lanes.aws.table.items import latest_in, read_items
from lanes.aws.table.override_items import (
    CANCELLED_PARTITION,
    OVERRIDE,
    OVERRIDES_KEY,
    active_of,
    cancelled_of,
    item_of_cancelled,
    item_of_redirect,
    override_text,
    redirect_key,
    redirect_of,
)
from lanes.errors import AwsError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

    from lanes.overrides import ActiveOverrides, Cancelled, GroupRedirect, Override

MOST_STANDING = 100
"""Overrides that may stand at once. AWS: an item holds 400 KB, and each environment reads all of it."""


class DynamoDBOverrides:
    """The active overrides of one deployment; every method raises `AwsError`."""

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
            answer = self._client.get_item(
                TableName=self._table, Key=OVERRIDES_KEY, ProjectionExpression="pk"
            )
        date = answer["ResponseMetadata"].get("HTTPHeaders", {}).get("date")
        return parsedate_to_datetime(date).timestamp() + 1.0 if date else self._clock()

    def active(self) -> ActiveOverrides:
        """Return the active overrides."""
        with aws_errors("GetItem"):
            # Consistent, so that each environment knows of an override after `KNOWN_AFTER`.
            answer = self._client.get_item(TableName=self._table, Key=OVERRIDES_KEY, ConsistentRead=True)
        return active_of(answer.get("Item", {}), now=self._clock())

    def redirects(self, lane: str, groups: Sequence[str]) -> dict[str, GroupRedirect]:
        """Return which of the groups have to follow, by group."""
        keys = [redirect_key(lane, group) for group in groups]
        found = [redirect_of(item) for item in read_items(self._client, self._table, keys)]
        return {follow.group: follow for follow in found if follow.expires_at > self._clock()}

    def redirect(self, follow: GroupRedirect) -> None:
        """Let the later messages of a group follow."""
        self._put(item_of_redirect(follow))

    def cancelled(self, cancelled: Cancelled) -> None:
        """Record a cancelled message."""
        self._put(item_of_cancelled(cancelled))

    def add(self, override: Override) -> None:
        """
        Add an override, and remove expired ones.

        Raises:
            AwsError: also if too many are active.
        """
        with aws_errors("GetItem"):
            item: Any = self._client.get_item(
                TableName=self._table, Key=OVERRIDES_KEY, ConsistentRead=True
            ).get("Item", {})
        active = active_of(item, now=self._clock())
        living = {OVERRIDE + one.id for one in active.overrides} | {OVERRIDE + one for one in active.unread}
        # Two operators at once may exceed it by one, which does no harm.
        if len(living) >= MOST_STANDING:
            raise AwsError(
                operation="UpdateItem",
                code="TooManyOverrides",
                message=f"{len(living)} overrides stand already; withdraw some first",
                retryable=False,
            )
        names = {"#new": OVERRIDE + override.id}
        # Removed in the same call: attributes have no time to live, only items have.
        expired = [name for name in item if name.startswith(OVERRIDE) and name not in living]
        names |= {f"#old{place}": name for place, name in enumerate(expired)}
        removed = ", ".join(f"#old{place}" for place in range(len(expired)))
        with aws_errors("UpdateItem"):
            self._client.update_item(
                TableName=self._table,
                Key=OVERRIDES_KEY,
                UpdateExpression="SET #new = :new" + (f" REMOVE {removed}" if removed else ""),
                ExpressionAttributeNames=names,
                ExpressionAttributeValues={":new": {"S": override_text(override)}},
            )

    def withdraw(self, override_id: str) -> None:
        """Withdraw an override."""
        with aws_errors("UpdateItem"):
            self._client.update_item(
                TableName=self._table,
                Key=OVERRIDES_KEY,
                UpdateExpression="REMOVE #one",
                ExpressionAttributeNames={"#one": OVERRIDE + override_id},
            )

    def cancellations(self, *, since: float, limit: int) -> list[Cancelled]:
        """Return cancelled messages, the latest first."""
        items = latest_in(
            CANCELLED_PARTITION, client=self._client, table=self._table, since=since, limit=limit
        )
        return [cancelled_of(item) for item in items]

    def _put(self, item: Any) -> None:
        with aws_errors("PutItem"):
            self._client.put_item(TableName=self._table, Item=item)
