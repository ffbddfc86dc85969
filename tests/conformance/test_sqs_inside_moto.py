"""Other services of moto that put messages into corrected queues."""

import io
import json
import zipfile

import boto3
import pytest
from moto.sqs.models import sqs_backends


def archive():
    """Return the smallest function package."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as package:
        package.writestr("handler.py", "def handle(event, context): ...")
    return buffer.getvalue()


@pytest.fixture
def function_arn(corrected):
    """A function that nothing can run here."""
    trust = {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
        ],
    }
    role = boto3.client("iam").create_role(RoleName="role", AssumeRolePolicyDocument=json.dumps(trust))
    return boto3.client("lambda").create_function(
        FunctionName="function",
        Runtime="python3.13",
        Role=role["Role"]["Arn"],
        Handler="handler.handle",
        Code={"ZipFile": archive()},
    )["FunctionArn"]


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
def test_sending_never_invokes_a_function(corrected, function_arn, name):
    """Moto's own event source mapping stays quiet, so the message is still there."""
    if name == "plain":
        corrected.client.create_queue(QueueName=name)
    url = corrected.client.get_queue_url(QueueName=name)["QueueUrl"]
    boto3.client("lambda").create_event_source_mapping(
        EventSourceArn=queue_arn(corrected, url), FunctionName=function_arn
    )
    options = {"MessageGroupId": "A", "MessageDeduplicationId": "one"} if name.endswith(".fifo") else {}
    corrected.client.send_message(QueueUrl=url, MessageBody="body", **options)
    (message,) = corrected.client.receive_message(
        QueueUrl=url, MessageSystemAttributeNames=["ApproximateReceiveCount"]
    )["Messages"]

    assert message["Attributes"]["ApproximateReceiveCount"] == "1"
    assert sqs_backends["123456789012"]["eu-central-1"].queues[name].lambda_event_source_mappings
