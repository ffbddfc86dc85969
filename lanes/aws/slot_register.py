"""The register of slots in one item of the ledger's table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors
from lanes.aws.ledger import number
from lanes.consumer.slots import Occupation, SlotsSnapshot, snapshot_without

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mypy_boto3_dynamodb import DynamoDBClient

KEY = {"pk": {"S": "slots"}}
LINE, PARKED = "line#", "parked#"
FORGOTTEN_AFTER = 300.0
"""Seconds after which a line that means nothing any more is removed by the next who writes."""


class DynamoDBSlotRegister:
    """
    One item; each environment writes its own attribute, and reads all of them in the answer of the same call.

    AWS: writes to one item are serialised and take effect whole; UpdateItem returns the item as it then is.
    """

    def __init__(self, *, table: str, client: DynamoDBClient) -> None:
        self._table = table
        self._client = client
        self._stale: list[str] = []

    def write(self, line: Occupation, *, now: float, parked_until: Mapping[str, float]) -> SlotsSnapshot:
        """Replace this environment's line, clear away dead ones, and return what the others say."""
        values: dict[str, Any] = {LINE + line.environment: {"M": _line_item(line)}}
        values |= {PARKED + lane: number(until) for lane, until in parked_until.items()}
        stale = [name for name in self._stale if name not in values]
        names = {f"#n{position}": name for position, name in enumerate([*values, *stale])}
        sets = ", ".join(f"#n{position} = :v{position}" for position in range(len(values)))
        removes = ", ".join(f"#n{len(values) + position}" for position in range(len(stale)))
        with aws_errors("UpdateItem"):
            answer = self._client.update_item(
                TableName=self._table,
                Key=KEY,
                UpdateExpression=f"SET {sets}" + (f" REMOVE {removes}" if removes else ""),
                ExpressionAttributeNames=names,
                ExpressionAttributeValues={f":v{i}": value for i, value in enumerate(values.values())},
                ReturnValues="ALL_NEW",
            )
        item = answer.get("Attributes", {})
        self._stale = [
            name
            for name, value in item.items()
            if name.startswith(LINE) and float(value["M"]["until"]["N"]) < now - FORGOTTEN_AFTER
        ]
        return _snapshot(item, line.environment)

    def read(self, environment: str) -> SlotsSnapshot:
        """Return what the others say."""
        with aws_errors("GetItem"):
            answer = self._client.get_item(TableName=self._table, Key=KEY, ConsistentRead=True)
        return _snapshot(answer.get("Item", {}), environment)


def _line_item(line: Occupation) -> dict[str, Any]:
    return {
        "lane": {"S": line.lane},
        "records": {"N": str(line.records)},
        "busy": {"BOOL": line.busy},
        "until": number(line.until),
        "kept": {"N": str(line.kept)},
    }


def _snapshot(item: Mapping[str, Any], environment: str) -> SlotsSnapshot:
    lines = [
        Occupation(
            environment=name.removeprefix(LINE),
            lane=value["M"]["lane"]["S"],
            records=int(value["M"]["records"]["N"]),
            busy=value["M"]["busy"]["BOOL"],
            until=float(value["M"]["until"]["N"]),
            kept=int(value["M"].get("kept", {"N": "0"})["N"]),
        )
        for name, value in item.items()
        if name.startswith(LINE)
    ]
    parked = {
        name.removeprefix(PARKED): float(value["N"])
        for name, value in item.items()
        if name.startswith(PARKED)
    }
    return snapshot_without(environment, lines, parked)
