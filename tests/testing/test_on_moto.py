"""Lanes on moto: found and used as on AWS."""

import os

import boto3
import pytest

from lanes import Consumer, DeadLetter, Producer


@pytest.fixture
def consumer():
    """A consumer of one kind."""
    consumer = Consumer()
    consumer.handler("order.placed")(lambda _message: None)
    return consumer


@pytest.mark.lanes_config(
    consumer={"max_attempts": 1, "idempotency": True, "unknown_kind_for": 0}, outbox={"enabled": True}
)
def test_lanes_on_moto_are_found_by_the_environment_and_by_the_stacks_name(lanes_on_moto, consumer):
    """With the boto3 producer, the table, the outbox and the dead-letter queues."""
    Producer.from_env().send("order.placed", {"order": 7}, priority=50)
    Producer.from_stack("PriorityLanes").send("order.placed", {"order": 8}, priority=50)
    lanes_on_moto.producer.send("order.lost", {"order": 9}, priority=50)
    answer = lanes_on_moto.deliver("HIGH", consumer)

    assert answer == {"batchItemFailures": []}
    assert lanes_on_moto.receive("HIGH") == {"Records": []}
    assert [letter.data for letter in lanes_on_moto.dead_letters("HIGH")] == [{"order": 9}]
    assert lanes_on_moto.deployment.outbox
    assert os.environ["AWS_REGION"] == "eu-central-1"


def test_each_test_has_queues_of_its_own(lanes_on_moto, consumer):
    """What another test left is gone; an empty lane brings an empty answer."""
    assert lanes_on_moto.deliver("HIGH", consumer) == {"batchItemFailures": []}
    assert lanes_on_moto.deployment.outbox is None


@pytest.mark.parametrize(
    "engine",
    [
        pytest.param(name, marks=pytest.mark.lanes_config(consumer={"engine": name}))
        for name in ("mappings", "pull")
    ],
)
def test_what_is_not_done_stays_in_its_lane(lanes_on_moto, consumer, engine):
    """A failed attempt is answered as such and not deleted; both engines handle a batch."""
    assert lanes_on_moto.config.consumer.engine == engine
    lanes_on_moto.producer.send("order.placed", {"order": 7})
    lanes_on_moto.producer.send("order.refused", {"order": 8})

    @consumer.handler("order.refused")
    def _refuse(_message):
        raise ValueError("not yet")

    answer = lanes_on_moto.deliver("MEDIUM", consumer)

    assert len(answer["batchItemFailures"]) == 1
    assert lanes_on_moto.receive("MEDIUM") == {"Records": []}
    assert lanes_on_moto.dead_letters("MEDIUM") == []


def test_a_raw_handler_gets_the_attributes_of_the_message(lanes_on_moto, consumer):
    """Another service may say there what its body doesn't."""
    seen = {}

    @consumer.raw_handler
    def _take(record):
        seen.update(record.message_attributes)
        raise DeadLetter("seen")

    boto3.client("sqs").send_message(
        QueueUrl=lanes_on_moto.deployment.queues["MAIN"].url,
        MessageBody="no event",
        MessageGroupId="g",
        MessageDeduplicationId="d",
        MessageAttributes={
            "origin": {"DataType": "String", "StringValue": "scanner"},
            "seal": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
        },
    )
    lanes_on_moto.deliver("MAIN", consumer)

    assert seen["origin"]["stringValue"] == "scanner"
    assert seen["seal"]["binaryValue"] == "AP8="
    assert [letter.data for letter in lanes_on_moto.dead_letters("MAIN")] == ["no event"]


@pytest.mark.parametrize("call", ["receive", "dead_letters"])
def test_a_lane_that_there_is_not_is_refused_with_those_there_are(lanes_on_moto, call):
    """A test learns of its misspelling."""
    with pytest.raises(KeyError, match="no lane 'HIHG'; the lanes are HIGH, MEDIUM, MAIN"):
        getattr(lanes_on_moto, call)("HIHG")
