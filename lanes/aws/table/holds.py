"""
Held groups as items of the ledger's table.

The item of the active overrides counts the held groups of each lane, in one transaction with every change. Without a
count for its lane, an environment reads nothing more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors
from lanes.aws.table.items import flag_in, key_parts, number_in, query_pages, read_items, sortable, text_in
from lanes.aws.table.ledger import number
from lanes.aws.table.override_items import HELD, OVERRIDES_KEY
from lanes.errors import AwsError
from lanes.holds import Hold, State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

PARTITION = "held"
"""Partition of the index in which holds are found: no lane's name begins with a small letter."""

LONGEST_TEXT = 1_000
# AWS: a transaction is cancelled for a conflict as well (API_TransactWriteItems). It is taken for a failed condition
# here, and the caller's next step finds the item as it is.
CONDITION_FAILED = frozenset({"ConditionalCheckFailedException", "TransactionCanceledException"})


class DynamoDBHolds:
    """The store of the held groups of one deployment; every method raises `AwsError`."""

    def __init__(self, *, table: str, client: DynamoDBClient) -> None:
        self._table = table
        self._client = client

    def read(self, lane: str, groups: Sequence[str]) -> dict[str, Hold]:
        """Return those of the groups that are held, by group."""
        keys = [_key(lane, group) for group in groups]
        found = [_hold(item) for item in read_items(self._client, self._table, keys)]
        return {hold.group: hold for hold in found}

    def held(self, lane: str | None = None) -> list[Hold]:
        """Return the held groups, those held longest first."""
        pages = query_pages(
            self._client,
            TableName=self._table,
            KeyConditionExpression="parked_lane = :partition",
            ExpressionAttributeValues={":partition": {"S": PARTITION}},
        )
        found = [_hold(item) for page in pages for item in page["Items"]]
        return [hold for hold in found if lane in (None, hold.lane)]

    def write(self, before: Hold | None, after: Hold) -> bool:
        """Replace a hold, remove it if it is `ENDED`, or add it; return False if it is not as it was before."""
        item = item_of(after)
        if before is None:
            put = {
                "TableName": self._table,
                "Item": item,
                "ConditionExpression": "attribute_not_exists(pk)",
            }
            return self._is_written("TransactWriteItems", [{"Put": put}, self._counted(after.lane, 1)])
        known = item_of(before)
        where: dict[str, Any] = {
            "TableName": self._table,
            "Key": {"pk": known.pop("pk")},
            "ConditionExpression": " AND ".join(f"#{name} = :{name}" for name in known),
            "ExpressionAttributeNames": {f"#{name}": name for name in known},
            "ExpressionAttributeValues": {f":{name}": value for name, value in known.items()},
        }
        if after.state is State.ENDED:
            return self._is_written("TransactWriteItems", [{"Delete": where}, self._counted(after.lane, -1)])
        new = {name: item[name] for name in known if item[name] != known[name]}
        where["UpdateExpression"] = "SET " + ", ".join(f"#{name} = :new_{name}" for name in new)
        where["ExpressionAttributeValues"] |= {f":new_{name}": value for name, value in new.items()}
        return self._is_written("UpdateItem", where)

    def _counted(self, lane: str, change: int) -> Any:
        return {
            "Update": {
                "TableName": self._table,
                "Key": OVERRIDES_KEY,
                "UpdateExpression": "ADD #held :change",
                "ExpressionAttributeNames": {"#held": HELD + lane},
                "ExpressionAttributeValues": {":change": {"N": str(change)}},
            }
        }

    def _is_written(self, operation: str, what: Any) -> bool:
        try:
            with aws_errors(operation):
                if operation == "UpdateItem":
                    self._client.update_item(**what)
                else:
                    self._client.transact_write_items(TransactItems=what)
        except AwsError as error:
            if error.code in CONDITION_FAILED:
                return False
            raise
        return True


def _key(lane: str, group: str) -> Any:
    return {"pk": {"S": f"hold#{lane}#{group}"}}


def item_of(hold: Hold) -> Any:
    """Return the item of a held group."""
    return {
        **_key(hold.lane, hold.group),
        "parked_lane": {"S": PARTITION},
        "parked_until": {"S": sortable(hold.since)},
        "lane": {"S": hold.lane},
        "group": {"S": hold.group},
        "leader": {"S": hold.leader},
        "id": {"S": hold.id},
        "reason": {"S": hold.reason[:LONGEST_TEXT]},
        "last_error": {"S": hold.error[:LONGEST_TEXT]},
        "since": number(hold.since),
        "state": {"S": hold.state.value},
        "behind": {"N": str(hold.behind)},
        "opening": {"S": hold.opening},
        "last_copy": {"S": hold.last},
        "again": {"BOOL": hold.again},
    }


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
        # A state of a later release: nothing passes, and no change of this one is written.
        state=next((one for one in State if one == text_in(item, "state")), State.HELD),
        behind=int(number_in(item, "behind")),
        opening=text_in(item, "opening"),
        last=text_in(item, "last_copy"),
        again=flag_in(item, "again"),
    )
