"""
The table of an outbox in DynamoDB: its keys and indexes, and an entry as its item.

Keys and indexes:

- `pk` is `group#GROUP`, or `entry#ID` where there is no group; `sk` is POSITION#ID.
- `ready` (sparse): candidates by `claim_order`, which is the inverted priority, POSITION, ID.
- `timers` (sparse): by `due_at`, with the purpose in `timer`.
- Both are spread over `PARTS` keys each, such as `ready#3`, by a hash of `pk`.
- `chains` (sparse, and local, so that it can be read consistently): unfinished entries of a group by `chain_order`,
  which is LANE#POSITION#ID.
- The timer of a group with parked entries is under `group#GROUP` and `timer#LANE`, in the index of timers.
- The counter of a locked group is under `counter#GROUP`, with `last_position`; a unique key is under `unique#KEY`, with
  the `holder`, the `sk` of the entry that waits.
- Audit entries are under `pk` `audit`.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

from lanes.aws.errors import aws_errors
from lanes.errors import AwsError, EntryTooLargeError
from lanes.outbox.entry import MICROSECONDS, Entry, EntryState, chain_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mypy_boto3_dynamodb import DynamoDBClient

READY_INDEX, TIMERS_INDEX, CHAINS_INDEX = "ready", "timers", "chains"
# `parked` lists entries that wait for an earlier one of their group, by their age, `dead` abandoned and cancelled ones,
# and `held` those of them that hold their group.
READY, DUE, PARKED, DEAD, HELD = "ready", "due", "parked", "dead", "held"

# AWS: a partition of an index takes 1,000 write units a second, and an index that can't keep up throttles the writes to
# its table (DynamoDB developer guide, "GSI write throttling and back pressure"). An entry takes two units in each
# index, so a part carries 500 entries a second. Readers and writers must agree on the number, so it is not a setting
# (docs/decisions.md#parts-of-the-outboxs-indexes).
PARTS = 8
AUDIT = "audit"

# AWS: an item has at most 400 KB of names and values, including copies in local indexes (DynamoDB quotas). The
# attributes that a relay writes later, mainly the text of an error, must fit as well.
LARGEST_ITEM_BYTES = 400 * 1024
RESERVED_BYTES = 6 * 1024
PRIORITY_ORIGIN = 2**31
# Of a counter that nobody writes to, and of a released key.
KEPT_SECONDS = 7 * 86_400

# The attributes of an entry except for its body, which may have hundreds of kilobytes.
SHOWN_ATTRIBUTES = (
    "pk", "sk", "id", "kind", "source", "message_group", "priority", "lane", "position", "created_at", "state",
    "attempts", "last_error", "locked_by", "locked_until", "next_attempt_at", "changed_at", "published_at",
    "sequence_number", "expires_at", "is_parked", "chain_order", "not_before", "is_scheduled", "unique_key",
)  # fmt: skip

_serializer = TypeSerializer()
_deserializer = TypeDeserializer()


def put_action(table: str, entry: Entry) -> dict[str, Any]:
    """
    Return the action that writes a new entry.

    Raises:
        EntryTooLargeError: the item would exceed DynamoDB's limit.
    """
    item = item_of(entry)
    size = item_bytes(item)
    limit = LARGEST_ITEM_BYTES - RESERVED_BYTES
    if size > limit:
        raise EntryTooLargeError(size_bytes=size, limit_bytes=limit)
    return {
        "Put": {"TableName": table, "Item": item, "ConditionExpression": "attribute_not_exists(pk)"},
    }


def counter_of(group: str, last: int) -> dict[str, Any]:
    """Return the item with the last number of a group that its writers lock."""
    # By then every clock is past the number.
    expires_at = last // MICROSECONDS + KEPT_SECONDS
    key = {"pk": text(f"counter#{group}"), "sk": text("counter")}
    return {**key, "last_position": number(last), "expires_at": number(expires_at)}


def unique_key_of(key: str) -> dict[str, Any]:
    """Return the primary key of a unique key."""
    return {"pk": text(f"unique#{key}"), "sk": text("unique")}


def timer_of(chain: str) -> dict[str, Any]:
    """Return the primary key of the timer of a chain, at which a relay looks whether its first entry is parked."""
    lane, _, group = chain.partition("#")
    return {"pk": text(partition_of("", group)), "sk": text(f"timer#{lane}")}


def timed_chain(item: Mapping[str, Any]) -> str | None:
    """Return the chain of a timer in the index of timers; None if the item is an entry."""
    kind, _, lane = item["sk"]["S"].partition("#")
    return chain_of(lane, item["pk"]["S"].partition("#")[2]) if kind == "timer" else None


def item_of(entry: Entry) -> dict[str, Any]:
    """Return the item of a new entry, which is a candidate."""
    item = {
        **key_of(entry),
        "id": text(entry.id),
        "kind": text(entry.kind),
        "source": text(entry.source),
        "body": text(entry.body),
        "priority": number(entry.priority),
        "lane": text(entry.lane),
        "position": number(entry.position),
        "created_at": number(entry.created_at),
        "state": text(entry.state.value),
        "attempts": number(0),
        "changed_at": number(entry.created_at),
        "claim_order": text(claim_order(entry, entry.priority)),
    }
    if entry.group is not None:
        item["message_group"] = text(entry.group)
    if entry.unique_key is not None:
        item["unique_key"] = text(entry.unique_key)
    if entry.not_before is not None:
        item["not_before"] = number(entry.not_before)
    return item | {name: typed(value) for name, value in waiting(entry).items() if value is not None}


def waiting(entry: Entry) -> dict[str, Any]:
    """Return the attributes of an entry that waits: as a candidate in its group, or until its time; None is absent."""
    at = entry.not_before if entry.is_scheduled else None
    return {
        "ready": part_of(READY, entry) if at is None else None,
        "chain_order": None if at is not None or entry.group is None else chain_order(entry, entry.lane),
        "timer": None if at is None else part_of(DUE, entry),
        "due_at": None if at is None else sortable(at),
        "is_scheduled": None if at is None else True,
        "is_parked": None,
    }


def entry_of(item: Mapping[str, Any]) -> Entry:
    """
    Read an entry from its item.

    An invalid item becomes an entry without a body, so that the relay abandons it and operators see it.
    """
    try:
        return _entry_of(item)
    except (KeyError, ValueError, TypeError, ArithmeticError):
        return _unreadable(item)


def _unreadable(item: Mapping[str, Any]) -> Entry:
    kind, _, group = item["pk"]["S"].partition("#")
    return Entry(
        id=item["sk"]["S"].partition("#")[2],
        kind="",
        source="",
        group=group if kind == "group" else None,
        body="",
        priority=0,
        lane=item.get("lane", {}).get("S", ""),
        position=position_of(item) or 0,
        created_at=(position_of(item) or 0) / MICROSECONDS,
        state=state_of(item) or EntryState.PENDING,
        last_error=item.get("last_error", {}).get("S", ""),
        locked_by=item.get("locked_by", {}).get("S"),
        is_parked="is_parked" in item,
    )


def state_of(item: Mapping[str, Any]) -> EntryState | None:
    """Return the state of an item, or None if it is invalid."""
    stated = item.get("state", {}).get("S")
    return next((state for state in EntryState if state == stated), None)


def position_of(item: Mapping[str, Any]) -> int | None:
    """Return the position in an item's key, or None if the key is not that of an entry."""
    position = item["sk"]["S"].partition("#")[0]
    return int(position) if position.isdecimal() else None


def sendable_from(item: Mapping[str, Any]) -> float | None:
    """Return the time from which the entry of an item in an index could be sent; None if its key is invalid."""
    position = position_of(item)
    if position is None:
        return None
    return max(position / MICROSECONDS, float(item.get("not_before", {}).get("N", 0)))


def _entry_of(item: Mapping[str, Any]) -> Entry:
    plain = {name: _deserializer.deserialize(value) for name, value in item.items()}
    return Entry(
        id=plain["id"],
        kind=plain["kind"],
        source=plain["source"],
        group=plain.get("message_group"),
        # Lists leave it out; an entry without one that a relay reads is unreadable.
        body=plain.get("body", ""),
        priority=int(plain["priority"]),
        lane=plain["lane"],
        position=int(plain["position"]),
        created_at=float(plain["created_at"]),
        state=EntryState(plain["state"]),
        attempts=int(plain["attempts"]),
        last_error=plain.get("last_error", ""),
        locked_by=plain.get("locked_by"),
        locked_until=_optional(plain.get("locked_until")),
        next_attempt_at=_optional(plain.get("next_attempt_at")),
        changed_at=float(plain["changed_at"]),
        published_at=_optional(plain.get("published_at")),
        sequence_number=plain.get("sequence_number", ""),
        expires_at=_optional(plain.get("expires_at")),
        is_parked=plain.get("is_parked", False),
        not_before=_optional(plain.get("not_before")),
        is_scheduled=plain.get("is_scheduled", False),
        unique_key=plain.get("unique_key"),
        holds_group=plain["state"] == EntryState.ABANDONED and "chain_order" in plain,
    )


def key_of(entry: Entry) -> dict[str, Any]:
    """Return the primary key of an entry."""
    # A group is one partition: only a local index can be read consistently, and it has its table's partitions.
    return {"pk": text(partition_of(entry.id, entry.group)), "sk": text(f"{entry.position:020d}#{entry.id}")}


def parts_of(name: str) -> list[str]:
    """Return the keys of all parts of an index, such as `ready#0`."""
    return [f"{name}#{number}" for number in range(PARTS)]


def part_of(name: str, entry: Entry) -> str:
    """Return the key of an entry's part."""
    return part_of_key(name, partition_of(entry.id, entry.group))


def part_of_key(name: str, pk: str) -> str:
    """Return the key of the part of an index that has the items of a partition of the table."""
    return f"{name}#{zlib.crc32(pk.encode()) % PARTS}"


def partition_of(entry_id: str, group: str | None) -> str:
    """Return the partition key, which the entries of a group share."""
    return f"entry#{entry_id}" if group is None else f"group#{group}"


def claim_order(entry: Entry, priority: int) -> str:
    """Return the position in claim order as a string that sorts."""
    return f"{_inverted(priority)}#{entry.position:020d}#{entry.id}"


def claim_bounds(lowest: int | None, highest: int | None) -> tuple[str, str]:
    """Return the first and last claim order of a range of priorities."""
    # A tilde sorts after all digits and after the separator.
    return ("0" if highest is None else _inverted(highest)), (
        "~" if lowest is None else f"{_inverted(lowest)}#~"
    )


def chain_order(entry: Entry, lane: str) -> str:
    """Return the position among the unfinished entries of the group in a lane."""
    return f"{lane}#{entry.position:020d}#{entry.id}"


def _inverted(priority: int) -> str:
    # An entry that another program wrote may exceed the limits; it then sorts first or last.
    # Inverted: one ascending read gives the highest priority first, and the oldest entry first within it.
    bounded = max(1 - PRIORITY_ORIGIN, min(PRIORITY_ORIGIN - 1, priority))
    return f"{PRIORITY_ORIGIN - bounded:010d}"


def sortable(moment: float) -> str:
    """Return a time as a string that sorts."""
    return f"{moment:017.6f}"


def text(value: str) -> dict[str, str]:
    """Return a string as an attribute value."""
    return {"S": value}


def number(value: float) -> dict[str, str]:
    """Return a number as an attribute value."""
    return {"N": f"{value:.6f}" if isinstance(value, float) else str(value)}


def typed(value: Any) -> dict[str, Any]:
    """Return any plain value as an attribute value."""
    if isinstance(value, float):
        return number(value)
    serialised: Any = _serializer.serialize(value)
    return dict(serialised)


def item_bytes(item: Mapping[str, Any]) -> int:
    """
    Return the size of an item, rounded up where DynamoDB's documentation is vague.

    AWS: names and values in UTF-8; a number takes at most 21 bytes, true and false one; a list or map takes 3 and one
    for each element (DynamoDB, "Item sizes and formats").
    """
    return sum(len(name.encode()) + _value_bytes(value) for name, value in item.items())


def _value_bytes(value: Mapping[str, Any]) -> int:
    kind, content = next(iter(value.items()))
    if kind == "S":
        return len(content.encode())
    if kind == "B":
        return len(content)
    if kind == "N":
        # A byte for two digits and one more, rounded up (DynamoDB, "Item sizes and formats").
        return min(21, len(content) // 2 + 2)
    if kind == "M":
        return 3 + item_bytes(content) + len(content)
    if kind == "L":
        return 3 + sum(_value_bytes(one) + 1 for one in content)
    return _set_bytes(kind, content)


def _set_bytes(kind: str, content: Any) -> int:
    if kind in {"SS", "NS", "BS"}:
        return sum(_value_bytes({kind[0]: one}) for one in content)
    return 1


def _optional(value: Any) -> float | None:
    return None if value is None else float(value)


TTL_ATTRIBUTE = "expires_at"
KEY = ("pk", "sk")
# Keys of each index, and attributes besides the keys.
GLOBAL_INDEXES = {
    READY_INDEX: (("ready", "claim_order"), ("lane", "state", "not_before")),
    TIMERS_INDEX: (("timer", "due_at"), ("lane", "state", "not_before", "is_scheduled", "unique_key")),
}
# AWS: a local index is created with its table or never (DynamoDB developer guide, local secondary indexes).
LOCAL_INDEXES = {CHAINS_INDEX: (("pk", "chain_order"), ("is_parked",))}


def description(table: str) -> dict[str, Any]:
    """Return the parameters of CreateTable."""
    keys = [KEY, *(keys for keys, _ in (*GLOBAL_INDEXES.values(), *LOCAL_INDEXES.values()))]
    attributes = dict.fromkeys(name for pair in keys for name in pair)
    return {
        "TableName": table,
        "KeySchema": _key_schema(KEY),
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in attributes],
        "GlobalSecondaryIndexes": [_index(name, *parts) for name, parts in GLOBAL_INDEXES.items()],
        "LocalSecondaryIndexes": [_index(name, *parts) for name, parts in LOCAL_INDEXES.items()],
        "BillingMode": "PAY_PER_REQUEST",
        "SSESpecification": {"Enabled": True},
        # Keys are enough: the stream wakes a relay, which reads its candidates from the index, the most urgent first.
        "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"},
    }


def create_table(client: DynamoDBClient, table: str) -> bool:
    """
    Create the table with its indexes, stream and time to live; return False if it already exists.

    Raises:
        AwsError: a call failed.
    """
    try:
        with aws_errors("CreateTable"):
            client.create_table(**description(table))
    except AwsError as error:
        if error.code != "ResourceInUseException":
            raise
        return False
    client.get_waiter("table_exists").wait(TableName=table)
    with aws_errors("UpdateTimeToLive"):
        client.update_time_to_live(
            TableName=table,
            TimeToLiveSpecification={"Enabled": True, "AttributeName": TTL_ATTRIBUTE},
        )
    return True


def _key_schema(keys: tuple[str, str]) -> list[dict[str, str]]:
    partition, sort = keys
    return [
        {"AttributeName": partition, "KeyType": "HASH"},
        {"AttributeName": sort, "KeyType": "RANGE"},
    ]


def _index(name: str, keys: tuple[str, str], included: tuple[str, ...]) -> dict[str, Any]:
    return {
        "IndexName": name,
        "KeySchema": _key_schema(keys),
        "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": list(included)},
    }
