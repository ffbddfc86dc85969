"""The examples of the outbox work as documented."""

import boto3
import pytest
import sqlalchemy as sa
from moto import mock_aws
from sqlalchemy.orm import Session

from examples import outbox_dynamodb, outbox_sql
from lanes import Consumer
from lanes.errors import AwsError
from lanes.outbox import DynamoOutbox
from lanes.outbox.dynamodb.table import create_table
from lanes.outbox.sql.store import SqlOutboxStore


@pytest.fixture
def dynamodb():
    """A table of orders and an outbox."""
    with mock_aws():
        client = boto3.client("dynamodb")
        client.create_table(
            TableName="orders",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        create_table(client, "outbox")
        yield client


def entries(dynamodb):
    """Give kinds and lanes in the outbox."""
    items = dynamodb.scan(TableName="outbox")["Items"]
    return sorted((item["kind"]["S"], item["lane"]["S"]) for item in items)


def test_an_order_and_its_message_are_written_together_or_not_at_all(dynamodb):
    """The second order of the same id writes neither."""
    outbox = DynamoOutbox("outbox", client=dynamodb)
    outbox_dynamodb.place_order(outbox, {"id": "7", "customer": "c"})

    with pytest.raises(AwsError, match="TransactionCanceled"):
        outbox_dynamodb.place_order(outbox, {"id": "7", "customer": "c"})
    assert entries(dynamodb) == [("order.placed", "MEDIUM")]


def test_an_entry_joins_a_transaction_of_the_callers_own(dynamodb):
    """With its explicit priority."""
    outbox = DynamoOutbox("outbox", client=dynamodb)
    outbox_dynamodb.place_order(outbox, {"id": "7", "customer": "c"})
    outbox_dynamodb.cancel_order(outbox, dynamodb, "7")

    assert ("order.cancelled", "HIGH") in entries(dynamodb)
    assert dynamodb.scan(TableName="orders")["Count"] == 0


def test_orders_reach_the_lanes_of_their_urgency(lanes_in_memory):
    """Through your own session and schema; the import has the lowest priority."""
    engine = sa.create_engine("sqlite://")
    outbox_sql.Base.metadata.create_all(engine)
    lanes_in_memory.publish_from(SqlOutboxStore(engine))
    lanes_in_memory.serve(Consumer())

    with Session(engine) as session:
        outbox_sql.import_orders(session, [outbox_sql.Order(customer="a")])
        outbox_sql.place_order(session, outbox_sql.Order(customer="b"))
    lanes_in_memory.run_until_idle()

    lanes_in_memory.assert_sent("order.placed", lane="MAIN", order=1)
    lanes_in_memory.assert_sent("order.placed", lane="MEDIUM", order=2, group="b")
    engine.dispose()


def test_a_reminder_waits_and_a_report_is_built_once():
    """However many orders ask for it."""
    engine = sa.create_engine("sqlite://")
    outbox_sql.Base.metadata.create_all(engine)
    with Session(engine) as session:
        for customer in ("a", "b"):
            session.add(order := outbox_sql.Order(customer=customer))
            session.flush()
            outbox_sql.remind_and_report(session, order)

    status = SqlOutboxStore(engine).status()
    assert (status.scheduled, sum(status.counts.values())) == (2, 3)
    engine.dispose()
