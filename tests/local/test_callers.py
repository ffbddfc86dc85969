"""The servers of the local platform answer programs, and no web page in the developer's browser."""

import http.client
import json
import socket
import threading
import time
from urllib.parse import urlsplit

import pytest

from local.deployed import make_client
from local.invocations import InvokeEndpoint
from local.runtime_api import RuntimeApi, RuntimeCall

HOSTILE = {
    "a page of another site": {"Origin": "https://evil.example"},
    "a sandboxed page": {"Origin": "null"},
    "a page of another port": {"Origin": "http://127.0.0.1:8000"},
    "a form without an origin": {"Sec-Fetch-Site": "cross-site"},
    "a page of localhost": {"Sec-Fetch-Site": "same-site"},
    "a rebound name": {"Host": "evil.example"},
    "a rebound name with a port": {"Host": "evil.example:4566"},
    "a name that begins like ours": {"Host": "127.0.0.1.evil.example"},
    "a name that ends like ours": {"Host": "evil.localhost"},
    "a user in the host": {"Host": "127.0.0.1@evil.example"},
    "two hosts": {"Host": "127.0.0.1, evil.example"},
    "no host": {"Host": ""},
}
QUEUES = ("POST", "/", b"Action=ListQueues&Version=2012-11-05")
SIGNED = (
    "AWS4-HMAC-SHA256 Credential=x/20260101/eu-central-1/sqs/aws4_request, SignedHeaders=host, Signature=0"
)
FORM = {"Content-Type": "application/x-www-form-urlencoded", "Authorization": SIGNED}


def ask(port, method, path, body=b"", headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


@pytest.fixture(scope="module")
def port(server):
    return urlsplit(server.endpoint_url).port


@pytest.mark.parametrize("headers", HOSTILE.values(), ids=HOSTILE)
def test_the_aws_server_refuses_web_pages(port, headers):
    """Whoever may call it may create a function, and so run code on this machine."""
    status, _, reason = ask(port, *QUEUES, FORM | headers)
    assert status in (403, 421), reason
    assert b"refuses" in reason


@pytest.mark.parametrize("path", ["/", "/2015-03-31/functions", "/_lanes/calls", "/moto-api/reset"])
def test_the_aws_server_grants_no_preflight(port, path):
    """A granted preflight lets a page send any request."""
    preflight = {"Origin": "https://evil.example", "Access-Control-Request-Method": "PUT"}
    status, headers, _ = ask(port, "OPTIONS", path, headers=preflight)
    assert status == 403
    assert not [name for name in headers if name.lower().startswith("access-control-")]


def test_the_aws_server_answers_programs_without_cors(port):
    """Without the headers of CORS no page can read an answer."""
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"LOCALHOST:{port}"):
        status, headers, body = ask(port, *QUEUES, FORM | {"Host": host})
        assert status == 200, body
        assert not [name for name in headers if name.lower().startswith("access-control-")]


def test_the_port_of_invocations_refuses_web_pages():
    """It runs functions."""
    endpoint = InvokeEndpoint(lambda _arn: None)
    port = endpoint.start()
    try:
        for headers in HOSTILE.values():
            assert ask(port, "POST", "/function", b"{}", headers)[0] in (403, 421), headers
        assert ask(port, "POST", "/function", b"{}")[0] == 404
    finally:
        endpoint.stop()


@pytest.mark.parametrize("headers", HOSTILE.values(), ids=HOSTILE)
def test_the_runtime_api_refuses_web_pages(headers):
    """An event holds messages, and an answer decides what is deleted."""
    lifeline, other_end = socket.socketpair()
    api = RuntimeApi(lifeline=lifeline)
    port = int(api.address.rpartition(":")[2])
    path = "/2018-06-01/runtime/invocation/next"
    answers = []
    hostile = threading.Thread(target=lambda: answers.append(ask(port, "GET", path, headers=headers)))
    hostile.start()
    try:
        while hostile.is_alive():
            assert api.next_request(until=time.monotonic() + 0.05) is None
        status, _, body = answers[0]
        assert status in (403, 421)
        assert "refuses" in json.loads(body)["errorMessage"]

        runtime = threading.Thread(target=lambda: answers.append(ask(port, "GET", path)))
        runtime.start()
        request = api.next_request(until=time.monotonic() + 30)
        assert request.call is RuntimeCall.NEXT
        request.reply("200 OK")
        runtime.join()
        assert answers[1][0] == 200
    finally:
        api.close()
        other_end.close()
        lifeline.close()


def test_calls_are_told_apart_by_key_and_operation(server):
    """JSON, query and REST services are counted, and a reset starts from zero."""
    make_client("sqs", server.endpoint_url, access_key="function_a").list_queues()
    dynamodb = make_client("dynamodb", server.endpoint_url, access_key="function_b")
    dynamodb.list_tables()
    dynamodb.list_tables()
    make_client("sts", server.endpoint_url, access_key="someone").get_caller_identity()
    make_client("s3", server.endpoint_url, access_key="someone").list_buckets()

    calls = server.calls(reset=True)

    assert calls["function_a"] == {"sqs.ListQueues": 1}
    assert calls["function_b"] == {"dynamodb.ListTables": 2}
    assert calls["someone"] == {"sts.GetCallerIdentity": 1, "s3.GET": 1}
    assert server.calls() == {}


def test_calls_about_messages_of_fifo_queues_are_counted_too(server):
    """The short way that these calls take passes the counter."""
    sqs = make_client("sqs", server.endpoint_url, access_key="function_c")
    url = sqs.create_queue(QueueName="counted.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="x", MessageGroupId="g", MessageDeduplicationId="d")
    sqs.receive_message(QueueUrl=url)

    counted = server.calls()["function_c"]

    assert counted == {"sqs.CreateQueue": 1, "sqs.SendMessage": 1, "sqs.ReceiveMessage": 1}
