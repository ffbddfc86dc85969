"""From a row of a table to a message."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NoReturn

from lanes.errors import MessageError
from lanes.message import Message

# Changing it gives every row a new id, and so sends again what was sent before.
NAMESPACE = uuid.UUID("5a0f3b4e-6d1c-4f0a-9b57-1d0c8e7a2f36")


class RowRefusedError(MessageError):
    """A row can't be sent; `position` counts the rows of its partition from 1."""

    def __init__(self, *, partition: int, position: int, row: Mapping[str, Any], reason: str) -> None:
        self.partition = partition
        self.position = position
        self.reason = reason
        named = ", ".join(
            f"{name} {row[name]!r}" for name in ("id", "kind", "group") if row.get(name) is not None
        )
        super().__init__(
            f"row {position} of partition {partition}{f' ({named})' if named else ''} can't be sent: {reason}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowReader:
    """
    Makes messages of rows.

    The same row gives the same id and group, whatever task or job reads it.

    Attributes:
        kind: of rows that name none.
        priority: of rows that name none.
        shards: number of groups over which rows without one are spread; None makes each its own group.
        source: where the messages come from, for their consumers.
    """

    kind: str | None
    priority: int
    shards: int | None = None
    source: str = "spark"

    def message(self, row: Mapping[str, Any]) -> Message:
        """
        Make the message of a row.

        Raises:
            ValueError: the row has no kind, or its data is no JSON document.
        """
        kind = row.get("kind") or self.kind
        if kind is None:
            raise ValueError("it has no kind, and the option kind is not set")
        data = _data(row.get("data"))
        identity = _text(row.get("id")) or _derived_id(kind, _text(row.get("group")), data)
        priority = row.get("priority")
        return Message(
            kind=kind,
            data=data,
            id=identity,
            group=_text(row.get("group")) or self._shard(kind, identity),
            priority=self.priority if priority is None else priority,
            source=self.source,
        )

    def _shard(self, kind: str, identity: str) -> str | None:
        if self.shards is None:
            return None
        return f"{kind}:{uuid.uuid5(NAMESPACE, identity).int % self.shards}"


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _data(value: object) -> Any:
    if not isinstance(value, str):
        return _as_json(value)
    try:
        return json.loads(value, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its data is no JSON document: {error}") from error


def _as_json(value: object) -> Any:
    """Give what JSON has for a value of Spark: its own kinds, texts in ISO 8601 for dates and times."""
    if isinstance(value, Mapping):
        return {key: _as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, datetime):
        return (value if value.tzinfo is None else value.astimezone(UTC)).isoformat()
    return value.isoformat() if isinstance(value, date) else value


def _derived_id(kind: str, group: str | None, data: object) -> str:
    try:
        row = json.dumps([kind, group, data], sort_keys=True, separators=(",", ":"), allow_nan=False)
    except ValueError as error:
        raise ValueError(f"its data is not JSON: {error}") from error
    return str(uuid.uuid5(NAMESPACE, row))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
