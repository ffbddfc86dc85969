"""A DynamoDB transaction of business writes and outbox entries, and its limits."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lanes.aws.attribute_values import TypeSerializer
from lanes.aws.errors import aws_errors
from lanes.errors import AwsError, TransactionTooLargeError
from lanes.outbox.dynamodb.item import counter_of, item_bytes, number, put_action
from lanes.outbox.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

# AWS: at most 100 actions, 4 MB in all and 400 KB per item (API_TransactWriteItems).
MAX_ACTIONS = 100
MAX_BYTES = 4 * 1024 * 1024
MAX_ITEM_BYTES = 400 * 1024
# For a transaction with locked groups, of which others write the counters at the same time.
MAX_TRIES, FIRST_PAUSE = 10, 0.01
CONDITION_FAILED = "ConditionalCheckFailed"


class OutboxTransaction:
    """
    Collects writes and entries to commit together; created by `Outbox.transaction`.

    Args:
        prepare: creates an entry, as `Outbox.prepare` does.
        table: name of the outbox's table.
        client: makes the one call.
        pause: waits for seconds between two tries of a transaction with a locked group.
    """

    def __init__(
        self,
        *,
        prepare: Callable[..., Entry],
        table: str,
        client: DynamoDBClient,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._prepare = prepare
        self._table = table
        self._client = client
        self._pause = pause
        self._actions: list[dict[str, Any] | Entry] = []
        self._locked: set[str] = set()

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
        # Checked now, and made again by `commit`, which may give it another number.
        put_action(self._table, entry)
        self._actions.append(entry)
        return entry

    def lock_group(self, *groups: str) -> None:
        """
        Give the entries of these groups the order of commits, whatever the clocks of their writers.

        The transaction also writes a counter of each group that has an entry. It fails where another transaction has
        written that since, and `commit` tries it again with later numbers. All writers of a group must lock it.
        """
        self._locked.update(groups)

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
        numbers = {group: 0 for group in self._locked if self._entries_of(group)}
        for attempt in range(MAX_TRIES):
            counters = [self._counter(group, after) for group, after in numbers.items()]
            actions = [*counters, *(self._action(one, numbers) for one in self._actions)]
            check_limits(actions)
            try:
                # boto3 adds a ClientRequestToken, so its own retries within ten minutes write once
                # (API_TransactWriteItems).
                with aws_errors("TransactWriteItems"):
                    self._client.transact_write_items(TransactItems=actions)  # type: ignore[arg-type]
            except AwsError as error:
                later = _later(error, list(numbers))
                if not numbers or attempt == MAX_TRIES - 1 or (later is None and not error.retryable):
                    raise
                numbers |= later or {}
                if error.retryable:
                    # Others write the counter at this moment; a different pause for each lets them pass one by one.
                    self._pause(random.uniform(0, FIRST_PAUSE * 2**attempt))  # noqa: S311 - not a secret
                continue
            self._actions, self._locked = [], set()
            return

    def _entries_of(self, group: str) -> list[Entry]:
        return [one for one in self._actions if isinstance(one, Entry) and one.group == group]

    def _action(self, one: dict[str, Any] | Entry, numbers: Mapping[str, int]) -> dict[str, Any]:
        if not isinstance(one, Entry):
            return one
        after = 0 if one.group is None else numbers.get(one.group, 0)
        return put_action(self._table, replace(one, position=one.position + self._shift(one.group, after)))

    def _shift(self, group: str | None, after: int) -> int:
        """Return by how much the numbers of a group's entries must rise to be later than another number."""
        first = self._entries_of(group)[0].position if group is not None and after else 0
        return max(0, after + 1 - first) if after else 0

    def _counter(self, group: str, after: int) -> dict[str, Any]:
        """Write the last number of a group, if all numbers of this transaction are later than the one before."""
        entries = self._entries_of(group)
        shift = self._shift(group, after)
        values = {":first": number(entries[0].position + shift)}
        return {
            "Put": {
                "TableName": self._table,
                "Item": counter_of(group, entries[-1].position + shift),
                "ConditionExpression": "attribute_not_exists(pk) OR last_position < :first",
                "ExpressionAttributeValues": values,
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            }
        }


def _later(error: AwsError, groups: Sequence[str]) -> dict[str, int] | None:
    """Return the last numbers of the groups whose counters alone were not as expected; None for another reason."""
    blamed = [index for index, reason in enumerate(error.reasons) if reason == CONDITION_FAILED]
    if not blamed or blamed[-1] >= len(groups):
        return None
    response: Any = getattr(error.__cause__, "response", {})
    return {
        groups[index]: int(response["CancellationReasons"][index]["Item"]["last_position"]["N"])
        for index in blamed
    }


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
