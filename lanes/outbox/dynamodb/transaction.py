"""A DynamoDB transaction of business writes and outbox entries, and its limits."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

from boto3.dynamodb.types import TypeSerializer

from lanes.aws.errors import aws_errors
from lanes.errors import AwsError, DuplicateEntryError, TransactionTooLargeError
from lanes.outbox.dynamodb.table import (
    counter_of,
    item_bytes,
    key_of,
    number,
    put_action,
    text,
    unique_key_of,
)
from lanes.outbox.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

    from lanes.outbox.entry import UniqueOptions

# AWS: at most 100 actions, 4 MB in all and 400 KB per item (API_TransactWriteItems).
MAX_ACTIONS = 100
MAX_BYTES = 4 * 1024 * 1024
MAX_ITEM_BYTES = 400 * 1024
# For a transaction with locked groups or unique keys, of which others write the items at the same time.
MAX_TRIES, FIRST_PAUSE = 10, 0.01
CONDITION_FAILED = "ConditionalCheckFailed"
ACTIONS = ("Put", "Update", "Delete", "ConditionCheck")
VALUES = ("Item", "Key", "ExpressionAttributeValues")
"""Parts of an action that have values of attributes by name."""


class OutboxTransaction:
    """
    Collects writes and entries to commit together; created by `Outbox.transaction`.

    Args:
        prepare: creates an entry, as `Outbox.prepare_unique` does.
        table: name of the outbox's table.
        client: makes the one call.
        pause: waits for seconds between two tries of a transaction with a locked group or a unique key.

    Attributes:
        kept: after the commit, ids of the entries that waited already, by the unique key.
    """

    def __init__(
        self,
        *,
        prepare: Callable[[str, Any, UniqueOptions], tuple[Entry, bool]],
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
        self._keeping: set[str] = set()
        self.kept: dict[str, str] = {}

    def add(
        self,
        kind: str,
        data: Any,
        **options: Unpack[UniqueOptions],
    ) -> Entry:
        """
        Add a message; the arguments are those of `Outbox.add`.

        With `on_duplicate="keep"` only the commit knows whether the entry is written: see `kept`.

        Raises:
            MessageError: the message breaks a rule.
            EntryTooLargeError: the item would exceed DynamoDB's limit.
            DuplicateEntryError: this transaction has an entry with this key.
        """
        entry, keeps = self._prepare(kind, data, options)
        # Checked now, and made again by `commit`, which may give it another number.
        put_action(self._table, entry)
        if (key := entry.unique_key) is not None:
            first = next((one for one in self._entries() if one.unique_key == key), None)
            if first is not None and not keeps:
                raise DuplicateEntryError(key=key, waiting=first.id)
            if first is not None:
                return first
            if keeps:
                self._keeping.add(key)
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
        """
        Add any action of TransactWriteItems in the form of boto3's client: a Put, Update, Delete or ConditionCheck.

        Raises:
            ValueError: it is not one of these, or has values of plain Python, as boto3's resources take them.
        """
        if not isinstance(action, Mapping) or len(action) != 1 or next(iter(action)) not in ACTIONS:
            found = (
                f"has the keys {list(action)}"
                if isinstance(action, Mapping)
                else f"is a {type(action).__name__}"
            )
            raise ValueError(
                f"the action {found}; pass a dict with one of {', '.join(ACTIONS)}, such as "
                "{'Delete': {'TableName': ..., 'Key': ...}}"
            )
        for name in VALUES:
            for key, value in next(iter(action.values())).get(name, {}).items():
                if not isinstance(value, Mapping) or len(value) != 1:
                    raise ValueError(
                        f"{name}[{key!r}] is a {type(value).__name__}; write values with their types, such as "
                        "{'S': 'a'}, or use `put` for an item of plain Python values"
                    )
        self._actions.append(dict(action))

    def commit(self) -> None:
        """
        Write everything or nothing; without actions make no call.

        Raises:
            DuplicateEntryError: an entry with one of the unique keys waits, and was not to be kept.
        """
        if not self._actions:
            return
        known = _Known(
            numbers={group: 0 for group in self._locked if self._entries_of(group)},
            keys={one.unique_key: None for one in self._entries() if one.unique_key is not None},
        )
        token, actions = str(uuid.uuid4()), self._written(known)
        for attempt in range(MAX_TRIES):
            check_limits(actions)
            try:
                with aws_errors("TransactWriteItems"):
                    # With one token a try that was written without an answer is not written again for ten minutes
                    # (API_TransactWriteItems).
                    self._client.transact_write_items(TransactItems=actions, ClientRequestToken=token)  # type: ignore[arg-type]
            except AwsError as error:
                is_guarded = bool(known.numbers or known.keys)
                blamed = _blamed(error, known.guards)
                if not is_guarded or attempt == MAX_TRIES - 1 or (blamed is None and not error.retryable):
                    raise
                self._learn(known, blamed or {}, error)
                if error.answered:
                    token, actions = str(uuid.uuid4()), self._written(known)
                if error.retryable:
                    # Others write the counter at this moment; a different pause for each lets them pass one by one.
                    self._pause(random.uniform(0, FIRST_PAUSE * 2**attempt))  # noqa: S311 - not a secret
                continue
            self.kept = {key: _id_in(holder) for key, holder in known.keys.items() if holder is not None}
            self._actions, self._locked, self._keeping = [], set(), set()
            return

    def _learn(self, known: _Known, blamed: Mapping[tuple[str, str], Any], error: AwsError) -> None:
        """Take over what the items say that were not as expected."""
        for (sort, name), item in blamed.items():
            if sort == "counter":
                known.numbers[name] = int(item["last_position"]["N"])
                continue
            # Without a holder it was released meanwhile.
            holder = item.get("holder", {}).get("S")
            if holder is not None and name not in self._keeping:
                raise DuplicateEntryError(key=name, waiting=_id_in(holder)) from error
            known.keys[name] = holder

    def _entries(self) -> list[Entry]:
        return [one for one in self._actions if isinstance(one, Entry)]

    def _entries_of(self, group: str) -> list[Entry]:
        return [one for one in self._entries() if one.group == group]

    def _written(self, known: _Known) -> list[dict[str, Any]]:
        """Return all actions, the guards first: entries whose key another one has are left out."""
        entries = {id(one): self._numbered(one, known.numbers) for one in self._entries()}
        by_key = {one.unique_key: one for one in entries.values()}
        return [
            *(self._counter(group, after) for group, after in known.numbers.items()),
            *(self._key(key, holder, by_key[key]) for key, holder in known.keys.items()),
            *(
                put_action(self._table, entries[id(one)]) if isinstance(one, Entry) else one
                for one in self._actions
                if not isinstance(one, Entry) or known.keys.get(one.unique_key or "") is None
            ),
        ]

    def _numbered(self, entry: Entry, numbers: Mapping[str, int]) -> Entry:
        after = 0 if entry.group is None else numbers.get(entry.group, 0)
        return replace(entry, position=entry.position + self._shift(entry.group, after))

    def _shift(self, group: str | None, after: int) -> int:
        """Return by how much the numbers of a group's entries must rise to be later than another number."""
        first = self._entries_of(group)[0].position if group is not None and after else 0
        return max(0, after + 1 - first) if after else 0

    def _counter(self, group: str, after: int) -> dict[str, Any]:
        """Write the last number of a group, if all numbers of this transaction are later than the one before."""
        entries = self._entries_of(group)
        shift = self._shift(group, after)
        return self._guard(
            counter_of(group, entries[-1].position + shift),
            "attribute_not_exists(pk) OR last_position < :first",
            {":first": number(entries[0].position + shift)},
        )

    def _key(self, key: str, holder: str | None, entry: Entry) -> dict[str, Any]:
        """Take a unique key if no waiting entry has it, or confirm that a known one still has it."""
        if holder is None:
            return _key_action(self._table, entry)
        # A relay releases it before it sends: as the entry waits at this commit, its message is handled after it.
        item = {**unique_key_of(key), "holder": text(holder)}
        return self._guard(item, "holder = :holder", {":holder": text(holder)})

    def _guard(self, item: dict[str, Any], condition: str, values: dict[str, Any]) -> dict[str, Any]:
        return _guard(self._table, item, condition, values)


def actions_of(table: str, entry: Entry) -> list[dict[str, Any]]:
    """
    Return the actions that write an entry, and take its unique key if no waiting entry has it.

    Raises:
        EntryTooLargeError: the item would exceed DynamoDB's limit.
    """
    return [*([] if entry.unique_key is None else [_key_action(table, entry)]), put_action(table, entry)]


def _key_action(table: str, entry: Entry) -> dict[str, Any]:
    item = {**unique_key_of(entry.unique_key or ""), "holder": key_of(entry)["sk"]}
    return _guard(table, item, "attribute_not_exists(holder)", {})


def _guard(table: str, item: dict[str, Any], condition: str, values: dict[str, Any]) -> dict[str, Any]:
    return {
        "Put": {
            "TableName": table,
            "Item": item,
            "ConditionExpression": condition,
            **({"ExpressionAttributeValues": values} if values else {}),
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
    }


@dataclass(slots=True, kw_only=True)
class _Known:
    """
    What a transaction knows of the items that guard it.

    Attributes:
        numbers: the last number of each locked group.
        keys: for each unique key the entry that is kept; None if this transaction takes it.
    """

    numbers: dict[str, int]
    keys: dict[str, str | None]

    @property
    def guards(self) -> list[tuple[str, str]]:
        """The guards by sort and name, in the order in which they are written."""
        return [("counter", group) for group in self.numbers] + [("key", key) for key in self.keys]


def _id_in(holder: str) -> str:
    return holder.partition("#")[2]


def _blamed(error: AwsError, guards: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Any] | None:
    """Return the items of the guards that alone were not as expected; None for another reason."""
    blamed = [index for index, reason in enumerate(error.reasons) if reason == CONDITION_FAILED]
    if not blamed or blamed[-1] >= len(guards):
        return None
    response: Any = getattr(error.__cause__, "response", {})
    return {guards[index]: response["CancellationReasons"][index].get("Item", {}) for index in blamed}


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
    return sum(item_bytes(parts[name]) for name in VALUES if name in parts)
