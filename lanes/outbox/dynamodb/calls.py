"""The calls to the table of an outbox."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from lanes.aws.errors import CANCELLED, aws_errors
from lanes.aws.items import pages_of
from lanes.errors import AwsError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

    from lanes.outbox.dynamodb.changes import Change

T = TypeVar("T")
R = TypeVar("R")

# Below the connections that a client keeps (`lanes.aws.clients.CONNECTIONS`), also with a producer beside it.
CONCURRENCY = 8
# AWS: BatchWriteItem writes 25 items (API reference).
MAX_WRITTEN = 25
CONDITION_FAILED = "ConditionalCheckFailedException"


class TableCalls:
    """
    Reads and changes items; every method raises `AwsError`.

    Args:
        table: its name.
        client: shared by threads.
        concurrency: maximum number of calls in flight.
    """

    def __init__(self, *, table: str, client: DynamoDBClient, concurrency: int = CONCURRENCY) -> None:
        self.table = table
        self.client = client
        self._concurrency = concurrency

    def query(self, *, limit: int | None, **parameters: Any) -> list[Any]:
        """Return the items of a query, up to a limit."""
        most: dict[str, Any] = {} if limit is None else {"Limit": limit}
        pages = pages_of("Query", self.client.query, TableName=self.table, **parameters, **most)
        return list(islice((item for page in pages for item in page["Items"]), limit))

    def first(
        self, parts: Sequence[str], *, order: str, limit: int, values: Mapping[str, Any], **parameters: Any
    ) -> list[Any]:
        """
        Return the first items of all parts of an index together.

        Args:
            parts: keys of the index, the value `:part` of each query.
            order: the sort key.
            limit: maximum number of items.
            values: the other values of the queries.
            parameters: the other parameters of the queries.
        """
        # Twice the even share: mostly no part has to be read a second time.
        size = math.ceil(2 * limit / len(parts))
        found: dict[str, list[Any]] = {part: [] for part in parts}
        starts: dict[str, dict[str, Any]] = {part: {} for part in parts}
        items: list[Any] = []
        wanted = list(parts)

        def page_of(part: str) -> Any:
            with aws_errors("Query"):
                return self.client.query(
                    TableName=self.table,
                    ExpressionAttributeValues={**values, ":part": {"S": part}},
                    Limit=size,
                    **parameters,
                    **starts[part],
                )

        while wanted:
            for part, page in zip(wanted, self.in_parallel(page_of, wanted), strict=True):
                found[part] += page["Items"]
                start = page.get("LastEvaluatedKey")
                starts[part] = {"ExclusiveStartKey": start} if start else {}
            every = (item for several in found.values() for item in several)
            items = sorted(every, key=lambda item: str(item[order]["S"]))[:limit]
            last = items[-1][order]["S"] if len(items) == limit else None
            # Only a part that has all it gave among the first items may have more of them.
            wanted = [
                part
                for part in wanted
                if starts[part] and (last is None or found[part][-1][order]["S"] < last)
            ]
        return items

    def update(self, item: Any, change: Change) -> dict[str, Any] | None:
        """Change one item; return its new state, or None if the condition does not hold."""
        try:
            with aws_errors("UpdateItem"):
                answer = self.client.update_item(
                    TableName=self.table,
                    Key={"pk": item["pk"], "sk": item["sk"]},
                    ReturnValues="ALL_NEW",
                    **change.parameters(),
                )
        except AwsError as error:
            if error.code == CONDITION_FAILED:
                return None
            raise
        return answer["Attributes"]

    def update_both(self, *changes: tuple[Any, Change]) -> bool:
        """Change all of these items, or none if a condition does not hold or somebody else is changing one."""
        actions: Any = [
            {
                "Update": {
                    "TableName": self.table,
                    "Key": {"pk": item["pk"], "sk": item["sk"]},
                    **change.parameters(),
                }
            }
            for item, change in changes
        ]
        try:
            with aws_errors("TransactWriteItems"):
                self.client.transact_write_items(TransactItems=actions)
        except AwsError as error:
            if error.code == CANCELLED:
                return False
            raise
        return True

    def delete(self, keys: Sequence[Any]) -> None:
        """Delete items by their keys."""
        for start in range(0, len(keys), MAX_WRITTEN):
            chunk = keys[start : start + MAX_WRITTEN]
            requests: Any = {self.table: [{"DeleteRequest": {"Key": key}} for key in chunk]}
            while requests:
                with aws_errors("BatchWriteItem"):
                    requests = self.client.batch_write_item(RequestItems=requests).get("UnprocessedItems")

    def in_parallel(self, call: Callable[[T], R], items: Collection[T]) -> list[R]:
        """Apply a function to each item, several at a time, and return the results in order."""
        if len(items) <= 1 or self._concurrency == 1:
            return [call(item) for item in items]
        with ThreadPoolExecutor(min(self._concurrency, len(items))) as executor:
            return list(executor.map(call, items))
