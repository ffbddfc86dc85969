"""The table of an outbox, for those who don't make it with the CDK construct."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors
from lanes.aws.outbox_item import CHAINS_INDEX, READY_INDEX, TIMERS_INDEX
from lanes.errors import AwsError

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

TTL_ATTRIBUTE = "expires_at"
KEY = ("pk", "sk")
# What an index holds besides its own and the table's keys.
GLOBAL_INDEXES = {
    READY_INDEX: (("ready", "claim_order"), ("lane", "state")),
    TIMERS_INDEX: (("timer", "due_at"), ("lane", "state")),
}
LOCAL_INDEXES = {CHAINS_INDEX: (("pk", "chain_order"), ("is_parked",))}


def description(table: str) -> dict[str, Any]:
    """Give the parameters of CreateTable."""
    keys = [KEY, *(keys for keys, _ in (*GLOBAL_INDEXES.values(), *LOCAL_INDEXES.values()))]
    attributes = dict.fromkeys(name for pair in keys for name in pair)
    return {
        "TableName": table,
        "KeySchema": _key_schema(KEY),
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in attributes],
        "GlobalSecondaryIndexes": [_index(name, *parts) for name, parts in GLOBAL_INDEXES.items()],
        "LocalSecondaryIndexes": [_index(name, *parts) for name, parts in LOCAL_INDEXES.items()],
        "BillingMode": "PAY_PER_REQUEST",
        "SSESpecification": {"Enabled": True},
        "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"},
    }


def create_table(client: DynamoDBClient, table: str) -> bool:
    """
    Make the table with its indexes, stream and time to live; give False where there is one of this name already.

    Raises:
        AwsError: a call failed.
    """
    try:
        with aws_errors("CreateTable"):
            client.create_table(**description(table))
    except AwsError as error:
        if error.code != "ResourceInUseException":
            raise
        return False
    client.get_waiter("table_exists").wait(TableName=table)
    with aws_errors("UpdateTimeToLive"):
        client.update_time_to_live(
            TableName=table,
            TimeToLiveSpecification={"Enabled": True, "AttributeName": TTL_ATTRIBUTE},
        )
    return True


def _key_schema(keys: tuple[str, str]) -> list[dict[str, str]]:
    partition, sort = keys
    return [
        {"AttributeName": partition, "KeyType": "HASH"},
        {"AttributeName": sort, "KeyType": "RANGE"},
    ]


def _index(name: str, keys: tuple[str, str], included: tuple[str, ...]) -> dict[str, Any]:
    return {
        "IndexName": name,
        "KeySchema": _key_schema(keys),
        "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": list(included)},
    }
