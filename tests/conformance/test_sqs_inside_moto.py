"""Other services of moto that put messages into corrected queues."""

from types import SimpleNamespace

import boto3
import pytest
from moto.sqs.models import sqs_backends

from local.corrections.sqs_queue import LocalQueue


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
