"""
The ledger in one DynamoDB table, with the slot table and the effects of idempotency beside it.

Items, by their partition key `pk`:

- `message#LANE#ID`: an `Entry`; parked ones are in the sparse index `parked` by `parked_lane` and `parked_until`.
- `effect#SOURCE#KIND#ID`: an effect that runs or was done.
- `rate#PATTERN`: the state of a rate of kinds.
- `slots`: the slot table, one attribute for each environment and each lane with parked records.

Entries and effects expire by `expires_at`; the slot table stays. AWS: time to live deletes within days, so readers
also compare the time.
"""

from __future__ import annotations

import hashlib
import math
import time
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors
from lanes.aws.items import (
    CONDITION_FAILED,
    flag_in,
    key_parts,
    number_in,
    query_pages,
    read_items,
    sortable,
    text_in,
    write_items,
)
from lanes.consumer.ledger import NEXT_GENERATION, Blocking, Claim, Effect, Ending, Entry, Park
from lanes.errors import AwsError
from lanes.fault_codes import Cause, cause_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

KEPT_SECONDS = 15 * 24 * 3600
"""AWS: a message lives at most 14 days in a queue; its entry a day longer."""

# AWS: TransactWriteItems writes 100 items (DynamoDB API reference).
MOST_TRANSACTED = 100
# AWS: a partition key has at most 2,048 bytes (DynamoDB developer guide, "Constraints").
LONGEST_KEY, LARGEST_KEY_BYTES = 1_000, 2_000


class DynamoDBLedger:
    """The ledger of one deployment."""

    def __init__(self, *, table: str, client: DynamoDBClient, clock: Callable[[], float] = time.time) -> None:
        self._table = table
        self._client = client
        self._clock = clock
        self._has_unanswered = False
        self._hears_tries = False

    def read(self, lane: str, message_ids: Sequence[str]) -> dict[str, Entry]:
        """Return the entries that exist, by message id."""
        keys = [{"pk": {"S": entry_key(lane, message_id)}} for message_id in message_ids]
        entries = [entry_of(item) for item in read_items(self._client, self._table, keys)]
        return {entry.message_id: entry for entry in entries}

    def note(self, entries: Sequence[Entry]) -> None:
        """Write whole entries."""
        # The common case. A batch call may leave its item unprocessed, a PutItem writes or fails.
        if len(entries) == 1:
            self.amend(entries)
            return
        if not self._hears_tries:
            # Not before: it takes boto3's client, which a function may never need (`LeanClient`).
            self._client.meta.events.register("needs-retry.dynamodb.BatchWriteItem", self._note_try)
            self._hears_tries = True
        expires_at = int(self._clock()) + KEPT_SECONDS
        items = [item_of(entry, expires_at=expires_at, place=place) for place, entry in enumerate(entries)]
        self._has_unanswered = False
        try:
            write_items(self._client, self._table, items)
        except AwsError:
            if not self._has_unanswered:
                raise
        # Without a condition, a try that lands after the next receive's write would replace it.
        if self._has_unanswered:
            raise AwsError(
                operation="BatchWriteItem",
                code="NoAnswer",
                message="a try of the call got no answer, and may land late",
                retryable=True,
                answered=False,
            )

    def _note_try(
        self, *, response: tuple[Any, Any] | None, caught_exception: Exception | None, **_: Any
    ) -> None:
        """Note a try without an answer, which botocore repeats; a throttled one was refused before any work."""
        cause = Cause.OTHER if response is None else cause_of("", status=response[0].status_code)
        if caught_exception is not None or cause in {Cause.SERVER_FAULT, Cause.UNREACHABLE}:
            self._has_unanswered = True

    def amend(self, entries: Sequence[Entry]) -> None:
        """Write whole entries that are not outdated."""
        expires_at = int(self._clock()) + KEPT_SECONDS
        # One call each: a batch call takes no conditions, and refused returns are rare.
        for entry in entries:
            with suppress_failed_condition(), aws_errors("PutItem"):
                self._client.put_item(
                    TableName=self._table,
                    Item=item_of(entry, expires_at=expires_at),
                    **_unless_outdated(entry),
                )

    def unpark(self, entries: Sequence[Entry]) -> bool:
        """Note that records are parked no more, all of them or none."""
        try:
            # All or none holds within one transaction only, so the waker never asks for more (`MOST_BATCHES`).
            for start in range(0, len(entries), MOST_TRANSACTED):
                with aws_errors("TransactWriteItems"):
                    self._client.transact_write_items(
                        TransactItems=[
                            {"Update": self._unparking(entry)}
                            for entry in entries[start : start + MOST_TRANSACTED]
                        ]
                    )
        except AwsError as error:
            if error.code in {"TransactionCanceledException", "TransactionConflictException"}:
                return False
            raise
        return True

    def _unparking(self, entry: Entry) -> Any:
        return {
            "TableName": self._table,
            "Key": {"pk": {"S": entry_key(entry.lane, entry.message_id)}},
            "UpdateExpression": "REMOVE park, parked_lane, parked_until, parked_batch, receipt_handle",
            # Each receive has a new receipt: an entry that was received and parked again has another.
            "ConditionExpression": "receipt_handle = :receipt AND attribute_exists(parked_lane)",
            "ExpressionAttributeValues": {":receipt": {"S": entry.receipt_handle}},
        }

    def parked(self, lane: str, *, after: float, limit: int | None = None) -> list[Entry]:
        """Return the records of a lane that are parked until later than `after`."""
        pages = query_pages(
            self._client,
            TableName=self._table,
            KeyConditionExpression="parked_lane = :lane AND parked_until > :after",
            ExpressionAttributeValues={":lane": {"S": lane}, ":after": {"S": sortable(after)}},
        )
        return list(islice((entry_of(item) for page in pages for item in page["Items"]), limit))

    def begin_effect(self, effect_id: str, *, owner: str, now: float, until: float) -> Claim:
        """Claim an effect, unless it was done or runs elsewhere."""
        try:
            with aws_errors("UpdateItem"):
                self._client.update_item(
                    TableName=self._table,
                    Key=effect_key(effect_id),
                    UpdateExpression="SET effect_owner = :owner, owned_until = :until, expires_at = :expires"
                    " REMOVE done_at, done_in",
                    # The same owner again: the client repeats a call with a lost answer. `expires_at` is compared,
                    # since time to live deletes within days.
                    ConditionExpression="(attribute_not_exists(done_at) OR expires_at <= :now)"
                    " AND (attribute_not_exists(owned_until) OR effect_owner = :owner OR owned_until <= :now)",
                    ExpressionAttributeValues={
                        ":owner": {"S": owner},
                        ":now": number(now),
                        ":until": number(until),
                        ":expires": {"N": str(int(until) + KEPT_SECONDS)},
                    },
                )
        except AwsError as error:
            if error.code != CONDITION_FAILED:
                raise
            return self._effect_elsewhere(effect_id, owner, now)
        return Claim(Effect.BEGUN)

    def _effect(self, effect_id: str) -> Any:
        with aws_errors("GetItem"):
            answer = self._client.get_item(
                TableName=self._table, Key=effect_key(effect_id), ConsistentRead=True
            )
        return answer.get("Item", {})

    def _effect_elsewhere(self, effect_id: str, owner: str, now: float) -> Claim:
        item = self._effect(effect_id)
        if "done_at" in item and number_in(item, "expires_at", default=math.inf) > now:
            return Claim(Effect.DONE, done_in=text_in(item, "done_in"))
        holder, until = text_in(item, "effect_owner"), number_in(item, "owned_until")
        return Claim(Effect.held_by(holder, owner), until=until)

    def finish_effect(self, effect_id: str, *, owner: str, lane: str, now: float, keep_until: float) -> None:
        """Record that an effect was done, by any owner: it has happened."""
        with aws_errors("UpdateItem"):
            self._client.update_item(
                TableName=self._table,
                Key=effect_key(effect_id),
                UpdateExpression="SET done_at = :now, done_in = :lane, effect_owner = :owner, expires_at = :keep"
                " REMOVE owned_until",
                ExpressionAttributeValues={
                    ":lane": {"S": lane},
                    ":now": number(now),
                    ":owner": {"S": owner},
                    ":keep": {"N": str(int(keep_until))},
                },
            )

    def effect_done_at(self, effect_id: str) -> float:
        """Read when an effect was done last."""
        return number_in(self._effect(effect_id), "done_at")

    def swap_rate(self, pattern: str, known: str, new: str) -> str | None:
        """Replace the state of a rate if it is the known one; else return the one that is stored."""
        key, stored = {"pk": {"S": f"rate#{pattern}"}}, {":known": {"S": known}} if known else {}
        condition = "rate_times = :known" if known else "attribute_not_exists(pk)"
        expires_at = int(self._clock()) + KEPT_SECONDS
        with suppress_failed_condition(), aws_errors("UpdateItem"):
            self._client.update_item(
                TableName=self._table,
                Key=key,
                UpdateExpression="SET rate_times = :new, expires_at = :expires",
                ConditionExpression=condition,
                ExpressionAttributeValues={":new": {"S": new}, ":expires": {"N": str(expires_at)}, **stored},
            )
            return None
        with aws_errors("GetItem"):
            answer = self._client.get_item(TableName=self._table, Key=key, ConsistentRead=True)
        return text_in(answer.get("Item", {}), "rate_times")

    def release_effect(self, effect_id: str, *, owner: str) -> None:
        """Give a claim back, if it is still ours and nothing was done."""
        with suppress_failed_condition(), aws_errors("DeleteItem"):
            self._client.delete_item(
                TableName=self._table,
                Key=effect_key(effect_id),
                ConditionExpression="effect_owner = :owner AND attribute_not_exists(done_at)",
                ExpressionAttributeValues={":owner": {"S": owner}},
            )


def _unless_outdated(entry: Entry) -> Any:
    """Return the condition of a write: not `Entry.is_outdated_by` the stored item."""
    values = {
        ":earlier": number(entry.first_received_at - NEXT_GENERATION),
        ":receive": {"N": str(entry.noted_receive)},
    }
    same = "noted_receive = :receive"
    if entry.ending is Ending.STARTED:
        same, values[":started"] = f"({same} AND ending = :started)", {"S": entry.ending}
    known = f"first_received_at < :earlier OR noted_receive < :receive OR {same}"
    return {
        "ConditionExpression": f"attribute_not_exists(pk) OR {known}",
        "ExpressionAttributeValues": values,
    }


@contextmanager
def suppress_failed_condition() -> Iterator[None]:
    """Do nothing where a condition does not hold."""
    try:
        yield
    except AwsError as error:
        if error.code != CONDITION_FAILED:
            raise


def entry_key(lane: str, message_id: str) -> str:
    """Return the partition key of a message's entry."""
    return f"message#{lane}#{message_id}"


def effect_key(effect_id: str) -> dict[str, Any]:
    """Return the key of an effect; an id of any length fits, since long ones are hashed."""
    encoded = effect_id.encode()
    if len(effect_id) > LONGEST_KEY or len(encoded) > LARGEST_KEY_BYTES:
        return {"pk": {"S": f"hashed-effect#{hashlib.sha256(encoded).hexdigest()}"}}
    return {"pk": {"S": f"effect#{effect_id}"}}


def number(value: float) -> dict[str, str]:
    """Return a number as DynamoDB takes it."""
    return {"N": f"{value:.3f}"}


def item_of(entry: Entry, *, expires_at: int, place: int = 0) -> Any:
    """Return the item of an entry; only a parked one is in the index, by its end and its place among others."""
    item: dict[str, Any] = {
        "pk": {"S": entry_key(entry.lane, entry.message_id)},
        "lane": {"S": entry.lane},
        "message_id": {"S": entry.message_id},
        "attempts": {"N": str(entry.attempts)},
        "yields": {"N": str(entry.yields)},
        "returns": {"N": str(entry.returns)},
        "ending": {"S": entry.ending},
        "noted_receive": {"N": str(entry.noted_receive)},
        "noted_at": number(entry.noted_at),
        "first_received_at": number(entry.first_received_at),
        "suspect": {"BOOL": entry.suspect},
        "expires_at": {"N": str(expires_at)},
    }
    # AWS: each started KB of an item is a write unit (DynamoDB developer guide, read and write operations), so texts
    # are cut.
    if entry.last_error:
        item["last_error"] = {"S": entry.last_error[:1000]}
    if entry.unknown_since:
        item["unknown_since"] = number(entry.unknown_since)
    if entry.away_since:
        item["away_since"] = number(entry.away_since)
    if entry.given_up:
        item["given_up"] = {"S": entry.given_up[:1000]}
    if entry.end:
        item["end"] = {"S": entry.end}
    if entry.blocking is not None:
        texts = {name: {"S": getattr(entry.blocking, name)} for name in ("group", "kind", "id")}
        item["blocking"] = {"M": {**texts, "since": number(entry.blocking.since)}}
    if entry.park is not None:
        item["park"] = {"S": entry.park}
        item["parked_lane"] = {"S": entry.lane}
        # Its place as further decimals: an index gives items with equal keys in any order.
        item["parked_until"] = {"S": f"{sortable(entry.parked_until)}{place:03d}"}
        item["parked_batch"] = {"S": entry.batch}
        item["receipt_handle"] = {"S": entry.receipt_handle}
    return item


def entry_of(item: Any) -> Entry:
    """
    Read an entry from its item, also one of another release.

    An unknown ending explains no receive, so the next attempt is written ahead. A record with an unknown park returns
    by itself.
    """
    _, lane, message_id = key_parts(item)
    park = text_in(item, "park")
    return Entry(
        lane=lane,
        message_id=message_id,
        attempts=int(number_in(item, "attempts")),
        yields=int(number_in(item, "yields")),
        returns=int(number_in(item, "returns")),
        ending=_ENDINGS.get(text_in(item, "ending"), Ending.NONE),
        noted_receive=int(number_in(item, "noted_receive")),
        noted_at=number_in(item, "noted_at"),
        first_received_at=number_in(item, "first_received_at"),
        unknown_since=number_in(item, "unknown_since"),
        away_since=number_in(item, "away_since"),
        suspect=flag_in(item, "suspect"),
        last_error=text_in(item, "last_error"),
        given_up=text_in(item, "given_up"),
        end=text_in(item, "end"),
        blocking=_blocking_of(item),
        park=_PARKS.get(park, Park.REST) if park else None,
        parked_until=round(float(text_in(item, "parked_until") or 0.0), 3),
        batch=text_in(item, "parked_batch"),
        receipt_handle=text_in(item, "receipt_handle"),
    )


def _blocking_of(item: Any) -> Blocking | None:
    fields = item.get("blocking", {}).get("M")
    if fields is None:
        return None
    group, kind, name = (text_in(fields, field) for field in ("group", "kind", "id"))
    return Blocking(group=group, kind=kind, id=name, since=number_in(fields, "since"))


# The others end a message's stay in the queue, so no later receive asks for them.
_STORED = (
    Ending.NONE,
    Ending.STARTED,
    Ending.FAILED,
    Ending.YIELDED,
    Ending.RETURNED,
    Ending.CRASHED,
    Ending.DONE,
)
_ENDINGS = {ending.value: ending for ending in _STORED}
_PARKS = {park.value: park for park in Park}
