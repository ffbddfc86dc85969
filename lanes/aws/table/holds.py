"""
Held groups as items of the ledger's table: the consumer's side, and the operators'.

The item of the active overrides counts the held groups of each lane, in one transaction with every change. Without a
count for its lane, an environment reads nothing more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors
from lanes.aws.table.items import key_parts, number_in, read_items, text_in
from lanes.aws.table.ledger import INDEX, number, sortable
from lanes.aws.table.override_items import BOARD, HELD
from lanes.errors import AwsError
from lanes.holds import Hold

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

SHELF = "held"
"""Partition of the index in which holds are found: no lane's name begins with a small letter."""

LONGEST_TEXT = 1_000
# AWS: a transaction is cancelled for a conflict as well (API_TransactWriteItems). It is taken for a failed condition
# here, and the caller's next step finds the item as it is.
CONDITION_FAILED = frozenset({"ConditionalCheckFailedException", "TransactionCanceledException"})


class DynamoDBHolds:
    """The held groups of one deployment; every method raises `AwsError`."""

    def __init__(self, *, table: str, client: DynamoDBClient) -> None:
        self._table = table
        self._client = client

    def read(self, lane: str, groups: Sequence[str]) -> dict[str, Hold]:
        """Return those of the groups that are held, by group."""
        keys = [_key(lane, group) for group in groups]
        found = [_hold(item) for item in read_items(self._client, self._table, keys)]
        return {hold.group: hold for hold in found}

    def begin(self, hold: Hold) -> None:
        """Hold a group, or give its hold a new leader."""
        put = {
            "TableName": self._table,
            "Item": item_of(hold),
            "ConditionExpression": "attribute_not_exists(pk)",
        }
        if self._transacted([{"Put": put}, self._counted(hold.lane, 1)]):
            return
        changed = self._changed(
            hold.lane,
            hold.group,
            "SET leader = :leader, id = :id, reason = :reason, last_error = :error, is_again = :yes"
            # A new dead letter closes the group again: copies behind it must not overtake it.
            f" {CLOSE}, has_arrived, is_released",
            condition="attribute_exists(pk)",
            values={
                ":leader": {"S": hold.leader},
                ":id": {"S": hold.id},
                ":reason": {"S": hold.reason[:LONGEST_TEXT]},
                ":error": {"S": hold.error[:LONGEST_TEXT]},
                **YES,
            },
        )
        if not changed:
            raise AwsError(operation="TransactWriteItems", code="HoldEndedMeanwhile", retryable=True)

    def arrived(self, lane: str, group: str, *, leader: str) -> None:
        """Record that the leader is in the dead-letter queue, unless the group has another one by now."""
        values = {":leader": {"S": leader}, **YES}
        self._changed(lane, group, "SET has_arrived = :yes", condition="leader = :leader", values=values)

    def behind(self, lane: str, group: str, *, closes: bool = False) -> bool:
        """Count one that follows into the dead-letter queue, unless the hold lets go or is over."""
        one = {":one": {"N": "1"}}
        if closes:
            update = f"ADD behind :one SET is_again = :yes {CLOSE}"
            return self._changed(lane, group, update, condition="attribute_exists(pk)", values={**one, **YES})
        condition = "attribute_exists(pk) AND attribute_not_exists(is_releasing)"
        return self._changed(lane, group, "ADD behind :one", condition=condition, values=one)

    def send_behind(self, lane: str, group: str, *, copy: str) -> bool:
        """Record that a copy is about to be sent behind the others, if the hold is being released."""
        return self._changed(
            lane,
            group,
            "SET last_copy = :copy",
            condition="attribute_exists(is_releasing)",
            values={":copy": {"S": copy}},
        )

    def copy_done(self, lane: str, group: str, *, copy: str) -> None:
        """Note that a copy is done; the last one ends a hold that lets go."""
        last = {":copy": {"S": copy}}
        if not self._ended(lane, group, "last_copy = :copy AND attribute_exists(is_releasing)", last):
            self._changed(lane, group, "REMOVE last_copy", condition="last_copy = :copy", values=last)

    def open(self, lane: str, group: str, *, opening: str) -> bool:
        """Let the copies of an opening pass; return False where the group is not held, or has another opening."""
        return self._changed(
            lane,
            group,
            "SET opening = :opening",
            condition="attribute_exists(pk) AND (attribute_not_exists(opening) OR opening = :opening)",
            values={":opening": {"S": opening}},
        )

    def sending(self, lane: str, group: str, *, copy: str, opening: str) -> bool:
        """Note that a copy of a dead letter is about to be sent; return False where copies pass no more."""
        return self._changed(
            lane,
            group,
            "SET last_copy = :copy",
            condition="opening = :opening",
            values={":copy": {"S": copy}, ":opening": {"S": opening}},
        )

    def let_go(self, hold: Hold) -> bool:
        """
        End a hold of which no dead letter is left: now, or when the last copy is done.

        Returns:
            False where another one has followed into the dead-letter queue since the hold was read, or the leader is
            still on its way there.
        """
        unchanged = "behind = :behind AND leader = :leader AND attribute_exists(has_arrived)"
        values = {":behind": {"N": str(hold.behind)}, ":leader": {"S": hold.leader}}
        if self._ended(hold.lane, hold.group, f"{unchanged} AND attribute_not_exists(last_copy)", values):
            return True
        return self._changed(
            hold.lane,
            hold.group,
            "SET is_releasing = :yes",
            condition=unchanged,
            values={**values, **YES},
        )

    def end(self, lane: str, group: str) -> bool:
        """End a hold: at once, or for a leader on its way when that arrives; return False where there is none."""
        if self._ended(lane, group, "attribute_exists(has_arrived)", None):
            return True
        return self._changed(
            lane, group, "SET is_released = :yes", condition="attribute_exists(pk)", values=YES
        )

    def forget(self, lane: str, group: str) -> None:
        """Remove a hold that was released before its leader arrived."""
        self._ended(lane, group, "attribute_exists(is_released)", None)

    def held(self, lane: str | None = None) -> list[Hold]:
        """Return the held groups, those held longest first."""
        found: list[Hold] = []
        start: dict[str, Any] = {}
        while True:
            with aws_errors("Query"):
                page = self._client.query(
                    TableName=self._table,
                    IndexName=INDEX,
                    KeyConditionExpression="parked_lane = :shelf",
                    ExpressionAttributeValues={":shelf": {"S": SHELF}},
                    **start,
                )
            found += [_hold(item) for item in page["Items"]]
            if "LastEvaluatedKey" not in page:
                return [hold for hold in found if lane in (None, hold.lane)]
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}

    def _changed(
        self, lane: str, group: str, update: str, *, condition: str, values: Mapping[str, Any]
    ) -> bool:
        try:
            with aws_errors("UpdateItem"):
                self._client.update_item(
                    TableName=self._table,
                    Key=_key(lane, group),
                    UpdateExpression=update,
                    ConditionExpression=condition,
                    ExpressionAttributeValues=dict(values),
                )
        except AwsError as error:
            if error.code in CONDITION_FAILED:
                return False
            raise
        return True

    def _ended(self, lane: str, group: str, condition: str, values: Mapping[str, Any] | None) -> bool:
        delete: dict[str, Any] = {
            "TableName": self._table,
            "Key": _key(lane, group),
            "ConditionExpression": condition,
        }
        if values:
            delete["ExpressionAttributeValues"] = dict(values)
        return self._transacted([{"Delete": delete}, self._counted(lane, -1)])

    def _counted(self, lane: str, change: int) -> Any:
        return {
            "Update": {
                "TableName": self._table,
                "Key": BOARD,
                "UpdateExpression": "ADD #held :change",
                "ExpressionAttributeNames": {"#held": HELD + lane},
                "ExpressionAttributeValues": {":change": {"N": str(change)}},
            }
        }

    def _transacted(self, items: Sequence[Any]) -> bool:
        try:
            with aws_errors("TransactWriteItems"):
                self._client.transact_write_items(TransactItems=items)
        except AwsError as error:
            if error.code in CONDITION_FAILED:
                return False
            raise
        return True


YES = {":yes": {"BOOL": True}}
CLOSE = "REMOVE opening, is_releasing, last_copy"
FLAGS = {
    "has_arrived": "arrived",
    "is_again": "again",
    "is_released": "released",
    "is_releasing": "releasing",
}
"""Attributes that are there or not, and the fields of a hold that they are."""


def _key(lane: str, group: str) -> Any:
    return {"pk": {"S": f"hold#{lane}#{group}"}}


def item_of(hold: Hold) -> Any:
    """Return the item of a held group."""
    item = {
        **_key(hold.lane, hold.group),
        "parked_lane": {"S": SHELF},
        "parked_until": {"S": sortable(hold.since)},
        "lane": {"S": hold.lane},
        "group": {"S": hold.group},
        "leader": {"S": hold.leader},
        "id": {"S": hold.id},
        "reason": {"S": hold.reason[:LONGEST_TEXT]},
        "last_error": {"S": hold.error[:LONGEST_TEXT]},
        "since": number(hold.since),
        "behind": {"N": str(hold.behind)},
    }
    flags = {name: YES[":yes"] for name, field in FLAGS.items() if getattr(hold, field)}
    texts = {"opening": hold.opening, "last_copy": hold.last}
    return item | flags | {name: {"S": text} for name, text in texts.items() if text}


def _hold(item: Any) -> Hold:
    _, lane, group = key_parts(item)
    return Hold(
        lane=lane,
        group=group,
        leader=text_in(item, "leader"),
        id=text_in(item, "id"),
        reason=text_in(item, "reason"),
        error=text_in(item, "last_error"),
        since=number_in(item, "since"),
        behind=int(number_in(item, "behind")),
        opening=text_in(item, "opening"),
        **{field: name in item for name, field in FLAGS.items()},
        last=text_in(item, "last_copy"),
    )
