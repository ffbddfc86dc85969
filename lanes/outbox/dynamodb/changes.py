"""Conditional updates of outbox entries in DynamoDB, and candidates as its indexes show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.outbox.dynamodb.item import (
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
    from collections.abc import Iterable, Mapping

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

    def _name(self, name: str) -> str:
        return self._names.setdefault(name, f"#n{len(self._names)}")

    def _value(self, value: Any) -> str:
        alias = f":v{len(self._values)}"
        self._values[alias] = typed(value)
        return alias


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
