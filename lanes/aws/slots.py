"""The slot table, the presence records of one function's environments, and the paused lanes: an item for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors
from lanes.aws.items import flag_in, number_in, text_in
from lanes.aws.ledger import number
from lanes.consumer.engines.presence import Presence, PresenceSnapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mypy_boto3_dynamodb import DynamoDBClient

KEY = {"pk": {"S": "slots"}}
PAUSES_KEY = {"pk": {"S": "pauses"}}
LINE, PARKED = "line#", "parked#"
# AWS: a write is charged by the size of the whole item (DynamoDB developer guide), so records of environments that
# are gone must leave it. The time is far longer than clocks differ.
FORGOTTEN_AFTER = 300.0
"""Seconds after its end at which the next writer removes a presence record."""


class DynamoDBSlots:
    """
    One item; each environment writes its own attribute, and reads all of them in the answer of the same call.

    AWS: writes to one item are serialised and take effect whole; UpdateItem returns the item as it then is.
    """

    def __init__(self, *, table: str, client: DynamoDBClient) -> None:
        self._table = table
        self._client = client
        self._stale: list[str] = []

    def publish(self, record: Presence, *, now: float, parked_until: Mapping[str, float]) -> PresenceSnapshot:
        """Replace this environment's record, remove dead ones, and return the peers' state."""
        parked = {PARKED + lane: number(until) for lane, until in parked_until.items()}
        values = {LINE + record.environment: {"M": _record_item(record)}, **parked}
        # Dead records leave with the next write, so cleaning costs no call.
        item = self._update(values, removes=[name for name in self._stale if name not in values])
        self._stale = [
            name
            for name, record in _records(item).items()
            # One without a readable end may be a living environment's of another release.
            if 0 < number_in(record, "until") < now - FORGOTTEN_AFTER
        ]
        return _snapshot(item, record.environment)

    def _update(self, values: Mapping[str, Any], *, removes: list[str]) -> Mapping[str, Any]:
        """Set and remove attributes, and return all of them."""
        names = {f"#n{position}": name for position, name in enumerate([*values, *removes])}
        sets = ", ".join(f"#n{position} = :v{position}" for position in range(len(values)))
        gone = ", ".join(f"#n{len(values) + position}" for position in range(len(removes)))
        with aws_errors("UpdateItem"):
            answer = self._client.update_item(
                TableName=self._table,
                Key=KEY,
                UpdateExpression=f"SET {sets}" + (f" REMOVE {gone}" if gone else ""),
                ExpressionAttributeNames=names,
                ExpressionAttributeValues={
                    f":v{position}": value for position, value in enumerate(values.values())
                },
                ReturnValues="ALL_NEW",
            )
        return answer.get("Attributes", {})

    def read(self, environment: str) -> PresenceSnapshot:
        """Return the peers' state."""
        with aws_errors("GetItem"):
            answer = self._client.get_item(TableName=self._table, Key=KEY, ConsistentRead=True)
        return _snapshot(answer.get("Item", {}), environment)


def _record_item(record: Presence) -> dict[str, Any]:
    return {
        "lane": {"S": record.lane},
        "records": {"N": str(record.records)},
        "busy": {"BOOL": record.busy},
        "until": number(record.until),
        **({"tenant": {"S": record.tenant}} if record.tenant else {}),
    }


def _snapshot(item: Mapping[str, Any], environment: str) -> PresenceSnapshot:
    records = [
        Presence(
            environment=name.removeprefix(LINE),
            lane=text_in(record, "lane"),
            records=int(number_in(record, "records")),
            busy=flag_in(record, "busy"),
            until=number_in(record, "until"),
            tenant=text_in(record, "tenant"),
        )
        for name, record in _records(item).items()
    ]
    parked = {name.removeprefix(PARKED): number_in(item, name) for name in item if name.startswith(PARKED)}
    return PresenceSnapshot.for_environment(environment, records, parked)


def _records(item: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the attributes of each presence record, none for one of a form that another release has."""
    return {name: value.get("M", {}) for name, value in item.items() if name.startswith(LINE)}


class DynamoDBPauses:
    """
    The paused lanes of one deployment: a set of their names in one item; every method raises `AwsError`.

    The item does not expire, so a later deploy leaves its lanes paused.
    """

    def __init__(self, *, table: str, client: DynamoDBClient) -> None:
        self._table = table
        self._client = client

    def paused(self) -> set[str]:
        """Return the names of the paused lanes, in a consistent read."""
        with aws_errors("GetItem"):
            answer = self._client.get_item(TableName=self._table, Key=PAUSES_KEY, ConsistentRead=True)
        return set(answer.get("Item", {}).get("lanes", {}).get("SS", []))

    def pause(self, lane: str) -> None:
        """Pause a lane; a paused one stays so."""
        self._change("ADD", lane)

    def resume(self, lane: str) -> None:
        """Resume a lane, if it is paused."""
        self._change("DELETE", lane)

    def _change(self, verb: str, lane: str) -> None:
        # AWS: ADD and DELETE change elements of a set, so operators who pause two lanes at once do not undo each other
        # (API_UpdateItem).
        with aws_errors("UpdateItem"):
            self._client.update_item(
                TableName=self._table,
                Key=PAUSES_KEY,
                UpdateExpression=f"{verb} lanes :lane",
                ExpressionAttributeValues={":lane": {"SS": [lane]}},
            )
