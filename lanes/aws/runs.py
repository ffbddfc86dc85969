"""
Runs as items of the consumer's table.

- `run#NAME`: a `Head`; in the index by the time of its opening.
- `run#NAME#CHUNKS#KEY#0#INDEX`: a `Chunk`, with sets of fingerprints: one for each end (`END_NAMES`), and members, `m`.
- `run#NAME#CHUNKS#KEY#LEVEL#INDEX`: a node of the tree, with the counts of each complete child.

A message with a wrong number of chunks or key in its mark changes no other item.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors
from lanes.aws.items import CONDITION_FAILED, latest_in, number_in, read_items, sortable, text_in
from lanes.errors import AwsError
from lanes.runs import Chunk, Counts, End, Head, Mark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mypy_boto3_dynamodb import DynamoDBClient

PARTITION = "run"
"""Partition of the index in which heads are found: no lane's name begins with a small letter."""

KEPT_SECONDS = 45 * 24 * 3600
"""AWS: a message lives at most 14 days in a queue, and as long in its dead-letter queue; from the last write."""

END_NAMES = {End.DONE: "d", End.CANCELLED: "c", End.EXPIRED: "e", End.DEAD_LETTERED: "x"}
TEXTS = ("key", "on_complete", "source", "members", "who", "why")
TIMES = ("opened_at", "sealed_at", "ended_at", "announced_at", "closed_at")
CHILD = "n"


class DynamoDBRuns:
    """The runs of one deployment; every method raises `AwsError`."""

    def __init__(self, *, table: str, client: DynamoDBClient, clock: Callable[[], float] = time.time) -> None:
        self._table = table
        self._client = client
        self._clock = clock

    def open_run(self, head: Head) -> Head:
        """Write a head unless there is one; return the stored one."""
        now = self._clock()
        values = {
            "chunks": _number(head.chunks),
            "key": {"S": head.key},
            "opened_at": _number(now),
            "on_complete": {"S": head.on_complete},
            "source": {"S": head.source},
            "priority": _number(head.priority),
            "parked_lane": {"S": PARTITION},
            "parked_until": {"S": sortable(now)},
        }
        written = self._update(head_key(head.name), set_=values, condition="attribute_not_exists(pk)")
        return _head(written) if written is not None else self.head(head.name) or head

    def head(self, name: str) -> Head | None:
        """Return a head."""
        with aws_errors("GetItem"):
            answer = self._client.get_item(TableName=self._table, Key=head_key(name), ConsistentRead=True)
        item: Any = answer.get("Item")
        return _head(item) if item else None

    def fix_members(self, name: str, *, total: int, members: str) -> bool:
        """Fix the members of an open run; False if others are fixed, or the run was closed."""
        written = self._update(
            head_key(name),
            set_={"total": _number(total), "members": {"S": members}},
            condition="attribute_exists(#chunks) AND attribute_not_exists(#closed_at) "
            "AND (attribute_not_exists(#total) OR (#total = :total AND #members = :members))",
            names=("chunks", "closed_at"),
        )
        return written is not None

    def seal_chunk(self, mark: Mark, index: int, members: frozenset[bytes]) -> Chunk | None:
        """Write the members of a chunk, and return it; None if it has others."""
        values: dict[str, Any] = {"size": _number(len(members))}
        same = "#size = :size"
        if members:
            values["m"] = {"BS": sorted(members)}
            same += " AND #m = :m"
        written = self._update(
            node_key(mark, 0, index),
            set_=values,
            condition=f"attribute_not_exists(#size) OR ({same})",
        )
        return None if written is None else _chunk(written)

    def sealed(self, name: str) -> None:
        """Note that every chunk is sealed."""
        self._set_once(name, "sealed_at")

    def add_end(self, mark: Mark, index: int, end: End, fingerprint: bytes) -> Chunk:
        """Add an end to a chunk, and return it."""
        written = self._update(node_key(mark, 0, index), add=(END_NAMES[end], {"BS": [fingerprint]}))
        return _chunk(written or {})

    def add_child(self, mark: Mark, level: int, index: int, child: int, counts: Counts) -> list[Counts]:
        """Write the counts of a complete child to a node of the tree, and return those of all its children."""
        key = node_key(mark, level, index)
        written = self._update(key, set_={f"{CHILD}{child}": {"S": counts.text}}) or {}
        return [Counts.parse(text_in(written, name)) for name in written if name[1:].isdigit()]

    def end_run(self, mark: Mark, counts: Counts) -> Head | None:
        """Note that every member has an end, and return the head; None if there is no such run, or it is open."""
        written = self._update(
            head_key(mark.name),
            once={"ended_at": _number(self._clock()), "final": {"S": counts.text}},
            # A run of this name before, whose head was deleted, may have had another key.
            condition="attribute_exists(#total) AND #chunks = :chunks AND #key = :key",
            names=("total",),
            values={"chunks": _number(mark.chunks), "key": {"S": mark.key}},
        )
        return None if written is None else _head(written)

    def announced(self, name: str) -> None:
        """Note that the end was announced."""
        self._set_once(name, "announced_at")

    def close(self, name: str, *, who: str, why: str) -> bool:
        """Close a run; False if it has ended or was closed before."""
        written = self._update(
            head_key(name),
            set_={"closed_at": _number(self._clock()), "who": {"S": who}, "why": {"S": why}},
            condition="attribute_exists(#chunks) AND attribute_not_exists(#ended_at) "
            "AND attribute_not_exists(#closed_at)",
            names=("chunks", "ended_at"),
        )
        return written is not None

    def chunks(self, mark: Mark, indexes: Iterable[int]) -> list[Chunk]:
        """Return those of the chunks that exist."""
        keys = [node_key(mark, 0, index) for index in indexes]
        return [_chunk(item) for item in read_items(self._client, self._table, keys)]

    def heads(self, *, since: float, limit: int) -> list[Head]:
        """Return the runs opened since a time, the latest first."""
        items = latest_in(PARTITION, client=self._client, table=self._table, since=since, limit=limit)
        return [_head(item) for item in items]

    def _set_once(self, name: str, attribute: str) -> None:
        self._update(
            head_key(name),
            once={attribute: _number(self._clock())},
            condition="attribute_exists(#chunks)",
            names=("chunks",),
        )

    def _update(
        self,
        key: Any,
        *,
        set_: dict[str, Any] | None = None,
        once: dict[str, Any] | None = None,
        add: tuple[str, Any] | None = None,
        condition: str = "",
        names: tuple[str, ...] = (),
        values: dict[str, Any] | None = None,
    ) -> dict[str, Any] | None:
        """Update an item and renew its time to live; return it as it then is, or None if the condition fails."""
        set_ = {**(set_ or {}), "expires_at": _number(int(self._clock()) + KEPT_SECONDS)}
        given = {**set_, **(once or {}), **(values or {}), **(dict([add]) if add else {})}
        parts = [f"#{name} = :{name}" for name in set_]
        parts += [f"#{name} = if_not_exists(#{name}, :{name})" for name in once or ()]
        where: Any = {"ConditionExpression": condition} if condition else {}
        added = f" ADD #{add[0]} :{add[0]}" if add else ""
        try:
            with aws_errors("UpdateItem"):
                answer = self._client.update_item(
                    TableName=self._table,
                    Key=key,
                    UpdateExpression=f"SET {', '.join(parts)}{added}",
                    ExpressionAttributeNames={f"#{name}": name for name in (*given, *names)},
                    ExpressionAttributeValues={f":{name}": value for name, value in given.items()},
                    ReturnValues="ALL_NEW",
                    **where,
                )
        except AwsError as error:
            if error.code == CONDITION_FAILED:
                return None
            raise
        return dict(answer["Attributes"])


def head_key(name: str) -> Any:
    """Return the key of a head."""
    return {"pk": {"S": f"run#{name}"}}


def node_key(mark: Mark, level: int, index: int) -> Any:
    """Return the key of a chunk, which has level 0, or of a node of the tree."""
    return {"pk": {"S": f"run#{mark.name}#{mark.chunks}#{mark.key}#{level}#{index}"}}


def _number(value: float) -> Any:
    return {"N": str(value)}


def _chunk(item: dict[str, Any]) -> Chunk:
    ends = {end: _set_in(item, name) for end, name in END_NAMES.items() if name in item}
    return Chunk(ends, _set_in(item, "m") if "size" in item else None)


def _set_in(item: dict[str, Any], name: str) -> frozenset[bytes]:
    return frozenset(bytes(one) for one in item.get(name, {}).get("BS", ()))


def _head(item: dict[str, Any]) -> Head:
    final = text_in(item, "final")
    texts: Any = {name: text_in(item, name) for name in TEXTS}
    times: Any = {name: number_in(item, name) for name in TIMES}
    return Head(
        name=text_in(item, "pk").partition("#")[2],
        chunks=int(number_in(item, "chunks", default=1)),
        priority=int(number_in(item, "priority")),
        total=int(number_in(item, "total")) if "total" in item else None,
        final=Counts.parse(final) if final else None,
        **texts,
        **times,
    )
