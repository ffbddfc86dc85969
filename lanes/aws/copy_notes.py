"""
Notes of what redrives have copied, beside the ledger: items `copied#LANE#ID` of the dead letter's id.

SQS drops a repeated copy for five minutes only. A run that goes on later than that finds here what the one before it
had copied and not yet deleted.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors
from lanes.aws.ledger import KEPT_SECONDS, MOST_READ, MOST_WRITTEN, TRIES
from lanes.errors import AwsError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient


class CopyNotes:
    """The notes in one table; every method raises `AwsError`."""

    def __init__(self, *, table: str, client: DynamoDBClient, clock: Callable[[], float] = time.time) -> None:
        self._table = table
        self._client = client
        self._clock = clock

    def noted(self, lane: str, letter_ids: Sequence[str]) -> set[str]:
        """Return those of the dead letters that were copied."""
        found: set[str] = set()
        for start in range(0, len(letter_ids), MOST_READ):
            pending: Any = [{"pk": {"S": _key(lane, one)}} for one in letter_ids[start : start + MOST_READ]]
            for _ in range(TRIES):
                with aws_errors("BatchGetItem"):
                    answer = self._client.batch_get_item(
                        RequestItems={self._table: {"Keys": pending, "ConsistentRead": True}}
                    )
                found |= {item["letter_id"]["S"] for item in answer["Responses"].get(self._table, [])}
                unread: Any = answer.get("UnprocessedKeys", {})
                pending = unread.get(self._table, {}).get("Keys", [])
                if not pending:
                    break
            if pending:
                raise AwsError(operation="BatchGetItem", code="UnprocessedKeys", retryable=True)
        return found

    def note(self, lane: str, letter_ids: Sequence[str]) -> None:
        """Note that dead letters were copied, for as long as they can be in their queue."""
        expires_at = str(int(self._clock()) + KEPT_SECONDS)
        for start in range(0, len(letter_ids), MOST_WRITTEN):
            pending: Any = [
                {
                    "PutRequest": {
                        "Item": {
                            "pk": {"S": _key(lane, one)},
                            "letter_id": {"S": one},
                            "expires_at": {"N": expires_at},
                        }
                    }
                }
                for one in letter_ids[start : start + MOST_WRITTEN]
            ]
            for _ in range(TRIES):
                with aws_errors("BatchWriteItem"):
                    answer = self._client.batch_write_item(RequestItems={self._table: pending})
                pending = answer.get("UnprocessedItems", {}).get(self._table, [])
                if not pending:
                    break
            if pending:
                raise AwsError(operation="BatchWriteItem", code="UnprocessedItems", retryable=True)


def _key(lane: str, letter_id: str) -> str:
    return f"copied#{lane}#{letter_id}"
