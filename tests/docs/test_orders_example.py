"""Tests of the handlers in `examples/orders/handler.py`: by themselves, and behind the consumer on moto."""

import boto3
import pytest
from moto import mock_aws

from examples.orders import handler
from lanes import DeadLetter, Deployment, LanesConfig, Message, Producer, Retry
from lanes.deployment import LaneQueues

FIFO = {"FifoQueue": "true", "ContentBasedDeduplication": "false"}


def test_a_payment_without_an_amount_is_given_up():
    """A handler is a plain function: call it."""
    with pytest.raises(DeadLetter):
        handler.book_payment(Message(kind="payment.captured", data={"amount": 0}))


def test_a_large_payment_is_tried_later():
    """What it raises says what becomes of the message."""
    with pytest.raises(Retry) as caught:
        handler.book_payment(Message(kind="payment.captured", data={"amount": 20_000}))

    assert caught.value.after.total_seconds() == 120


@pytest.fixture
def deployment(monkeypatch):
    """Lanes on moto, found the way that the function finds them."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    with mock_aws():
        sqs = boto3.client("sqs")
        config = LanesConfig.from_dict({})
        names = [lane.name for lane in config.lanes]
        urls = {
            name: sqs.create_queue(QueueName=f"{name}.fifo", Attributes=FIFO)["QueueUrl"] for name in names
        }
        queues = {name: LaneQueues(url=url, dead_letter_url=url) for name, url in urls.items()}
        deployment = Deployment(config=config, queues=queues, table="not-needed")
        monkeypatch.setenv("LANES_DEPLOYMENT", deployment.to_json())
        yield deployment


def test_a_payment_is_booked_once_it_arrives(deployment):
    """From the producer through the queue to the handler; an empty answer lets Lambda delete the batch."""
    sent = Producer.from_env().send("payment.captured", {"amount": 5}, priority=50)

    answer = handler.lambda_handler(received_event(deployment.queues["HIGH"].url), None)

    assert answer == {"batchItemFailures": []}
    assert handler.BOOKED[sent.id] == 5


def received_event(url):
    """Receive a batch and give it as Lambda gives it to the function."""
    answer = boto3.client("sqs").receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, MessageSystemAttributeNames=["All"]
    )
    return {
        "Records": [
            {
                "messageId": message["MessageId"],
                "receiptHandle": message["ReceiptHandle"],
                "body": message["Body"],
                "attributes": message["Attributes"],
                "eventSource": "aws:sqs",
                "eventSourceARN": f"arn:aws:sqs:eu-central-1:123456789012:{url.rpartition('/')[2]}",
            }
            for message in answer["Messages"]
        ]
    }
