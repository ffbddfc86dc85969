"""The outer form of messages: the calls to SQS that the producer, the relay of an outbox and a Spark job make."""

from datetime import UTC, datetime

import pytest
from moto import mock_aws

from lanes import Message, Priority
from lanes.testing import FakeClock
from tests.golden.golden import check
from tests.golden.stage import Sqs, producer_of, publish_from_outbox, rows_sent_by_spark, without_times

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def clock():
    """The time."""
    return FakeClock()


@pytest.fixture
def sqs():
    """A client of SQS."""
    return Sqs()


def message(id, **more):
    """Make a message with everything fixed."""
    return Message(
        id=id, kind="order.placed", source="shop", time=datetime(2027, 1, 15, 8, 0, tzinfo=UTC), **more
    )


def test_messages_of_the_producer(sqs, clock):
    """With all of the optional fields, and with none."""
    producer_of(sqs, clock).send_many(
        [
            message("plain"),
            message("full", data={"größe": 7}, group="customer-1", priority=60, traceparent=TRACEPARENT),
            message("low", data=[1, None], group="customer-1", priority=Priority.LOW, deduplication_id="own"),
            message("an id with characters that SQS does not take: ü"),
        ],
        concurrency=1,
    )

    check("wire_producer", sqs.calls)


def test_messages_of_the_outbox(sqs, clock):
    """An entry before and after it is published, its message under its id, group and priority, and the log."""
    with mock_aws():
        found = publish_from_outbox(
            sqs,
            clock,
            [
                {"kind": "order.placed", "data": {"order": 7}, "id": "order-7", "group": "customer-1"},
                {"kind": "payment.captured", "data": None, "id": "payment-7", "priority": 50},
            ],
        )

    check("wire_outbox", without_times({**found, "calls": sqs.calls}))


def test_an_entry_that_cannot_be_published(sqs, clock):
    """It fails, and waits for its next attempt."""
    sqs.broken = True
    with mock_aws():
        found = publish_from_outbox(
            sqs, clock, [{"kind": "order.placed", "data": {"order": 7}, "id": "order-7"}]
        )

    check("outbox_not_sent", without_times(found))


def test_messages_of_a_spark_job(sqs):
    """Rows of a table become messages with stable ids."""
    rows_sent_by_spark(
        sqs,
        [
            {"id": 1, "data": '{"tier": "gold"}', "group": "customer-1"},
            {"id": 2, "data": '{"tier": "silver"}', "priority": 60},
        ],
    )

    check("wire_spark", without_times(sqs.calls))
