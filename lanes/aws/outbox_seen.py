"""What the consumer's ledger tells of published entries: whether their messages were handled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors
from lanes.aws.ledger import effect_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mypy_boto3_dynamodb import DynamoDBClient

    from lanes.outbox.entry import Entry

# AWS: BatchGetItem reads 100 items (API reference).
MOST_READ = 100


class ConsumerEffects:
    """
    The effects that a consumer with idempotency has noted.

    Args:
        table: the ledger.
        client: of DynamoDB.
    """

    def __init__(self, *, table: str, client: DynamoDBClient) -> None:
        self._table = table
        self._client = client

    def __call__(self, entries: Iterable[Entry]) -> frozenset[str]:
        """Give the ids of those entries whose messages were begun or done, as far as the ledger still knows."""
        keys = {effect_key(f"{entry.source}#{entry.id}")["pk"]["S"]: entry.id for entry in entries}
        found: set[str] = set()
        names = list(keys)
        for start in range(0, len(names), MOST_READ):
            chunk = [{"pk": {"S": name}} for name in names[start : start + MOST_READ]]
            requests: Any = {self._table: {"Keys": chunk, "ProjectionExpression": "pk"}}
            while requests:
                with aws_errors("BatchGetItem"):
                    answer = self._client.batch_get_item(RequestItems=requests)
                found |= {keys[item["pk"]["S"]] for item in answer["Responses"].get(self._table, [])}
                requests = answer.get("UnprocessedKeys")
        return frozenset(found)
