"""The application's side: entries, transactions and their limits."""

import boto3
import pytest
from moto import mock_aws

from lanes import LanesConfig, Priority, PriorityRules, processing_priority
from lanes.aws.outbox_item import LARGEST_ITEM_BYTES, RESERVED_BYTES, item_bytes
from lanes.aws.outbox_table import create_table
from lanes.deployment import Deployment
from lanes.errors import (
    AwsError,
    ConfigurationError,
    EntryTooLargeError,
    InvalidMessageError,
    MessageTooLargeError,
    TransactionTooLargeError,
)
from lanes.outbox import Outbox
from lanes.trace_context import continuing_trace
from tests.support.sending import make_deployment


@pytest.fixture
def dynamodb():
    """A client with an outbox and a table of orders."""
    with mock_aws():
        client = boto3.client("dynamodb")
        create_table(client, "outbox")
        client.create_table(
            TableName="orders",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        yield client


@pytest.fixture
def outbox(dynamodb):
    """An outbox on that table."""
    return Outbox(table="outbox", dynamodb=dynamodb)


def count(dynamodb, table="outbox"):
    return dynamodb.scan(TableName=table)["Count"]


def test_the_priority_is_resolved_when_the_entry_is_written():
    """Explicit, block, rule, NORMAL, in this order, as for a producer."""
    outbox = Outbox(rules=PriorityRules({"payment": 70}))
    with processing_priority(Priority.LOW):
        inside = [
            outbox.prepare("payment", None).priority,
            outbox.prepare("payment", None, priority=9).priority,
        ]

    assert inside == [-50, 9]
    assert [outbox.prepare(kind, None).priority for kind in ("payment", "other")] == [70, 0]


def test_the_message_of_an_entry_is_that_of_a_producer():
    """Id, group, time and trace come along."""
    entry = Outbox(source="shop").prepare("k", {"a": 1}, group="g", id="one", traceparent="00-1")
    message = entry.message()

    assert (message.id, message.group, message.source, message.traceparent) == ("one", "g", "shop", "00-1")
    assert message.message_deduplication_id == "one"
    assert abs(message.time.timestamp() - entry.created_at) < 1


def test_an_entry_continues_the_trace_that_it_was_written_in():
    """The relay, which sends it later, has no part in that trace."""
    outbox, current, own = Outbox(), f"00-{'a' * 32}-{'b' * 16}-00", f"00-{'1' * 32}-{'2' * 16}-01"
    with continuing_trace(current):
        entries = [outbox.prepare("k", None), outbox.prepare("k", None, traceparent=own)]

    assert [entry.message().traceparent for entry in entries] == [current, own]


@pytest.mark.parametrize(
    "fields",
    [{"kind": "has space"}, {"group": ""}, {"priority": "high"}, {"priority": 2**40}, {"data": {1, 2}}],
)
def test_a_message_that_breaks_a_rule_is_refused_when_it_is_written(fields):
    """Not by a relay much later."""
    fields = {"kind": "k", "data": None, **fields}

    with pytest.raises(InvalidMessageError):
        Outbox().prepare(fields.pop("kind"), fields.pop("data"), **fields)


def test_an_entry_over_400_kb_is_refused_before_any_call():
    """With what the relay notes later kept free."""
    outbox = Outbox(table="outbox")
    limit = LARGEST_ITEM_BYTES - RESERVED_BYTES

    assert item_bytes(outbox.entry("k", "x" * (limit - 2000))["Put"]["Item"]) <= limit
    with pytest.raises(EntryTooLargeError, match="put the data into S3"):
        outbox.entry("k", "x" * limit)
    with pytest.raises(MessageTooLargeError):
        outbox.prepare("k", "x" * 2**20)


def test_a_transaction_commits_business_data_and_messages_together(outbox, dynamodb):
    """In one call."""
    with outbox.transaction() as tx:
        tx.put("orders", {"id": "7", "total": 12})
        tx.add("order.placed", {"order": 7})

    assert (count(dynamodb), count(dynamodb, "orders")) == (1, 1)


def test_a_transaction_whose_block_fails_writes_nothing(outbox, dynamodb):
    """The exception goes on to the caller."""
    with pytest.raises(ZeroDivisionError), outbox.transaction() as tx:
        tx.add("order.placed", {"order": 7 // len(tx._actions)})

    assert count(dynamodb) == 0


def test_a_transaction_that_dynamodb_cancels_writes_nothing(outbox, dynamodb):
    """The error says so."""
    dynamodb.put_item(TableName="orders", Item={"id": {"S": "7"}})

    def place():
        with outbox.transaction() as tx:
            tx.add("order.placed", {"order": 7})
            tx.put("orders", {"id": "7"}, ConditionExpression="attribute_not_exists(id)")

    with pytest.raises(AwsError, match="TransactionCanceledException"):
        place()
    assert count(dynamodb) == 0


def test_over_a_hundred_actions_are_refused_before_any_call(outbox, dynamodb):
    """A hundred go."""

    def add(number):
        with outbox.transaction() as tx:
            for one in range(number):
                tx.add("k", one)

    add(100)
    with pytest.raises(TransactionTooLargeError, match="100 actions"):
        add(101)
    assert count(dynamodb) == 100


def test_over_four_megabytes_are_refused_before_any_call(outbox, dynamodb):
    """Whatever they are made of."""

    def add():
        with outbox.transaction() as tx:
            for number in range(12):
                tx.add("k", "x" * 350_000)
                tx.put("orders", {"id": str(number)})

    with pytest.raises(TransactionTooLargeError, match="4,194,304 bytes"):
        add()
    assert count(dynamodb) == 0


def test_a_large_item_of_the_application_is_refused_too(outbox):
    """400 KB an item."""

    def add():
        with outbox.transaction() as tx:
            tx.put("orders", {"id": "7", "text": "x" * 410_000})

    with pytest.raises(TransactionTooLargeError, match="409,600"):
        add()


def test_an_empty_transaction_makes_no_call(outbox):
    """There is nothing to commit."""
    with outbox.transaction():
        pass


def test_an_outbox_is_found_by_its_deployment(monkeypatch):
    """And one that is not there is said so."""
    deployment = make_deployment(LanesConfig.from_dict({"outbox": {"enabled": True}}))
    with_outbox = Deployment(
        config=deployment.config, queues=deployment.queues, table=deployment.table, outbox="entries"
    )
    again = Deployment.from_json(with_outbox.to_json())

    assert again == with_outbox
    assert Outbox.from_deployment(again).table == "entries"
    with pytest.raises(ConfigurationError, match="has no outbox"):
        Outbox.from_deployment(deployment)
    monkeypatch.setenv("LANES_DEPLOYMENT", with_outbox.to_json())
    assert Outbox.from_env().table == "entries"
    with pytest.raises(ConfigurationError, match="no DynamoDB table"):
        Outbox().entry("k", None)
