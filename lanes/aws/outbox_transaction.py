"""A transaction of DynamoDB that holds business writes and outbox entries, and its limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from boto3.dynamodb.types import TypeSerializer

from lanes.aws.errors import aws_errors
from lanes.aws.outbox_item import item_bytes, put_action
from lanes.errors import TransactionTooLargeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

    from lanes.outbox.entry import Entry
    from lanes.outbox.outbox import Outbox

# AWS: at most 100 actions and 4 MB in all (API_TransactWriteItems).
MOST_ACTIONS = 100
MOST_BYTES = 4 * 1024 * 1024


class OutboxTransaction:
    """
    Collects what is to be committed together; made by `Outbox.transaction`.

    Args:
        outbox: makes the entries.
        table: of the outbox.
        client: makes the one call.
    """

    def __init__(self, *, outbox: Outbox, table: str, client: DynamoDBClient) -> None:
        self._outbox = outbox
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
            EntryTooLargeError: the item would be larger than DynamoDB takes.
        """
        entry = self._outbox.prepare(
            kind, data, group=group, priority=priority, id=id, traceparent=traceparent
        )
        self._actions.append(put_action(self._table, entry))
        return entry

    def put(self, table: str, item: Mapping[str, Any], **condition: Any) -> None:
        """
        Add a write of an item given as plain Python values.

        Args:
            table: name of the application's table.
            item: the item.
            condition: `ConditionExpression` and what else a Put takes.
        """
        serialise = TypeSerializer().serialize
        typed = {name: serialise(value) for name, value in item.items()}
        self._actions.append({"Put": {"TableName": table, "Item": typed, **condition}})

    def write(self, action: Mapping[str, Any]) -> None:
        """Add any action of TransactWriteItems as boto3 takes it: a Put, Update, Delete or ConditionCheck."""
        self._actions.append(dict(action))

    def commit(self) -> None:
        """Write everything, or nothing; does nothing where nothing was added."""
        if not self._actions:
            return
        check_limits(self._actions)
        with aws_errors("TransactWriteItems"):
            self._client.transact_write_items(TransactItems=self._actions)  # type: ignore[arg-type]
        self._actions = []


def check_limits(actions: Sequence[Mapping[str, Any]]) -> None:
    """
    Refuse what DynamoDB would refuse for its size.

    Raises:
        TransactionTooLargeError: over 100 actions, over 4 MB, or an item over 400 KB.
    """
    sizes = [_action_bytes(action) for action in actions]
    problem = ""
    if len(actions) > MOST_ACTIONS:
        problem = f"DynamoDB takes {MOST_ACTIONS} actions; commit the rest in another transaction"
    elif sum(sizes) > MOST_BYTES:
        problem = f"DynamoDB takes {MOST_BYTES:,} bytes; put large data into S3"
    elif max(sizes) > MOST_ITEM_BYTES:
        problem = f"one item has {max(sizes):,} bytes and DynamoDB takes {MOST_ITEM_BYTES:,}"
    if problem:
        raise TransactionTooLargeError(actions=len(actions), size_bytes=sum(sizes), problem=problem)


MOST_ITEM_BYTES = 400 * 1024


def _action_bytes(action: Mapping[str, Any]) -> int:
    (parts,) = action.values()
    named = ("Item", "Key", "ExpressionAttributeValues")
    return sum(item_bytes(parts[name]) for name in named if name in parts)
