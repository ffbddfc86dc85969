"""The table of an outbox, if you do not create it with the CDK construct."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors
from lanes.errors import AwsError
from lanes.outbox.dynamodb.item import CHAINS_INDEX, READY_INDEX, TIMERS_INDEX

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

TTL_ATTRIBUTE = "expires_at"
KEY = ("pk", "sk")
# Keys of each index, and attributes besides the keys.
GLOBAL_INDEXES = {
    READY_INDEX: (("ready", "claim_order"), ("lane", "state", "not_before", "unique_key")),
    TIMERS_INDEX: (("timer", "due_at"), ("lane", "state", "not_before", "is_scheduled")),
}
# AWS: a local index is created with its table or never (DynamoDB developer guide, local secondary indexes).
LOCAL_INDEXES = {CHAINS_INDEX: (("pk", "chain_order"), ("is_parked",))}


def description(table: str) -> dict[str, Any]:
    """Return the parameters of CreateTable."""
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
        # Keys are enough: the stream wakes a relay, which reads its candidates from the index, the most urgent first.
        "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"},
    }


def create_table(client: DynamoDBClient, table: str) -> bool:
    """
    Create the table with its indexes, stream and time to live; return False if it already exists.

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
