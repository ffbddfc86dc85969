"""Corrected queues inside moto: other services that fill them, and behaviour that AWS does not document."""

from __future__ import annotations

from types import SimpleNamespace

import boto3
import pytest
from moto.sqs.models import sqs_backends

from lanes.testing.fifo.message import GroupOrder
from local.corrections.sqs_queue import LocalQueue, set_unknowns
from local.unknowns import QueueUnknowns


def queue_arn(corrected, url):
    """Return the ARN of a queue."""
    answer = corrected.client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return answer["Attributes"]["QueueArn"]


def test_a_fifo_topic_delivers_to_a_fifo_queue(corrected):
    """SNS inside moto sends through the model."""
    sns = boto3.client("sns")
    topic = sns.create_topic(Name="topic.fifo", Attributes={"FifoTopic": "true"})["TopicArn"]
    sns.subscribe(
        TopicArn=topic,
        Protocol="sqs",
        Endpoint=queue_arn(corrected, corrected.url),
        Attributes={"RawMessageDelivery": "true"},
    )
    for _ in range(2):
        sns.publish(TopicArn=topic, Message="A1", MessageGroupId="A", MessageDeduplicationId="same")

    assert [delivery.body for delivery in corrected.receive()] == ["A1"]


@pytest.mark.parametrize("name", ["queue.fifo", "plain"])
def test_sending_never_invokes_a_function(corrected, name):
    """A mapping that moto attached to the queue stays quiet, so the message is received for the first time."""
    if name == "plain":
        corrected.client.create_queue(QueueName=name)
    mapping = SimpleNamespace(enabled=True, batch_size=10)
    queue = sqs_backends["123456789012"]["eu-central-1"].queues[name]
    queue.lambda_event_source_mappings["arn:aws:lambda:eu-central-1:123456789012:function:f"] = mapping
    url = corrected.client.get_queue_url(QueueName=name)["QueueUrl"]
    options = {"MessageGroupId": "A", "MessageDeduplicationId": "one"} if name.endswith(".fifo") else {}
    corrected.client.send_message(QueueUrl=url, MessageBody="body", **options)
    (message,) = corrected.client.receive_message(
        QueueUrl=url, MessageSystemAttributeNames=["ApproximateReceiveCount"]
    )["Messages"]

    assert message["Attributes"]["ApproximateReceiveCount"] == "1"


def test_a_queue_tells_what_it_holds_and_what_came_and_went_since_it_last_told(corrected):
    """A message that SQS drops as a repeat was not sent."""
    queue = LocalQueue.of(sqs_backends["123456789012"]["eu-central-1"].queues["queue.fifo"])
    queue.take_figures()
    for _ in range(2):
        corrected.send("A1", group="A", deduplication_id="same")
    (delivery,) = corrected.receive()
    corrected.receive()
    held = queue.take_figures()
    corrected.delete(delivery.handle)

    assert held.pop("ApproximateAgeOfOldestMessage") >= 0
    assert held == {
        "NumberOfMessagesSent": 1,
        "SentMessageSize": 2,
        "NumberOfMessagesReceived": 1,
        "NumberOfEmptyReceives": 1,
        "ApproximateNumberOfMessagesVisible": 0,
        "ApproximateNumberOfMessagesNotVisible": 1,
    }
    assert queue.take_figures() == {
        "NumberOfMessagesSent": 0,
        "NumberOfMessagesDeleted": 1,
        "ApproximateNumberOfMessagesVisible": 0,
        "ApproximateNumberOfMessagesNotVisible": 0,
    }


@pytest.fixture
def unknowns():
    """Set the behaviour of all queues, and take it back."""
    yield lambda **values: set_unknowns(QueueUnknowns(**values))
    set_unknowns(QueueUnknowns())


def test_counts_may_be_late(corrected, unknowns):
    """By as many seconds as set, for each change."""
    unknowns(stale=5.0)
    corrected.send("a")
    corrected.clock.advance(3)
    corrected.send("b")
    corrected.receive(1)
    assert corrected.counts() == (0, 0, 0)

    corrected.clock.advance(2)
    assert corrected.counts() == (1, 0, 0)

    corrected.clock.advance(3)
    assert corrected.counts() == (1, 1, 0)


def test_blocked_messages_may_be_left_out_of_the_counts(corrected, unknowns):
    """Those behind one in flight of their group."""
    unknowns(blocked_counted=False)
    for number in range(3):
        corrected.send(f"a{number}", group="A")
    corrected.send("b", group="B")
    corrected.receive(1)

    assert corrected.counts() == (1, 1, 0)


def test_short_polls_may_miss_and_long_ones_do_not(corrected, unknowns):
    """Here all of them."""
    unknowns(missed_polls=1.0)
    corrected.send("a")

    assert corrected.receive() == []
    found = corrected.client.receive_message(QueueUrl=corrected.url, WaitTimeSeconds=1)
    assert [message["Body"] for message in found["Messages"]] == ["a"]


def test_groups_may_take_turns(corrected, unknowns):
    """A group of a queue in high-throughput mode goes behind the others when it is received."""
    unknowns(group_order=GroupOrder.TURN)
    high = {"DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}
    corrected.client.set_queue_attributes(QueueUrl=corrected.url, Attributes=high)
    for group in "AABB":
        corrected.send(group, group=group)
    (first,) = corrected.receive(1)
    corrected.change_visibility(first.handle, 0)

    assert [delivery.group for delivery in corrected.receive(1)] == ["B"]
