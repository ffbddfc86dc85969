"""The consumer's effects in the ledger, which show that published entries were handled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors
from lanes.aws.table.ledger import effect_key
from lanes.message import identity_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mypy_boto3_dynamodb import DynamoDBClient

    from lanes.outbox.entry import Entry

# AWS: BatchGetItem reads 100 items (API reference).
MAX_READ = 100


class ConsumerEffects:
    """
    The effects of a consumer with idempotency.

    Args:
        table: the ledger.
        client: of DynamoDB.
    """

    def __init__(self, *, table: str, client: DynamoDBClient) -> None:
        self._table = table
        self._client = client

    def __call__(self, entries: Iterable[Entry]) -> frozenset[str]:
        """Return the ids of the entries with a message that was begun or done, within the ledger's retention."""
        # The consumer's own key (`Work.effect_id`).
        keys = {
            effect_key(identity_of(entry.source, entry.kind, entry.id))["pk"]["S"]: entry.id
            for entry in entries
        }
        found: set[str] = set()
        names = list(keys)
        for start in range(0, len(names), MAX_READ):
            chunk = [{"pk": {"S": name}} for name in names[start : start + MAX_READ]]
            requests: Any = {self._table: {"Keys": chunk, "ProjectionExpression": "pk"}}
            while requests:
                with aws_errors("BatchGetItem"):
                    answer = self._client.batch_get_item(RequestItems=requests)
                found |= {keys[item["pk"]["S"]] for item in answer["Responses"].get(self._table, [])}
                requests = answer.get("UnprocessedKeys")
        return frozenset(found)
