"""
Records of redrives: items `copied#LANE#ID` with the id of each dead letter whose copy was sent.

SQS drops a repeated copy for five minutes only. A redrive that resumes later reads here which dead letters an earlier
run had copied and not yet deleted.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lanes.aws.table.items import key_parts, read_items, write_items
from lanes.aws.table.ledger import KEPT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient


class RedriveRecords:
    """The copies that redrives have sent; every method raises `AwsError`."""

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
        expires_at = {"N": str(int(self._clock()) + KEPT_SECONDS)}
        items = [
            {"pk": {"S": _key(lane, one)}, "letter_id": {"S": one}, "expires_at": expires_at}
            for one in letter_ids
        ]
        write_items(self._client, self._table, items)


def _key(lane: str, letter_id: str) -> str:
    return f"copied#{lane}#{letter_id}"
