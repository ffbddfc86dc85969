"""The calls to the table of an outbox: candidates as its indexes show them, and conditional updates."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from lanes.aws.errors import CANCELLED, aws_errors
from lanes.aws.items import pages_of
from lanes.errors import AwsError
from lanes.outbox.dynamodb.table import (
    DEAD,
    DUE,
    HELD,
    PARKED,
    READY,
    part_of,
    part_of_key,
    partition_of,
    sortable,
    typed,
)
from lanes.outbox.entry import FINISHED, EntryState, chain_of
from lanes.outbox.rules import Candidate

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

    from lanes.outbox.entry import Entry
    from lanes.outbox.rules import Mark


class Change:
    """
    An update of one item: attributes to set and to remove, and the condition.

    Args:
        setting: new values; None removes the attribute.
        same: attributes that must have these values; None requires that the attribute does not exist.
        present: attributes that must exist.
    """

    def __init__(
        self,
        setting: Mapping[str, Any],
        *,
        same: Mapping[str, Any] | None = None,
        present: Iterable[str] = (),
    ) -> None:
        self._names: dict[str, str] = {}
        self._values: dict[str, Any] = {}
        self._setting = setting
        kept = {name: value for name, value in setting.items() if value is not None}
        removed = [name for name, value in setting.items() if value is None]
        sets = ", ".join(f"{self._name(name)} = {self._value(value)}" for name, value in kept.items())
        removes = ", ".join(self._name(name) for name in removed)
        self._update = " ".join(
            f"{word} {parts}" for word, parts in (("SET", sets), ("REMOVE", removes)) if parts
        )
        conditions = [f"attribute_exists({self._name(name)})" for name in present]
        for name, value in (same or {}).items():
            conditions.append(
                f"attribute_not_exists({self._name(name)})"
                if value is None
                else f"{self._name(name)} = {self._value(value)}"
            )
        self._condition = " AND ".join(conditions)

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of UpdateItem without key and table."""
        return {
            "UpdateExpression": self._update,
            **({"ConditionExpression": self._condition} if self._condition else {}),
            "ExpressionAttributeNames": {alias: name for name, alias in self._names.items()},
            "ExpressionAttributeValues": self._values,
        }

    def is_in(self, item: Mapping[str, Any]) -> bool:
        """Whether an item has this very change, by the moment of it and all that it sets."""
        return "changed_at" in self._setting and all(
            _is_same(item.get(name), value) for name, value in self._setting.items()
        )

    def _name(self, name: str) -> str:
        return self._names.setdefault(name, f"#n{len(self._names)}")

    def _value(self, value: Any) -> str:
        alias = f":v{len(self._values)}"
        self._values[alias] = typed(value)
        return alias


def _is_same(found: Mapping[str, Any] | None, value: Any) -> bool:
    if found is None or value is None:
        return found is value
    wanted = typed(value)
    if "N" in found and "N" in wanted:
        # DynamoDB writes a number in its own way.
        return Decimal(found["N"]) == Decimal(wanted["N"])
    return dict(found) == wanted


def id_of(item: Any) -> str:
    """Read the id from a key."""
    return str(item["sk"]["S"].partition("#")[2])


def ripe(item: Any) -> dict[str, Any]:
    """Return the attributes that make an item a candidate in its group; None removes one."""
    in_group = item["pk"]["S"].startswith("group#") and "S" in item.get("lane", {})
    return {
        "ready": part_of_key(READY, item["pk"]["S"]),
        "timer": None,
        "due_at": None,
        "is_parked": None,
        "is_scheduled": None,
        # As `chain_order` gives it.
        **({"chain_order": f"{item['lane']['S']}#{item['sk']['S']}"} if in_group else {}),
    }


def parked_in(pk: str, sendable_from: float) -> dict[str, Any]:
    """Return the attributes that park an entry of a partition; its time is no due time, but lists it by its age."""
    return {"is_parked": True, "timer": part_of_key(PARKED, pk), "due_at": sortable(sendable_from)}


def candidate_of(item: Any) -> Candidate:
    """Read a candidate from its item in an index."""
    kind, _, group = item["pk"]["S"].partition("#")
    lane = item.get("lane", {}).get("S", "")
    return Candidate(id=id_of(item), chain=chain_of(lane, group) if kind == "group" else None)


def runs_of(candidates: Iterable[Candidate]) -> list[list[Candidate]]:
    """Group candidates by chain, since each must be locked after the one before."""
    runs: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        key = f"id {candidate.id}" if candidate.chain is None else f"chain {candidate.chain}"
        runs.setdefault(key, []).append(candidate)
    return list(runs.values())


def outcome_of(mark: Mark, now: float) -> dict[str, Any]:
    """Return the attributes that a mark sets on its entry; None removes one."""
    is_published = mark.state is EntryState.PUBLISHED
    is_abandoned = mark.state is EntryState.ABANDONED
    setting: dict[str, Any] = {
        "state": mark.state.value,
        "attempts": mark.attempts,
        "last_error": mark.last_error or None,
        "locked_by": None,
        "locked_until": None,
        "next_attempt_at": mark.due_at if mark.state is EntryState.FAILED else None,
        "changed_at": now,
        "published_at": now if is_published else None,
        "sequence_number": mark.sequence_number or None,
        "is_parked": None,
        # A relay releases it before it sends; unless the entry has it again, by then another one may have it.
        "unique_key": None,
        "expires_at": None if mark.expires_at is None else int(mark.expires_at),
        "timer": None,
        "due_at": None if mark.due_at is None else sortable(mark.due_at),
    }
    if mark.is_parked:
        setting |= parked_in(partition_of(mark.entry.id, mark.entry.group), mark.entry.sendable_from)
    elif mark.due_at is not None:
        setting["timer"] = part_of(DUE, mark.entry)
    elif is_abandoned:
        setting["timer"] = part_of(HELD if mark.holds_group else DEAD, mark.entry)
        # Not a due time: it lists them by their age.
        setting["due_at"] = sortable(mark.entry.created_at)
    if mark.leaves_chain:
        setting["chain_order"] = None
    if mark.state not in FINISHED and mark.due_at is None:
        setting["ready"] = part_of(READY, mark.entry)
    return setting


def cancelled(entry: Entry, reason: str, *, now: float, expires_at: float) -> dict[str, Any]:
    """Return the attributes of a cancelled entry; None removes one."""
    return {
        "state": EntryState.CANCELLED.value,
        "last_error": reason,
        "expires_at": int(expires_at),
        "changed_at": now,
        "timer": part_of(DEAD, entry),
        "due_at": sortable(entry.created_at),
        "next_attempt_at": None,
        "ready": None,
        "is_parked": None,
        "is_scheduled": None,
        "chain_order": None,
    }


T = TypeVar("T")
R = TypeVar("R")

# Below the connections that a client keeps (`lanes.aws.clients.CONNECTIONS`), also with a producer beside it.
CONCURRENCY = 8
# AWS: BatchWriteItem writes 25 items (API reference).
MAX_WRITTEN = 25
CONDITION_FAILED = "ConditionalCheckFailedException"


class TableCalls:
    """
    Reads and changes items; every method raises `AwsError`.

    Args:
        table: its name.
        client: shared by threads.
        concurrency: maximum number of calls in flight.
    """

    def __init__(self, *, table: str, client: DynamoDBClient, concurrency: int = CONCURRENCY) -> None:
        self.table = table
        self.client = client
        self._concurrency = concurrency

    def query(self, *, limit: int | None, **parameters: Any) -> list[Any]:
        """Return the items of a query, up to a limit."""
        most: dict[str, Any] = {} if limit is None else {"Limit": limit}
        pages = pages_of("Query", self.client.query, TableName=self.table, **parameters, **most)
        return list(islice((item for page in pages for item in page["Items"]), limit))

    def first(
        self, parts: Sequence[str], *, order: str, limit: int, values: Mapping[str, Any], **parameters: Any
    ) -> list[Any]:
        """
        Return the first items of all parts of an index together.

        Args:
            parts: keys of the index, the value `:part` of each query.
            order: the sort key.
            limit: maximum number of items.
            values: the other values of the queries.
            parameters: the other parameters of the queries.
        """
        # Twice the even share: mostly no part has to be read a second time.
        size = math.ceil(2 * limit / len(parts))
        found: dict[str, list[Any]] = {part: [] for part in parts}
        starts: dict[str, dict[str, Any]] = {part: {} for part in parts}
        items: list[Any] = []
        wanted = list(parts)

        def page_of(part: str) -> Any:
            with aws_errors("Query"):
                return self.client.query(
                    TableName=self.table,
                    ExpressionAttributeValues={**values, ":part": {"S": part}},
                    Limit=size,
                    **parameters,
                    **starts[part],
                )

        while wanted:
            for part, page in zip(wanted, self.in_parallel(page_of, wanted), strict=True):
                found[part] += page["Items"]
                start = page.get("LastEvaluatedKey")
                starts[part] = {"ExclusiveStartKey": start} if start else {}
            every = (item for several in found.values() for item in several)
            items = sorted(every, key=lambda item: str(item[order]["S"]))[:limit]
            last = items[-1][order]["S"] if len(items) == limit else None
            # Only a part that has all it gave among the first items may have more of them.
            wanted = [
                part
                for part in wanted
                if starts[part] and (last is None or found[part][-1][order]["S"] < last)
            ]
        return items

    def update(self, item: Any, change: Change) -> dict[str, Any] | None:
        """
        Change one item; return its new state, or None if the condition does not hold.

        A client repeats a request without an answer, and where the first one was written, it has ended the condition.
        """
        try:
            with aws_errors("UpdateItem"):
                answer = self.client.update_item(
                    TableName=self.table,
                    Key={"pk": item["pk"], "sk": item["sk"]},
                    ReturnValues="ALL_NEW",
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                    **change.parameters(),
                )
        except AwsError as error:
            if error.code != CONDITION_FAILED:
                raise
            found: dict[str, Any] = getattr(error.__cause__, "response", {}).get("Item", {})
            return found if change.is_in(found) else None
        return answer["Attributes"]

    def update_both(self, *changes: tuple[Any, Change]) -> bool:
        """Change all of these items, or none if a condition does not hold or somebody else is changing one."""
        actions: Any = [
            {
                "Update": {
                    "TableName": self.table,
                    "Key": {"pk": item["pk"], "sk": item["sk"]},
                    **change.parameters(),
                }
            }
            for item, change in changes
        ]
        try:
            with aws_errors("TransactWriteItems"):
                self.client.transact_write_items(TransactItems=actions)
        except AwsError as error:
            if error.code == CANCELLED:
                return False
            raise
        return True

    def delete(self, keys: Sequence[Any]) -> None:
        """Delete items by their keys."""
        for start in range(0, len(keys), MAX_WRITTEN):
            chunk = keys[start : start + MAX_WRITTEN]
            requests: Any = {self.table: [{"DeleteRequest": {"Key": key}} for key in chunk]}
            while requests:
                with aws_errors("BatchWriteItem"):
                    requests = self.client.batch_write_item(RequestItems=requests).get("UnprocessedItems")

    def in_parallel(self, call: Callable[[T], R], items: Collection[T]) -> list[R]:
        """Apply a function to each item, several at a time, and return the results in order."""
        if len(items) <= 1 or self._concurrency == 1:
            return [call(item) for item in items]
        with ThreadPoolExecutor(min(self._concurrency, len(items))) as executor:
            return list(executor.map(call, items))
