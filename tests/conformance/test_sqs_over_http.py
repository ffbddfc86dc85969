"""Corrected moto as a server: the same behaviour over HTTP, from several threads, on open connections."""

import http.client
import json
import threading
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.exceptions import ClientError
from moto.server import ThreadedMotoServer

from local.corrections import install

GROUPS = [f"group-{number}" for number in range(20)]
PER_GROUP = 5
PATIENCE_SECONDS = 60


@pytest.fixture(scope="module")
def endpoint():
    """Address of a corrected server in this process."""
    install()
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()
    server._server.server_close()


@pytest.fixture
def client(endpoint):
    """An SQS client of the server."""
    client = boto3.client("sqs", endpoint_url=endpoint)
    yield client
    client.close()


@pytest.fixture
def url(client):
    """A FIFO queue of its own."""
    name = f"queue-{uuid.uuid4().hex}.fifo"
    return client.create_queue(QueueName=name, Attributes={"FifoQueue": "true"})["QueueUrl"]


def send(client, url, body, group="A"):
    """Send one message."""
    return client.send_message(
        QueueUrl=url, MessageBody=body, MessageGroupId=group, MessageDeduplicationId=uuid.uuid4().hex
    )


def test_four_receivers_never_hold_the_same_group(client, url):
    """Every message is delivered once, in the order of its group, and no group to two receivers at a time."""
    for number in range(PER_GROUP):
        for group in GROUPS:
            send(client, url, f"{group}:{number}", group)
    lock = threading.Lock()
    held = Counter()
    handled = {group: [] for group in GROUPS}
    most_held = []

    def work():
        while sum(map(len, handled.values())) < len(GROUPS) * PER_GROUP:
            messages = client.receive_message(
                QueueUrl=url,
                MaxNumberOfMessages=3,
                WaitTimeSeconds=1,
                MessageSystemAttributeNames=["MessageGroupId"],
            ).get("Messages", [])
            groups = {message["Attributes"]["MessageGroupId"] for message in messages}
            with lock:
                held.update(groups)
                most_held.extend(held[group] for group in groups)
                for message in messages:
                    group, _, number = message["Body"].partition(":")
                    handled[group].append(int(number))
            with lock:
                held.subtract(groups)
            for message in messages:
                client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    with ThreadPoolExecutor(4) as pool:
        for worker in [pool.submit(work) for _ in range(4)]:
            worker.result(PATIENCE_SECONDS)

    assert set(most_held) == {1}
    assert handled == {group: list(range(PER_GROUP)) for group in GROUPS}


def test_a_delete_wakes_waiting_receivers_and_one_of_them_gets_the_group(client, url):
    """The next message of the group goes to exactly one long poll."""
    for body in ("A1", "A2", "A3"):
        send(client, url, body)
    (first,) = client.receive_message(QueueUrl=url)["Messages"]
    with ThreadPoolExecutor(3) as pool:
        polls = [
            pool.submit(client.receive_message, QueueUrl=url, WaitTimeSeconds=1, MaxNumberOfMessages=10)
            for _ in range(3)
        ]
        client.delete_message(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"])
        answers = [poll.result(PATIENCE_SECONDS).get("Messages", []) for poll in polls]

    assert sorted(map(len, answers)) == [0, 0, 2]


def test_a_refusal_over_http_has_the_documented_code(client, url):
    """The shortcut leaves errors to moto, which words them for every protocol."""
    with pytest.raises(ClientError) as refused:
        client.delete_message(QueueUrl=url, ReceiptHandle="nonsense")
    with pytest.raises(ClientError) as missing:
        client.receive_message(QueueUrl=url + "-not")

    assert refused.value.response["Error"]["Code"] == "ReceiptHandleIsInvalid"
    assert missing.value.response["Error"]["Code"] == "AWS.SimpleQueueService.NonExistentQueue"


def test_a_batch_fails_in_part_over_http(client, url):
    """The good entry is accepted, the bad one listed."""
    good = {"Id": "good", "MessageBody": "b", "MessageGroupId": "A", "MessageDeduplicationId": "1"}
    bad = good | {"Id": "bad", "MessageGroupId": "with space"}
    answer = client.send_message_batch(QueueUrl=url, Entries=[bad, good])

    assert [sent["Id"] for sent in answer["Successful"]] == ["good"]
    assert [failed["Code"] for failed in answer["Failed"]] == ["InvalidParameterValue"]


def test_binary_attributes_survive_http(client, url):
    """They are sent moto's way and received through the shortcut."""
    client.send_message(
        QueueUrl=url,
        MessageBody="b",
        MessageGroupId="A",
        MessageDeduplicationId="1",
        MessageAttributes={"raw": {"DataType": "Binary", "BinaryValue": b"\x00\xff"}},
    )
    (message,) = client.receive_message(QueueUrl=url, MessageAttributeNames=["All"])["Messages"]

    assert message["MessageAttributes"]["raw"]["BinaryValue"] == b"\x00\xff"


def test_another_region_or_account_sees_other_queues(client, endpoint, url):
    """Queues belong to the region of the caller's credential."""
    elsewhere = boto3.client("sqs", endpoint_url=endpoint, region_name="eu-west-1")
    with pytest.raises(ClientError) as missing:
        elsewhere.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
    elsewhere.close()

    assert missing.value.response["Error"]["Code"] == "AWS.SimpleQueueService.NonExistentQueue"


def test_requests_share_one_connection(endpoint, client):
    """Requests of any kind, refused ones included, leave the connection fit for the next."""
    connection = http.client.HTTPConnection(urlsplit(endpoint).netloc)
    connection.connect()
    socket = connection.sock
    statuses = []
    for body, target in [
        ({"QueueName": "plain"}, "CreateQueue"),
        ({"QueueUrl": "missing.fifo"}, "ReceiveMessage"),
        ({}, "NoSuchOperation"),
        ({}, "ListQueues"),
    ]:
        connection.request(
            "POST",
            "/",
            body=json.dumps(body),
            headers={
                "Content-Type": "application/x-amz-json-1.0",
                "X-Amz-Target": f"AmazonSQS.{target}",
                "Authorization": "AWS4-HMAC-SHA256 Credential=x/20260101/eu-central-1/sqs/aws4_request",
            },
        )
        answer = connection.getresponse()
        answer.read()
        statuses.append(answer.status)
    same = connection.sock is socket
    connection.close()

    assert statuses == [200, 400, 400, 200]
    assert same


def test_large_objects_travel_over_an_open_connection(endpoint):
    """An upload announced with Expect, a download and a request without a body."""
    client = boto3.client("s3", endpoint_url=endpoint)
    content = bytes(range(256)) * 4096
    client.create_bucket(Bucket="bucket", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    client.put_object(Bucket="bucket", Key="key", Body=content)
    downloaded = client.get_object(Bucket="bucket", Key="key")["Body"].read()
    size = client.head_object(Bucket="bucket", Key="key")["ContentLength"]
    client.close()

    assert downloaded == content
    assert size == len(content)
