"""The operations on an outbox in DynamoDB."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors
from lanes.aws.items import MAX_READ, number_in, pages_of, read_items, text_in
from lanes.aws.ledger import effect_key
from lanes.outbox.dynamodb.calls import Change, cancelled
from lanes.outbox.dynamodb.store import key_released
from lanes.outbox.dynamodb.table import (
    AUDIT,
    DEAD,
    DUE,
    HELD,
    PARKED,
    PARTS,
    READY,
    READY_INDEX,
    SHOWN_ATTRIBUTES,
    TIMERS_INDEX,
    chain_order,
    claim_order,
    entry_of,
    key_of,
    number,
    part_of,
    partition_of,
    sortable,
    text,
    timed_chain,
    unique_key_of,
    waiting,
)
from lanes.outbox.entry import RETRYABLE, WAITING, Entry, EntryState
from lanes.outbox.store import AuditEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from mypy_boto3_dynamodb import DynamoDBClient

    from lanes.outbox.dynamodb.store import DynamoDBOutboxStore

# A relay may park or wake the entry between two tries; all other changes end them.
MAX_TRIES = 3
# Aliases, since DynamoDB reserves words such as `state`.
_NAMES = {f"#{name}": name for name in SHOWN_ATTRIBUTES}
SHOWN = {"ProjectionExpression": ", ".join(_NAMES), "ExpressionAttributeNames": _NAMES}
AUDIT_TEXTS = ("action", "who", "filter", "before", "after")


class DynamoDBOutboxOperations:
    """
    Reads and changes the entries of one table for operators.

    Args:
        store: the store of the table.
    """

    def __init__(self, store: DynamoDBOutboxStore) -> None:
        self._store = store
        self._calls = store.calls

    def entries(self, states: Collection[EntryState]) -> Iterator[Entry]:
        """
        Read the entries in these states.

        Published entries need a scan of the table; the others come from the indexes.
        """
        if EntryState.PUBLISHED in states:
            published = {":published": text(EntryState.PUBLISHED.value)}
            yield from self._scan(published, "#state = :published", **SHOWN)
        wanted = frozenset(states) - {EntryState.PUBLISHED}
        for part in range(PARTS if wanted else 0):
            # By age: of a group, which is in one part, a later entry must not come to another lane before the earlier
            # ones, where a relay could claim it.
            keys = [found for _, found in sorted(self._keys(f"#{part}").items())]
            for start in range(0, len(keys), MAX_READ):
                for entry in self._read(keys[start : start + MAX_READ]):
                    if entry.state in wanted:
                        yield entry

    def _keys(self, part: str) -> dict[str, Any]:
        """Return the keys of a part's entries by their sort keys; an index has no more of an entry than that."""
        found: dict[str, Any] = {}
        # Timers before candidates: an entry that moves from one to the other meanwhile is read at least once.
        for index, key, value in (
            (TIMERS_INDEX, "timer", HELD),
            (TIMERS_INDEX, "timer", DEAD),
            (TIMERS_INDEX, "timer", PARKED),
            (TIMERS_INDEX, "timer", DUE),
            (READY_INDEX, "ready", READY),
        ):
            items = self._calls.query(
                limit=None,
                IndexName=index,
                KeyConditionExpression=f"{key} = :value",
                ExpressionAttributeValues={":value": text(value + part)},
            )
            found |= {
                item["sk"]["S"]: {"pk": item["pk"], "sk": item["sk"]}
                for item in items
                if timed_chain(item) is None
            }
        return found

    def _read(self, keys: list[Any]) -> list[Entry]:
        items = read_items(self._calls.client, self._calls.table, keys, **SHOWN)
        found = {item["sk"]["S"]: entry_of(item) for item in items}
        return [found[key["sk"]["S"]] for key in keys if key["sk"]["S"] in found]

    def _scan(self, values: dict[str, Any], condition: str, **parameters: Any) -> Iterator[Entry]:
        pages = pages_of(
            "Scan",
            self._calls.client.scan,
            TableName=self._calls.table,
            FilterExpression=condition,
            ExpressionAttributeValues=values,
            **parameters,
        )
        return (entry_of(item) for page in pages for item in page["Items"])

    def entry(self, entry_id: str) -> Entry | None:
        """Return one entry; an entry with a group needs a scan of the table, since its key is unknown."""
        by_id = self._scan({":id": text(entry_id)}, "#id = :id", ExpressionAttributeNames={"#id": "id"})
        return find_entry(self._calls.client, self._calls.table, entry_id, "") or next(by_id, None)

    def prioritize(self, entries: Iterable[Entry], *, priority: int, lane: str, now: float) -> int:
        """Change the priority of waiting entries; parked ones become candidates and are checked again."""

        def setting(entry: Entry) -> dict[str, Any]:
            moved: dict[str, Any] = {
                "priority": priority,
                "lane": lane,
                "claim_order": claim_order(entry, priority),
                "changed_at": now,
            }
            if entry.group is not None and not entry.is_scheduled:
                moved["chain_order"] = chain_order(entry, lane)
            if entry.is_parked:
                moved |= {"ready": part_of(READY, entry), "is_parked": None, "timer": None, "due_at": None}
            return moved

        return self._change(entries, setting, WAITING)

    def cancel(self, entries: Iterable[Entry], *, reason: str, now: float, expires_at: float) -> int:
        """Cancel waiting or abandoned entries."""

        def setting(entry: Entry) -> dict[str, Any]:
            return cancelled(entry, reason, now=now, expires_at=expires_at)

        return self._change(entries, setting, WAITING | {EntryState.ABANDONED}, keys_end_at=now)

    def retry(self, entries: Iterable[Entry], *, now: float) -> int:
        """Reset abandoned, cancelled or failed entries to pending."""

        def setting(entry: Entry) -> dict[str, Any]:
            return {
                "state": EntryState.PENDING.value,
                "attempts": 0,
                "changed_at": now,
                "expires_at": None,
                "next_attempt_at": None,
                # One that has ended waits without its key, which a later entry may have.
                "unique_key": entry.unique_key if entry.state is EntryState.FAILED else None,
                **waiting(replace(entry, is_scheduled=(entry.not_before or now) > now)),
            }

        return self._change(entries, setting, RETRYABLE)

    def _change(
        self,
        entries: Iterable[Entry],
        setting: Callable[[Entry], dict[str, Any]],
        states: Collection[EntryState],
        *,
        keys_end_at: float | None = None,
    ) -> int:
        changed = 0
        chains = set()
        for entry in entries:
            if entry.state in states and self._change_one(entry, setting, keys_end_at):
                changed += 1
                chains.add(entry.chain)
        # A cancelled or moved entry may have been the one that others waited for.
        self._store.wake(chains)
        return changed

    def _change_one(
        self, entry: Entry, setting: Callable[[Entry], dict[str, Any]], keys_end_at: float | None
    ) -> bool:
        """Change an entry if it is unchanged, except that a relay has parked it or let it join its group."""
        item, key = key_of(entry), entry.unique_key
        for _ in range(MAX_TRIES):
            same: dict[str, Any] = {"state": entry.state.value, "priority": entry.priority}
            same["is_parked"] = True if entry.is_parked else None
            same["is_scheduled"] = True if entry.is_scheduled else None
            change = Change(setting(entry), same=same)
            if (
                key is None
                or keys_end_at is None
                or not self._store.has_key({**item, "unique_key": text(key)})
            ):
                is_changed = self._calls.update(item, change) is not None
            else:
                # Both or none: an entry that waits without its key lets a second one wait, and a key without a waiting
                # entry would refuse all.
                ended = key_released(item["sk"]["S"], keys_end_at)
                is_changed = self._calls.update_both((item, change), (unique_key_of(key), ended))
            if is_changed:
                return True
            now = next(iter(self._read([item])), None)
            if now is None or (now.state, now.priority) != (entry.state, entry.priority):
                return False
            entry = now
        return False

    def add_audit(self, audit: AuditEntry) -> None:
        """Write an audit entry."""
        item = {
            "pk": text(AUDIT),
            "sk": text(f"{sortable(audit.at)}#{uuid.uuid4()}"),
            "at": number(audit.at),
            "changed": number(audit.changed),
            **{name: text(getattr(audit, name)) for name in AUDIT_TEXTS},
        }
        with aws_errors("PutItem"):
            self._calls.client.put_item(TableName=self._calls.table, Item=item)

    def audits(self) -> list[AuditEntry]:
        """Return the audit entries, latest first, up to 1 MB."""
        with aws_errors("Query"):
            answer = self._calls.client.query(
                TableName=self._calls.table,
                KeyConditionExpression="pk = :pk",
                ExpressionAttributeValues={":pk": text(AUDIT)},
                ScanIndexForward=False,
            )
        return [
            AuditEntry(
                at=number_in(item, "at"),
                changed=int(number_in(item, "changed")),
                **{name: text_in(item, name) for name in AUDIT_TEXTS},
            )
            for item in answer["Items"]
        ]


def find_entry(client: DynamoDBClient, table: str, entry_id: str, group: str) -> Entry | None:
    """Return an entry by its id, without a scan: one without a group, or one of this group; raises `AwsError`."""
    # The sort key begins with the time of writing, which the caller does not know, so the partition is read.
    for partition in dict.fromkeys([partition_of(entry_id, None), partition_of(entry_id, group or None)]):
        pages = pages_of(
            "Query",
            client.query,
            TableName=table,
            KeyConditionExpression="pk = :pk",
            FilterExpression="#id = :id",
            ExpressionAttributeNames={"#id": "id"},
            ExpressionAttributeValues={":pk": text(partition), ":id": text(entry_id)},
            ConsistentRead=True,
        )
        for page in pages:
            if page["Items"]:
                return entry_of(page["Items"][0])
    return None


def begun_effects(client: DynamoDBClient, table: str, entries: Iterable[Entry]) -> frozenset[str]:
    """
    Return the identities of messages that were begun or done, within the ledger's retention.

    Args:
        client: of DynamoDB.
        table: the ledger of a consumer with idempotency.
        entries: the entries.
    """
    # The consumer's own key (`Work.effect_id`).
    keys = {effect_key(entry.identity)["pk"]["S"]: entry.identity for entry in entries}
    found = read_items(client, table, [{"pk": text(name)} for name in keys])
    return frozenset(keys[item["pk"]["S"]] for item in found)
