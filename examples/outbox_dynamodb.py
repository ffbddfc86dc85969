"""An order and its message in one transaction of DynamoDB."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.outbox import DynamoOutbox

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def place_order(outbox: DynamoOutbox, order: dict[str, Any]) -> None:
    """Write new code with a transaction that collects both."""
    with outbox.transaction() as tx:
        tx.put("orders", order, ConditionExpression="attribute_not_exists(id)")
        tx.add("order.placed", {"order": order["id"]}, group=order["customer"])


def cancel_order(outbox: DynamoOutbox, dynamodb: DynamoDBClient, order_id: str) -> None:
    """Add an entry to an existing transaction."""
    dynamodb.transact_write_items(
        TransactItems=[
            {"Delete": {"TableName": "orders", "Key": {"id": {"S": order_id}}}},
            *outbox.entry("order.cancelled", {"order": order_id}, priority=50),
        ]
    )


def outbox_of(stack: str) -> DynamoOutbox:
    """Find the outbox of a deployed stack."""
    return DynamoOutbox.from_stack(stack)
