"""The audit trail and the records of redrives, as items of the ledger's table."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from lanes.aws import ledger
from lanes.aws.errors import aws_errors
from lanes.aws.items import key_parts, latest_in, read_items, sortable, text_in, write_items
from lanes.operate.audit import AuditEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

PARTITION = "audit"
KEPT_SECONDS = 400 * 24 * 3600


class DynamoDBAuditTrail:
    """
    The audit trail of one table; every method raises `AwsError`.

    Args:
        table: the ledger's table.
        client: client of DynamoDB.
        sts: client of STS, which identifies the caller.
        user: returns the name of the user for whom the caller acts; empty for none.
    """

    def __init__(
        self, *, table: str, client: DynamoDBClient, sts: Any, user: Callable[[], str] = lambda: ""
    ) -> None:
        self._table = table
        self._client = client
        self._sts = sts
        self._user = user

    def who(self) -> str:
        """Return the ARN of the caller, which for a role includes the name of its session, and the user."""
        with aws_errors("GetCallerIdentity"):
            arn = str(self._sts.get_caller_identity()["Arn"])
        user = self._user()
        return f"{arn} for {user}" if user else arn

    def write(self, entry: AuditEntry) -> None:
        """Write an entry, replacing an earlier one with the same id."""
        with aws_errors("PutItem"):
            self._client.put_item(TableName=self._table, Item=item_of(entry))

    def entries(self, *, since: float, limit: int) -> list[AuditEntry]:
        """Return entries, the latest first."""
        items = latest_in(PARTITION, client=self._client, table=self._table, since=since, limit=limit)
        return [_entry(item) for item in items]


def item_of(entry: AuditEntry) -> Any:
    """Return the item of an entry."""
    return {
        "pk": {"S": f"audit#{entry.id}"},
        "parked_lane": {"S": PARTITION},
        "parked_until": {"S": sortable(entry.at)},
        "who": {"S": entry.who},
        "action": {"S": entry.action},
        "target": {"S": entry.target},
        "details": {"S": json.dumps(entry.details, default=str)},
        "outcome": {"S": entry.outcome[:1000]},
        "expires_at": {"N": str(int(entry.at) + KEPT_SECONDS)},
    }


def _entry(item: Any) -> AuditEntry:
    return AuditEntry(
        id=key_parts(item, 2)[1],
        at=float(text_in(item, "parked_until")),
        who=text_in(item, "who"),
        action=text_in(item, "action"),
        target=text_in(item, "target"),
        details=_details(text_in(item, "details")),
        outcome=text_in(item, "outcome"),
    )


def _details(text: str) -> Mapping[str, Any]:
    """Return the details of an entry; those of another form as they are written."""
    try:
        details = json.loads(text)
    except ValueError:
        return {"details": text} if text else {}
    return details if isinstance(details, dict) else {"details": details}


class RedriveRecords:
    """
    The copies that redrives have sent; every method raises `AwsError`.

    They are items `copied#LANE#ID` with the id of each dead letter whose copy was sent. SQS drops a repeated copy for
    five minutes only: a redrive that resumes later reads here which dead letters an earlier run had copied and not yet
    deleted.
    """

    def __init__(self, *, table: str, client: DynamoDBClient, clock: Callable[[], float] = time.time) -> None:
        self._table = table
        self._client = client
        self._clock = clock

    def copied(self, lane: str, letter_ids: Sequence[str]) -> set[str]:
        """Return the ids of the dead letters with sent copies."""
        keys = [{"pk": {"S": _key(lane, one)}} for one in letter_ids]
        return {key_parts(item)[2] for item in read_items(self._client, self._table, keys)}

    def add(self, lane: str, letter_ids: Sequence[str]) -> None:
        """Record copies, for as long as their dead letters can stay in the queue."""
        expires_at = {"N": str(int(self._clock()) + ledger.KEPT_SECONDS)}
        items = [
            {"pk": {"S": _key(lane, one)}, "letter_id": {"S": one}, "expires_at": expires_at}
            for one in letter_ids
        ]
        write_items(self._client, self._table, items)


def _key(lane: str, letter_id: str) -> str:
    return f"copied#{lane}#{letter_id}"
