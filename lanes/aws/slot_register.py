"""The register of slots in one item of the ledger's table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors
from lanes.aws.ledger import number
from lanes.consumer.slots import Occupation, SlotsSnapshot, snapshot_without
from lanes.errors import AwsError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

KEY = {"pk": {"S": "slots"}}
LINE, PARKED, SLOT = "line#", "parked#", "slot#"
NOTHING = {"N": "0"}
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

    def write(
        self, line: Occupation, *, now: float, parked_until: Mapping[str, float], frees: int | None = None
    ) -> SlotsSnapshot:
        """Replace this environment's line, clear away dead ones, and return what the others say."""
        values = _values(line, parked_until)
        stale = [name for name in self._stale if name not in values]
        item = None
        if frees is not None:
            item = self._update(values, removes=[f"{SLOT}{frees}", *stale], holder=line.environment, now=now)
        if item is None:
            item = self._update(values, removes=stale) or {}
        self._stale = [
            name
            for name, value in item.items()
            if name.startswith(LINE) and float(value["M"]["until"]["N"]) < now - FORGOTTEN_AFTER
        ]
        return _snapshot(item, line.environment)

    def take(
        self, line: Occupation, slot: int, *, now: float, parked_until: Mapping[str, float]
    ) -> SlotsSnapshot | None:
        """Take a slot that nobody else has, by one conditional write."""
        name = f"{SLOT}{slot}"
        holder = {"M": {"environment": {"S": line.environment}, "until": number(line.until)}}
        values = {name: holder, **_values(line, parked_until)}
        item = self._update(values, holder=line.environment, now=now)
        return None if item is None else _snapshot(item, line.environment)

    def _update(
        self, values: Mapping[str, Any], *, removes: Sequence[str] = (), holder: str = "", now: float = 0.0
    ) -> Mapping[str, Any] | None:
        """
        Set and remove attributes, and return all of them.

        With a holder only if the first slot among them is no other's at this time; None if it is.
        """
        names = {f"#n{position}": name for position, name in enumerate([*values, *removes])}
        sets = ", ".join(f"#n{position} = :v{position}" for position in range(len(values)))
        gone = ", ".join(f"#n{len(values) + position}" for position in range(len(removes)))
        given = {f":v{position}": value for position, value in enumerate(values.values())}
        condition: dict[str, Any] = {}
        if holder:
            slot = next(key for key, name in names.items() if name.startswith(SLOT))
            given |= {":me": {"S": holder}, ":now": number(now)}
            names |= {"#until": "until", "#environment": "environment"}
            condition["ConditionExpression"] = (
                f"attribute_not_exists({slot}) OR {slot}.#until <= :now OR {slot}.#environment = :me"
            )
        try:
            return self._send(sets, gone, names, given, condition)
        except AwsError as error:
            if not condition or error.code != "ConditionalCheckFailedException":
                raise
            return None

    def _send(
        self,
        sets: str,
        gone: str,
        names: Mapping[str, str],
        given: Mapping[str, Any],
        condition: Mapping[str, Any],
    ) -> Mapping[str, Any]:
        with aws_errors("UpdateItem"):
            answer = self._client.update_item(
                TableName=self._table,
                Key=KEY,
                UpdateExpression=f"SET {sets}" + (f" REMOVE {gone}" if gone else ""),
                ExpressionAttributeNames=names,
                ExpressionAttributeValues=given,
                ReturnValues="ALL_NEW",
                **condition,
            )
        return answer.get("Attributes", {})

    def read(self, environment: str) -> SlotsSnapshot:
        """Return what the others say."""
        with aws_errors("GetItem"):
            answer = self._client.get_item(TableName=self._table, Key=KEY, ConsistentRead=True)
        return _snapshot(answer.get("Item", {}), environment)


def _values(line: Occupation, parked_until: Mapping[str, float]) -> dict[str, Any]:
    parked = {PARKED + lane: number(until) for lane, until in parked_until.items()}
    return {LINE + line.environment: {"M": _line_item(line)}, **parked}


def _line_item(line: Occupation) -> dict[str, Any]:
    return {
        "lane": {"S": line.lane},
        "records": {"N": str(line.records)},
        "busy": {"BOOL": line.busy},
        "until": number(line.until),
        "kept": {"N": str(line.kept)},
        "waiting_since": number(line.waiting_since),
        "rank": {"N": str(line.rank)},
        **({"tenant": {"S": line.tenant}} if line.tenant else {}),
        **({"slot": {"N": str(line.slot)}} if line.slot is not None else {}),
        **({"ends_about": number(line.ends_about)} if line.ends_about else {}),
    }


def _snapshot(item: Mapping[str, Any], environment: str) -> SlotsSnapshot:
    lines = [
        Occupation(
            environment=name.removeprefix(LINE),
            lane=value["M"]["lane"]["S"],
            records=int(value["M"]["records"]["N"]),
            busy=value["M"]["busy"]["BOOL"],
            until=float(value["M"]["until"]["N"]),
            kept=int(value["M"].get("kept", NOTHING)["N"]),
            waiting_since=float(value["M"].get("waiting_since", NOTHING)["N"]),
            rank=int(value["M"].get("rank", NOTHING)["N"]),
            tenant=value["M"].get("tenant", {"S": ""})["S"],
            slot=int(value["M"]["slot"]["N"]) if "slot" in value["M"] else None,
            ends_about=float(value["M"].get("ends_about", NOTHING)["N"]),
        )
        for name, value in item.items()
        if name.startswith(LINE)
    ]
    parked = {
        name.removeprefix(PARKED): float(value["N"])
        for name, value in item.items()
        if name.startswith(PARKED)
    }
    taken = {
        int(name.removeprefix(SLOT)): float(value["M"]["until"]["N"])
        for name, value in item.items()
        if name.startswith(SLOT)
    }
    return snapshot_without(environment, lines, parked, taken)
