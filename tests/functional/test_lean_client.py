"""A slot's own calls of SQS: the requests of boto3's client, and that client again for all but a plain success."""

import json
import socket
import ssl
import threading
from types import SimpleNamespace
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.exceptions import ClientError, ConnectionClosedError
from botocore.session import Session
from moto import mock_aws

from lanes.aws.clients import Clients, consumer_config
from lanes.aws.lean_client import LeanClient
from lanes.aws.queues import LaneQueueCalls
from lanes.aws.runtime import runtime_from_env
from lanes.aws.wire import Connection, Endpoint
from lanes.config import LanesConfig
from lanes.config.deployment import Deployment, LaneQueues
from lanes.consumer.ledger import Entry
from lanes.consumer.settlement import VisibilityChange
from lanes.errors import AwsError, ConfigurationError
from local.deployed import make_client
from local.server import AwsServer
from tests.support.http_server import Server

JSON = {"content-type": "application/x-amz-json-1.0"}
EMPTY = ("200 OK", JSON, "{}")
BOTO3 = "amz-sdk-invocation-id"
"""A header that boto3's client alone sends."""


@pytest.fixture
def serve(monkeypatch):
    """Give a server with these answers, and the lanes' queues through a client that has made two calls."""
    monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=lambda _: None))
    opened = []

    def start(*answers, **how):
        server = Server(EMPTY, EMPTY, *answers, **how)
        opened.append(server)
        client = LeanClient(Clients(config=consumer_config(), endpoint_url=server.url))
        queues = {"MAIN": LaneQueues(url=f"{server.url}/1/MAIN.fifo", dead_letter_url="")}
        config = LanesConfig.from_dict({"lanes": [{"name": "MAIN"}]})
        calls = LaneQueueCalls(deployment=Deployment(config=config, queues=queues, table="t"), client=client)
        for _ in range(2):
            assert pull(calls) == []
        server.requests.clear()
        return server, calls

    yield start
    for one in opened:
        one.close()


def pull(calls):
    return calls.receive("MAIN", maximum=10, visibility=60, wait=0)


def is_lean(request):
    """Whether a request was made without boto3's client."""
    return BOTO3 not in request[1]


def test_a_call_is_the_one_that_boto3_makes(serve):
    """Same line, headers, parameters and signed headers, for each of the three."""
    answers = (EMPTY, ("200 OK", JSON, '{"Successful":[{"Id":"0"}]}'), ("200 OK", JSON, '{"Successful":[]}'))
    server, calls = serve(*answers)
    plain = Server(*answers)
    boto = boto3.client("sqs", endpoint_url=plain.url, region_name="eu-central-1")

    pull(calls)
    calls.delete("MAIN", [SimpleNamespace(message_id="m", receipt_handle="r")])
    calls.change_visibility("MAIN", [VisibilityChange(message_id="m", receipt_handle="r", seconds=7)])
    ours = list(server.requests)
    first, second, third = (json.loads(body) for _, _, body in ours)
    boto.receive_message(**first)
    boto.delete_message_batch(**second)
    boto.change_message_visibility_batch(**third)
    theirs = list(plain.requests)
    plain.close()

    assert all(map(is_lean, ours))
    differ = {"authorization", "x-amz-date", "host", "amz-sdk-invocation-id", "amz-sdk-request", "user-agent"}
    differ |= {"content-length"}
    for (line, lean, body), (boto_line, full, boto_body) in zip(ours, theirs, strict=True):
        assert (line, json.loads(body)) == (boto_line, json.loads(boto_body))
        assert {name: full[name] for name in full.keys() - differ} == {
            name: lean[name] for name in lean.keys() - differ
        }
        signed = [
            one["authorization"].partition("SignedHeaders")[2].partition(",")[0] for one in (lean, full)
        ]
        assert signed[0] == signed[1]
    assert [lean["x-amz-target"] for _, lean, _ in ours] == [
        "AmazonSQS.ReceiveMessage",
        "AmazonSQS.DeleteMessageBatch",
        "AmazonSQS.ChangeMessageVisibilityBatch",
    ]


def test_records_are_those_of_boto3(tmp_path):
    """From a whole server: texts, binary attributes, receipts that delete, and visibility."""
    with AwsServer(log_path=tmp_path / "server.log") as server:
        sqs = make_client("sqs", server.endpoint_url)
        fifo = {"FifoQueue": "true", "VisibilityTimeout": "60"}
        url = sqs.create_queue(QueueName="MAIN.fifo", Attributes=fifo)["QueueUrl"]
        attributes = {
            "bytes": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
            "text": {"DataType": "String", "StringValue": "é😀"},
        }
        for number in range(3):
            sqs.send_message(
                QueueUrl=url,
                MessageBody=f'"é\u2028{number}"',
                MessageGroupId=f"g{number}",
                MessageDeduplicationId=str(number),
                MessageAttributes=attributes,
            )
        clients = Clients(config=consumer_config(), endpoint_url=server.endpoint_url)
        lean = LeanClient(clients)
        deployment = Deployment(
            config=LanesConfig.from_dict({"lanes": [{"name": "MAIN"}]}),
            queues={"MAIN": LaneQueues(url=url, dead_letter_url="")},
            table="t",
        )
        calls, plain = (LaneQueueCalls(deployment=deployment, client=one) for one in (lean, clients.sqs()))

        expected = pull(plain)
        plain.change_visibility("MAIN", [shown(record) for record in expected])
        rounds = [pull(calls)]
        for _ in range(2):
            assert calls.change_visibility("MAIN", [shown(record) for record in rounds[-1]]) == []
            rounds.append(pull(calls))

        assert lean._endpoint is not None
        assert len(expected) == 3
        for found in rounds:
            assert [about(record) for record in found] == [about(record) for record in expected]
        assert calls.delete("MAIN", rounds[-1]) == []
        assert pull(plain) == []


def shown(record):
    return VisibilityChange(message_id=record.message_id, receipt_handle=record.receipt_handle, seconds=0)


def about(record):
    return record.message_id, record.group, record.body, record.message_attributes


def test_a_lost_answer_is_asked_for_again_under_its_attempt_id(serve):
    """By boto3's client, which has the tries that are left."""
    server, calls = serve(None, ("200 OK", JSON, json.dumps({"Messages": None})))

    assert pull(calls) == []

    lean, again = server.requests
    assert (is_lean(lean), is_lean(again)) == (True, False)
    ids = {json.loads(body)["ReceiveRequestAttemptId"] for _, _, body in server.requests}
    assert len(ids) == 1


def test_a_call_has_as_many_tries_as_through_boto3(serve):
    """Two, so an outage costs a slot no more time."""
    server, calls = serve(None, None, None)

    with pytest.raises(AwsError) as caught:
        pull(calls)

    assert len(server.requests) == 2
    assert (caught.value.operation, caught.value.answered) == ("ReceiveMessage", False)


@pytest.mark.parametrize(
    "answer",
    [
        ("403 Forbidden", JSON, '{"__type":"AccessDeniedException","message":"no"}'),
        ("200 OK", JSON, "[]"),
        ("200 OK", JSON, "no JSON"),
    ],
)
def test_any_other_answer_is_left_to_boto3(serve, answer):
    """Which reads the error, or a second answer."""
    refused = ("403 Forbidden", JSON, '{"__type":"AccessDeniedException","message":"no"}')
    server, calls = serve(answer, refused, EMPTY)

    with pytest.raises(AwsError) as caught:
        pull(calls)

    assert caught.value.code == "AccessDeniedException"
    assert pull(calls) == []
    assert [is_lean(request) for request in server.requests] == [True, False, True]


CHANGE = {
    "TableName": "t",
    "Key": {"pk": {"S": "k"}},
    "UpdateExpression": "SET n = :n",
    "ExpressionAttributeValues": {":n": {"N": "1"}},
}


@pytest.fixture
def table(monkeypatch):
    """Give a server with these answers, and a client of DynamoDB that boto3 has made no call for."""
    monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=lambda _: None))
    opened = []

    def start(*answers):
        server = Server(*answers)
        opened.append(server)
        return server, LeanClient(Clients(config=consumer_config(), endpoint_url=server.url), "dynamodb")

    yield start
    for one in opened:
        one.close()


@pytest.mark.parametrize(
    ("code", "more"),
    [
        ("ConditionalCheckFailedException", {"Item": {"pk": {"S": "k"}}}),
        ("TransactionCanceledException", {"CancellationReasons": [{"Code": "None"}]}),
    ],
)
def test_a_condition_that_does_not_hold_is_boto3s_error_without_another_call(table, code, more):
    """And without boto3's client, whose making is a twelfth of a cold start."""
    body = json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "no", **more})
    refused = ("400 Bad Request", JSON, body)
    server, client = table(refused, refused, EMPTY)
    boto = boto3.client("dynamodb", endpoint_url=server.url, region_name="eu-central-1")

    errors = []
    for one in (client, boto):
        with pytest.raises(ClientError) as caught:
            one.update_item(**CHANGE)
        errors.append(caught.value)
    client.update_item(**CHANGE)

    assert list(map(is_lean, server.requests)) == [True, False, True]
    assert "_client" not in vars(client)
    ours, theirs = (one.response for one in errors)
    assert ours["Error"] == theirs["Error"]
    assert {name: ours[name] for name in more} == {name: theirs[name] for name in more} == more
    assert str(errors[0]) == str(errors[1])


def test_a_table_whose_answer_is_lost_is_asked_again_with_one_token(table):
    """The second try of a transaction is none that DynamoDB would take as a new one."""
    server, client = table(None, EMPTY, None, None)

    client.transact_write_items(TransactItems=[{"Delete": {"TableName": "t", "Key": {"pk": {"S": "k"}}}}])
    with pytest.raises(ConnectionClosedError):
        client.get_item(TableName="t", Key={"pk": {"S": "k"}})

    assert list(map(is_lean, server.requests)) == [True, False, True, False]
    tokens = {json.loads(body)["ClientRequestToken"] for _, _, body in server.requests[:2]}
    assert len(tokens) == 1


@pytest.mark.parametrize("code", ["ProvisionedThroughputExceededException", "AccessDeniedException"])
def test_any_other_refusal_of_a_table_is_left_to_boto3(table, code):
    """Which tries again where that helps."""
    refused = ("400 Bad Request", JSON, json.dumps({"__type": f"x#{code}", "message": "no"}))
    server, client = table(refused, refused)

    with pytest.raises(ClientError, match=code):
        client.query(TableName="t", KeyConditionExpression="pk = :pk")

    assert list(map(is_lean, server.requests)) == [True, False]


def test_a_connection_that_says_something_without_being_asked_is_closed(serve):
    """The next call has another one, so it never gets the answer to an earlier call."""
    server, calls = serve(EMPTY)
    ours, theirs = socket.socketpair()
    with theirs:
        idle = calls._receiver._idle
        idle.append(Connection(ours))
        theirs.sendall(b'HTTP/1.1 200 OK\r\ncontent-length: 16\r\n\r\n{"Messages":[0]}')

        assert pull(calls) == []

    assert ours.fileno() == -1
    assert list(map(is_lean, server.requests)) == [True]


def test_threads_share_a_client(serve):
    """Each call has a connection of its own while it goes on."""
    server, calls = serve(*[EMPTY] * 200)
    found = []
    threads = [
        threading.Thread(target=lambda: found.extend(pull(calls) for _ in range(25))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [[]] * 200
    assert len(server.requests) == 200
    assert all(map(is_lean, server.requests))


def test_moto_is_asked_in_place_of_the_network(monkeypatch):
    """Also where it begins anew after the client's first calls: no test of yours reaches AWS by this way."""

    def opened(*_args, **_how):
        raise AssertionError("a lean call went to the network")

    monkeypatch.setattr(Endpoint, "connect", opened)
    client = LeanClient(Clients(config=consumer_config(), region="eu-central-1"))
    for _ in range(2):
        with mock_aws():
            sqs = boto3.client("sqs", region_name="eu-central-1")
            url = sqs.create_queue(QueueName="MAIN.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
            for _ in range(3):
                assert "Messages" not in client.receive_message(QueueUrl=url)
    assert client._endpoint is not None


@pytest.mark.parametrize(
    ("region", "domain", "partition"),
    [
        ("eu-central-1", "com", "aws"),
        ("us-gov-west-1", "com", "aws-us-gov"),
        ("cn-north-1", "com.cn", "aws-cn"),
    ],
)
def test_a_function_serves_without_a_client_of_boto3(monkeypatch, region, domain, partition):
    """Whose making is a sixth of its cold start: it reads counts, rings, receives, and writes its table."""
    messages = [
        {
            "MessageId": "m",
            "ReceiptHandle": "r",
            "Body": "{}",
            "MD5OfBody": "",
            "Attributes": {"SentTimestamp": "1"},
        }
    ]
    counts = {"ApproximateNumberOfMessages": "2", "ApproximateNumberOfMessagesNotVisible": "3"}
    server = Server(
        *(
            ("200 OK", JSON, json.dumps(one))
            for one in ({"Attributes": counts}, {"Messages": messages}, {}, {})
        )
    )
    reached = []

    def connect(endpoint):
        reached.append(endpoint.url)
        return Connection(socket.create_connection(("127.0.0.1", urlsplit(server.url).port)))

    def refuse(*_args, **_how):
        raise AssertionError("a client of boto3 was made")

    monkeypatch.setattr(Endpoint, "connect", connect)
    monkeypatch.setattr(Session, "create_client", refuse)
    # All that Lambda sets.
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_REGION", region)
    host = f"sqs.{region}.amazonaws.{domain}"
    deployment = Deployment(
        config=LanesConfig.from_dict({"lanes": [{"name": "MAIN"}], "consumer": {"engine": "pull"}}),
        queues={
            "MAIN": LaneQueues(
                url=f"https://{host}/1/MAIN.fifo", dead_letter_url=f"https://{host}/1/dead.fifo"
            )
        },
        table="t",
        bell=f"https://{host}/1/bell.fifo",
    )

    runtime = runtime_from_env({"LANES_DEPLOYMENT": deployment.to_json()})

    assert runtime.queues.depth("MAIN").backlog == 2
    (record,) = pull(runtime.queues)
    assert record.entry["eventSourceARN"] == f"arn:{partition}:sqs:{region}:1:MAIN.fifo"
    runtime.bell.ring([1])
    runtime.ledger.amend([Entry(lane="MAIN", message_id="m")])
    server.close()
    assert all(map(is_lean, server.requests))
    assert set(reached) == {f"https://{host}/", f"https://{host.replace('sqs', 'dynamodb')}/"}


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"AWS_REGION": ""}, "no AWS region is known"),
        (
            {"AWS_WEB_IDENTITY_TOKEN_FILE": "/missing", "AWS_ROLE_ARN": "arn:aws:iam::1:role/r"},
            "AWS credentials can't",
        ),
        ({"AWS_CA_BUNDLE": "/missing.pem"}, "the file of trusted certificates"),
    ],
)
def test_what_boto3_would_refuse_is_refused_at_the_start(monkeypatch, variables, reason):
    """Not at the first call, when a handler may have run."""
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(ConfigurationError, match=reason):
        LeanClient(Clients(), near="https://sqs.eu-central-1.amazonaws.com/1/MAIN.fifo")


def test_a_proxy_is_left_to_boto3(serve, monkeypatch, caplog):
    """Its requests have another form; the log says so."""
    caplog.set_level("INFO")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    server = Server()
    client = LeanClient(Clients(config=consumer_config(), endpoint_url=server.url))
    for _ in range(3):
        with pytest.raises(Exception, match="proxy"):
            client.receive_message(QueueUrl=f"{server.url}/1/MAIN.fifo")
    server.close()

    assert "calling SQS through boto3's client" in caplog.text
    assert server.requests == []


@pytest.mark.parametrize("bundle", ["empty.pem", "."])
def test_trusted_certificates_that_cannot_be_read_are_an_error_of_the_call(tmp_path, monkeypatch, bundle):
    """At each call, as boto3's client says it: a slot that waits out an error does not wait out another exception."""
    monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=lambda _: None))
    (tmp_path / "empty.pem").write_text("")
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / bundle))
    server = Server(tls=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    deployment = Deployment(
        config=LanesConfig.from_dict({"lanes": [{"name": "MAIN"}]}),
        queues={"MAIN": LaneQueues(url=f"{server.url}/1/MAIN.fifo", dead_letter_url="")},
        table="t",
    )
    client = LeanClient(Clients(config=consumer_config(), endpoint_url=server.url))
    calls = LaneQueueCalls(deployment=deployment, client=client)

    codes = []
    for _ in range(3):
        with pytest.raises(AwsError) as caught:
            pull(calls)
        codes.append(caught.value.code)
    server.close()

    assert codes == ["SSLError"] * 3
