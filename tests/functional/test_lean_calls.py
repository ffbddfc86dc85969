"""Lean calls are boto3's requests byte for byte, survive what connections do, and give way to boto3 where needed."""

import json
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import boto3
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from lanes.aws.batch_calls import LeanCalls, batch_body, open_calls
from lanes.aws.clients import Clients
from lanes.aws.sending import SqsSender
from lanes.aws.wire import Boto3NeededError
from lanes.config import LanesConfig
from lanes.config.deployment import Deployment, LaneQueues
from lanes.errors import AwsError
from lanes.producer.outgoing import ACCEPTED, UNANSWERED, Accepted, Refused, SendEntry
from lanes.producer.sending import ThreadedCalls
from tests.support.http_server import Server

HOUR = timedelta(hours=1)
QUEUE = "https://sqs.eu-central-1.amazonaws.com/123456789012/MAIN.fifo"
BELL = "https://sqs.eu-central-1.amazonaws.com/123456789012/bell.fifo"


@dataclass
class Entry:
    """An entry of a batch."""

    body: str = "{}"
    message_group_id: str = "g"
    message_deduplication_id: str = "d"
    run: str = ""

    def entry(self, entry_id):
        """Give it as boto3's client takes it."""
        return SendEntry(
            entry_id=entry_id,
            body=self.body,
            message_group_id=self.message_group_id,
            message_deduplication_id=self.message_deduplication_id,
        )


@pytest.fixture
def serve():
    """Give a server with these answers, and lean calls to it."""
    opened = []

    def start(*answers, concurrency=4):
        server = Server(*answers)
        calls = open_calls(Clients(region="eu-central-1", endpoint_url=server.url), concurrency=concurrency)
        opened.extend([server, calls])
        return server, calls

    yield start
    for one in reversed(opened):
        one.close()


def ok(*places, failed=()):
    """Make the answer of SQS for the entries at these places of a batch."""

    def content(ids):
        said = {
            "Successful": [{"Id": ids[int(one)], "MessageId": "m", "MD5OfMessageBody": "5"} for one in places]
        }
        if failed:
            said["Failed"] = [one | {"Id": ids[int(one["Id"])]} for one in failed]
        return json.dumps(said)

    return "200 OK", {"content-type": "application/x-amz-json-1.0"}, content


def one_call(calls, *entries):
    """Make one call and wait for its end."""
    number = calls.start(QUEUE, entries or [Entry()])
    (ended,) = calls.ended(None)
    assert ended.number == number
    return ended


def test_a_request_is_the_one_that_boto3_makes(serve):
    """Same line, headers, body and signature; only the telemetry of botocore's retries is left out."""
    server, calls = serve(ok("0", "1"))
    plain = Server(ok("0", "1"))
    entries = [Entry('{"text":"\\"é\u2028😀"}', "g-1", "d-1"), Entry("{}", "g-2", "d-2", "25/statements")]
    marks = [{}, {"lanes.run": {"DataType": "String", "StringValue": "25/statements"}}]

    one_call(calls, *entries)
    boto3.client("sqs", endpoint_url=plain.url, config=calls._client.meta.config).send_message_batch(
        QueueUrl=QUEUE,
        Entries=[
            {
                "Id": f"1-{place}",
                "MessageBody": entry.body,
                "MessageGroupId": entry.message_group_id,
                "MessageDeduplicationId": entry.message_deduplication_id,
                **({"MessageAttributes": mark} if mark else {}),
            }
            for place, (entry, mark) in enumerate(zip(entries, marks, strict=True))
        ],
    )

    ((line, lean, body),) = server.requests
    ((boto_line, full, boto_body),) = plain.requests
    plain.close()
    assert (line, body) == (boto_line, boto_body)
    differ = {"authorization", "x-amz-date", "host", "amz-sdk-invocation-id", "amz-sdk-request"}
    assert {name: full[name] for name in full if name not in differ | {"user-agent"}} == {
        name: lean[name] for name in lean if name not in differ | {"user-agent"}
    }
    assert lean["authorization"].partition("Signature")[0].split("/")[2:] == [
        *full["authorization"].partition("Signature")[0].split("/")[2:]
    ]
    assert isinstance(calls, LeanCalls)


TEXT = st.text(st.characters(codec="utf-8"), max_size=40)


@given(bodies=st.lists(TEXT, min_size=1, max_size=10), run=st.sampled_from(["", "25/statements"]))
def test_a_batch_is_written_as_json_would(bodies, run):
    """Whatever the texts, and byte for byte, as botocore does (test_wire.py)."""
    mark = {"MessageAttributes": {"lanes.run": {"DataType": "String", "StringValue": run}}} if run else {}
    entries = [
        {"Id": str(place), "MessageBody": text, "MessageGroupId": "g", "MessageDeduplicationId": "d", **mark}
        for place, text in enumerate(bodies)
    ]

    body = batch_body(QUEUE, [Entry(text, run=run) for text in bodies])

    assert body == json.dumps({"QueueUrl": QUEUE, "Entries": entries}).encode()


def test_entries_are_answered_one_by_one(serve):
    """What is in the queue, what SQS refuses and what it may take later are told apart."""
    wrong = {"Id": "1", "SenderFault": True, "Code": "InvalidMessageContents", "Message": "no"}
    busy = {"Id": "2", "SenderFault": False, "Code": "InternalError"}
    throttled = {"Id": "3", "SenderFault": True, "Code": "RequestThrottled"}
    _, calls = serve(ok("0", failed=[wrong, busy, throttled]))

    ended = one_call(calls, *[Entry()] * 5)

    assert ended.answers == [
        ACCEPTED,
        Refused(code="InvalidMessageContents", reason="no", retryable=False),
        Refused(code="InternalError", reason="", retryable=True),
        Refused(code="RequestThrottled", reason="", retryable=True),
        UNANSWERED,
    ]


@pytest.mark.parametrize(
    ("status", "code", "retryable", "answered"),
    [
        ("400 Bad Request", "com.amazonaws.sqs#ThrottlingException", True, True),
        ("400 Bad Request", "com.amazonaws.sqs#QueueDoesNotExist", False, True),
        ("403 Forbidden", "AccessDeniedException", False, True),
        ("503 Service Unavailable", "ServiceUnavailable", True, False),
    ],
)
def test_errors_are_read_as_botocore_reads_them(serve, status, code, retryable, answered):
    """The same code and the same meaning as through boto3's client."""
    content = json.dumps({"__type": code, "message": "because"})
    _, calls = serve((status, {"content-type": "application/x-amz-json-1.0"}, content))

    error = one_call(calls).error

    assert isinstance(error, AwsError)
    assert (error.code, error.retryable, error.answered) == (code.rpartition("#")[2], retryable, answered)
    assert "because" in str(error)


def test_a_lost_answer_is_an_error_that_may_pass_and_the_next_call_gets_a_connection(serve):
    """The message may be in the queue, and says so."""
    server, calls = serve(ok("0"), None, ok("0"))

    first, lost, third = one_call(calls), one_call(calls), one_call(calls)

    assert (first.answers, third.answers) == ([ACCEPTED], [ACCEPTED])
    assert (lost.error.retryable, lost.error.answered) == (True, False)
    assert server.connections == 2


def test_a_connection_that_the_server_closes_is_not_used_again(serve):
    """`connection: close` is honoured."""
    status, headers, content = ok("0")
    _, calls = serve((status, headers | {"connection": "close"}, content), ok("0"))

    assert [one_call(calls).error, one_call(calls).error] == [None, None]


def test_an_answer_that_is_none_is_an_error_that_may_pass(serve):
    """Something else than SQS has answered."""
    _, calls = serve(("200 OK", {}, "<html>"), ("200 OK", {}, '{"Successful": [{"Id": "7"}]}'))

    for _ in range(2):
        error = one_call(calls).error
        assert (error.code, error.retryable, error.answered) == ("ResponseParserError", True, False)


@pytest.mark.parametrize("late", [False, True])
def test_an_answer_that_comes_twice_is_not_taken_for_that_of_the_next_call(late):
    """What SQS refuses in the next call is not passed off as sent."""
    busy = {"Id": "0", "SenderFault": False, "Code": "InternalError"}
    server = Server(ok("0"), ok(failed=[busy]), ok("0"), twice=1, late=late)
    calls = open_calls(Clients(region="eu-central-1", endpoint_url=server.url), concurrency=1)

    first, second, third = (one_call(calls) for _ in range(3))
    calls.close()
    server.close()

    assert (first.answers, third.answers) == ([ACCEPTED], [ACCEPTED])
    assert second.answers != [ACCEPTED]
    assert second.error is None or second.error.retryable


FIRST, SECOND = "Fri, 15 Jan 2027 12:00:00 GMT", "Fri, 15 Jan 2027 12:00:01 GMT"


def dated(answer, date, **headers):
    """Return the answer with a `Date` header."""
    status, own, content = answer
    return status, own | {"Date": date} | headers, content


@pytest.mark.parametrize("lean", [True, False])
def test_the_bell_is_rung_in_each_second_with_accepted_messages(monkeypatch, lean):
    """While a bulk task sends: for the first answer of a second, however it is written."""
    if not lean:
        monkeypatch.setattr("lanes.aws.batch_calls.Endpoint", _Unreachable)
    busy = {"Id": "0", "SenderFault": False, "Code": "InternalError"}
    server = Server(
        dated(ok("0"), FIRST),
        dated(ok("0"), FIRST),  # that of the ring
        dated(ok("0"), FIRST),
        dated(ok(failed=[busy]), SECOND),
        dated(ok("0"), SECOND, connection="close"),
        dated(ok("0"), SECOND),
    )
    calls = open_calls(
        Clients(region="eu-central-1", endpoint_url=server.url),
        concurrency=1,
        deployment=deployment_with_bell(slots=2),
    )

    for _ in range(4):
        one_call(calls)
    calls.close()
    server.close()

    bodies = [json.loads(body) for _, _, body in server.requests]
    rung = [
        [entry["MessageDeduplicationId"] for entry in body["Entries"]]
        for body in bodies
        if body["QueueUrl"] == BELL
    ]
    assert rung == [
        ["slot-0-1800014400"],
        ["slot-1-1800014401"],
    ]


class _Unreachable:
    """In place of an endpoint."""

    @classmethod
    def of(cls, *_):
        """Refuse."""
        raise Boto3NeededError("requests are sent by pigeon")


def deployment_with_bell(*, slots):
    """Return a deployment of the pull engine."""
    config = LanesConfig.from_dict(
        {"consumer": {"engine": "pull", "reserved_concurrency": slots}, "lanes": [{"name": "MAIN"}]}
    )
    queues = {"MAIN": LaneQueues(url=QUEUE, dead_letter_url=QUEUE)}
    return Deployment(config=config, queues=queues, table="t", bell=BELL)


def test_no_server_is_an_error_that_may_pass(serve):
    """A refused connection is no crash."""
    server, calls = serve()
    server.close()
    calls._endpoint._port = 1

    assert one_call(calls).error.retryable


def test_calls_fly_together_and_an_answer_in_time_limits_the_wait(serve):
    """Several calls are started before the first is answered, and waiting has an end."""
    _, calls = serve(*[ok("0")] * 5)
    numbers = {calls.start(QUEUE, [Entry()]) for _ in range(5)}
    ended = set()
    while len(ended) < 5:
        ended |= {one.number for one in calls.ended(None)}

    assert ended == numbers
    assert calls.ended(0) == []


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy"])
def test_behind_a_proxy_boto3_does_it(monkeypatch, caplog, variable):
    """Lean connections know no proxies, and the log says why they are not used."""
    monkeypatch.setenv(variable, "http://127.0.0.1:9")

    calls = open_calls(Clients(region="eu-central-1", endpoint_url="http://sqs.test"), concurrency=1)
    calls.close()

    assert isinstance(calls, ThreadedCalls)
    assert "requests go through a proxy" in caplog.text


@pytest.fixture
def certificate(tmp_path):
    """Give the file of a certificate of this machine, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + HOUR)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file = tmp_path / "server.pem"
    file.write_bytes(made.public_bytes(pem) + secret)
    return file


def over_tls(certificate, *answers):
    """Make a server with this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return Server(*answers, tls=context)


def test_calls_go_over_tls(certificate, monkeypatch):
    """On kept connections, with the certificates that AWS_CA_BUNDLE names."""
    monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate))
    server = over_tls(certificate, *[ok("0")] * 12)

    calls = open_calls(Clients(region="eu-central-1", endpoint_url=server.url), concurrency=4)
    assert isinstance(calls, LeanCalls)
    ended = []
    for round_of_three in range(1, 5):
        for _ in range(3):
            calls.start(QUEUE, [Entry()])
        while len(ended) < 3 * round_of_three:
            ended += calls.ended(None)
    calls.close()
    server.close()

    assert [one.answers for one in ended] == [[ACCEPTED]] * 12
    assert server.connections <= 3


def test_a_server_that_is_not_trusted_gets_nothing(certificate):
    """The request is not sent at all."""
    server = over_tls(certificate, ok("0"))

    calls = open_calls(Clients(region="eu-central-1", endpoint_url=server.url), concurrency=1)
    ended = one_call(calls)
    calls.close()
    server.close()

    assert ended.error.code == "SSLCertVerificationError"
    assert server.requests == []


def test_calls_through_the_client_answer_in_the_same_way():
    """The plain form has the same answers, by position."""
    wrong = {"Id": "1", "SenderFault": True, "Code": "InvalidMessageContents", "Message": "no"}
    server = Server(ok("0", failed=[wrong]), ("403 Forbidden", {}, json.dumps({"__type": "AccessDenied"})))
    clients = Clients(region="eu-central-1", endpoint_url=server.url)
    calls = ThreadedCalls(SqsSender(clients.sqs()), concurrency=2)
    first, second = one_call(calls, *[Entry()] * 3), one_call(calls)
    calls.close()
    server.close()

    assert first.answers == [
        Accepted(message_id="m", sequence_number=""),
        Refused(code="InvalidMessageContents", reason="no", retryable=False),
        UNANSWERED,
    ]
    assert (second.error.code, second.error.retryable) == ("AccessDenied", False)
