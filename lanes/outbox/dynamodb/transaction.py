"""A DynamoDB transaction of business writes and outbox entries, and its limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.aws.attribute_values import TypeSerializer
from lanes.aws.errors import aws_errors
from lanes.errors import TransactionTooLargeError
from lanes.outbox.dynamodb.item import item_bytes, put_action

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

    from lanes.outbox.entry import Entry

# AWS: at most 100 actions, 4 MB in all and 400 KB per item (API_TransactWriteItems).
MAX_ACTIONS = 100
MAX_BYTES = 4 * 1024 * 1024
MAX_ITEM_BYTES = 400 * 1024


class OutboxTransaction:
    """
    Collects writes and entries to commit together; created by `Outbox.transaction`.

    Args:
        prepare: creates an entry, as `Outbox.prepare` does.
        table: name of the outbox's table.
        client: makes the one call.
    """

    def __init__(self, *, prepare: Callable[..., Entry], table: str, client: DynamoDBClient) -> None:
        self._prepare = prepare
        self._table = table
        self._client = client
        self._actions: list[dict[str, Any]] = []

    def add(
        self,
        kind: str,
        data: Any,
        *,
        group: str | None = None,
        priority: int | None = None,
        id: str | None = None,  # noqa: A002 - the name that CloudEvents gives it
        traceparent: str | None = None,
    ) -> Entry:
        """
        Add a message; the arguments are those of `Outbox.prepare`.

        Raises:
            MessageError: the message breaks a rule.
            EntryTooLargeError: the item would exceed DynamoDB's limit.
        """
        entry = self._prepare(kind, data, group=group, priority=priority, id=id, traceparent=traceparent)
        self._actions.append(put_action(self._table, entry))
        return entry

    def put(self, table: str, item: Mapping[str, Any], **condition: Any) -> None:
        """
        Add a write of an item of plain Python values.

        Args:
            table: name of your table.
            item: the item.
            condition: `ConditionExpression` and other parameters of a Put.
        """
        serialise = TypeSerializer().serialize
        typed = {name: serialise(value) for name, value in item.items()}
        self._actions.append({"Put": {"TableName": table, "Item": typed, **condition}})

    def write(self, action: Mapping[str, Any]) -> None:
        """Add any action of TransactWriteItems in the form of boto3: a Put, Update, Delete or ConditionCheck."""
        self._actions.append(dict(action))

    def commit(self) -> None:
        """Write everything or nothing; without actions make no call."""
        if not self._actions:
            return
        check_limits(self._actions)
        # boto3 adds a ClientRequestToken, so its own retries within ten minutes write once (API_TransactWriteItems).
        with aws_errors("TransactWriteItems"):
            self._client.transact_write_items(TransactItems=self._actions)  # type: ignore[arg-type]
        self._actions = []


def check_limits(actions: Sequence[Mapping[str, Any]]) -> None:
    """
    Refuse a transaction that exceeds DynamoDB's limits.

    Raises:
        TransactionTooLargeError: over 100 actions, over 4 MB, or an item over 400 KB.
    """
    sizes = [_action_bytes(action) for action in actions]
    problem = ""
    if len(actions) > MAX_ACTIONS:
        problem = f"DynamoDB accepts {MAX_ACTIONS} actions; commit the rest in another transaction"
    elif sum(sizes) > MAX_BYTES:
        problem = f"DynamoDB accepts {MAX_BYTES:,} bytes; put large data into S3"
    elif max(sizes) > MAX_ITEM_BYTES:
        problem = f"one item has {max(sizes):,} bytes and DynamoDB accepts {MAX_ITEM_BYTES:,}"
    if problem:
        raise TransactionTooLargeError(actions=len(actions), size_bytes=sum(sizes), problem=problem)


def _action_bytes(action: Mapping[str, Any]) -> int:
    (parts,) = action.values()
    named = ("Item", "Key", "ExpressionAttributeValues")
    return sum(item_bytes(parts[name]) for name in named if name in parts)
