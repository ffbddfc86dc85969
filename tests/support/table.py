"""The ledger's table in moto, as the stack makes it."""

from __future__ import annotations

import boto3

TABLE = "ledger"


def create_table() -> None:
    """Create the table with its sparse index."""
    boto3.client("dynamodb").create_table(
        TableName=TABLE,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[
            {"AttributeName": name, "AttributeType": "S"} for name in ("pk", "parked_lane", "parked_until")
        ],
        GlobalSecondaryIndexes=[
            {
                "IndexName": "parked",
                "KeySchema": [
                    {"AttributeName": "parked_lane", "KeyType": "HASH"},
                    {"AttributeName": "parked_until", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "ALL"},
            }
        ],
    )
