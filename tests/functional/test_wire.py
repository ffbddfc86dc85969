"""Requests written down are botocore's: its serializer, its endpoints, its signature and its parser are asked here."""

import json
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest, AWSResponse
from botocore.config import Config
from botocore.parsers import create_parser
from botocore.serialize import create_serializer
from botocore.session import Session
from hypothesis import given
from hypothesis import strategies as st

from lanes.aws.clients import Clients, Place, consumer_config
from lanes.aws.lean_client import LeanClient
from lanes.aws.wire import Boto3NeededError, Endpoint
from tests.support.http_server import Server

QUEUE = "https://sqs.eu-central-1.amazonaws.com/123456789012/MAIN.fifo"
KEYS = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
SQS, DYNAMODB = (
    Session().create_client(service, region_name="eu-central-1", **KEYS) for service in ("sqs", "dynamodb")
)
PER_CALL = {"authorization", "x-amz-date", "user-agent", "amz-sdk-invocation-id", "amz-sdk-request"}
"""Headers of a call, which no other call has; the last two are those of botocore's own retries."""

TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
KEY = st.text("abcXYZ/+019", min_size=1, max_size=40)
ID = st.text("abc-_019", min_size=1, max_size=80)
MOMENT = st.integers(1_577_836_800, 2_208_988_800).map(lambda at: datetime.fromtimestamp(at, UTC))


def entries(**fields):
    """Draw the entries of a batch."""
    return st.lists(st.fixed_dictionaries({"Id": ID, **fields}), min_size=1, max_size=10)


def named(*names):
    """Draw the names of attributes."""
    return st.lists(st.sampled_from(names), max_size=3)


SECONDS = st.integers(0, 43_200)
MARK = st.fixed_dictionaries({"DataType": st.just("String"), "StringValue": TEXT})
MESSAGE = {
    "MessageBody": TEXT,
    "MessageGroupId": ID,
    "MessageDeduplicationId": ID,
    "MessageAttributes": st.dictionaries(ID, MARK, max_size=2),
}
CALLS = {
    "ReceiveMessage": st.fixed_dictionaries(
        {"QueueUrl": TEXT, "MaxNumberOfMessages": st.integers(1, 10), "WaitTimeSeconds": st.integers(0, 20)},
        optional={
            "VisibilityTimeout": SECONDS,
            "ReceiveRequestAttemptId": ID,
            "MessageSystemAttributeNames": named("All", "MessageGroupId", "SentTimestamp"),
            "MessageAttributeNames": named("All", "lanes.run"),
        },
    ),
    "DeleteMessageBatch": st.fixed_dictionaries({"QueueUrl": TEXT, "Entries": entries(ReceiptHandle=TEXT)}),
    "DeleteMessage": st.fixed_dictionaries({"QueueUrl": TEXT, "ReceiptHandle": TEXT}),
    "ChangeMessageVisibility": st.fixed_dictionaries(
        {"QueueUrl": TEXT, "ReceiptHandle": TEXT, "VisibilityTimeout": SECONDS}
    ),
    "GetQueueAttributes": st.fixed_dictionaries(
        {"QueueUrl": TEXT, "AttributeNames": named("ApproximateNumberOfMessages", "All")}
    ),
    "SendMessage": st.fixed_dictionaries({"QueueUrl": TEXT, **MESSAGE}),
    "ChangeMessageVisibilityBatch": st.fixed_dictionaries(
        {"QueueUrl": TEXT, "Entries": entries(ReceiptHandle=TEXT, VisibilityTimeout=SECONDS)}
    ),
    "SendMessageBatch": st.fixed_dictionaries(
        {
            "QueueUrl": TEXT,
            "Entries": entries(**MESSAGE),
        }
    ),
}
VALUE = st.recursive(
    st.fixed_dictionaries({"S": TEXT})
    | st.integers().map(lambda number: {"N": str(number)})
    | st.booleans().map(lambda flag: {"BOOL": flag}),
    lambda values: (
        st.lists(values, max_size=3).map(lambda given: {"L": given})
        | st.dictionaries(ID, values, max_size=3).map(lambda given: {"M": given})
    ),
    max_leaves=3,
)
ITEM = st.dictionaries(ID, VALUE, min_size=1, max_size=3)
CONDITION = {
    "ConditionExpression": TEXT,
    "ExpressionAttributeNames": st.dictionaries(ID, TEXT, max_size=2),
    "ExpressionAttributeValues": ITEM,
}
WRITES = {"Update": {"Key": ITEM, "UpdateExpression": TEXT}, "Put": {"Item": ITEM}, "Delete": {"Key": ITEM}}
TABLE = {"TableName": ID}
DYNAMODB_CALLS = {
    "GetItem": st.fixed_dictionaries({**TABLE, "Key": ITEM, "ConsistentRead": st.booleans()}),
    "BatchGetItem": st.fixed_dictionaries(
        {
            "RequestItems": st.dictionaries(
                ID,
                st.fixed_dictionaries(
                    {"Keys": st.lists(ITEM, min_size=1, max_size=2), "ConsistentRead": st.just(True)}
                ),
                min_size=1,
                max_size=1,
            )
        }
    ),
    **{
        f"{name}Item": st.fixed_dictionaries({**TABLE, **fields}, optional=CONDITION)
        for name, fields in WRITES.items()
    },
    "TransactWriteItems": st.fixed_dictionaries(
        {
            "TransactItems": st.lists(
                st.one_of(
                    *(
                        st.fixed_dictionaries(
                            {name: st.fixed_dictionaries({**TABLE, **fields}, optional=CONDITION)}
                        )
                        for name, fields in WRITES.items()
                    )
                ),
                min_size=1,
                max_size=2,
            ),
            "ClientRequestToken": st.text("abc-_019", min_size=1, max_size=36),
        }
    ),
    "Query": st.fixed_dictionaries(
        {**TABLE, "KeyConditionExpression": TEXT, "Limit": st.integers(1, 100)},
        optional={"IndexName": st.just("parked"), "ExclusiveStartKey": ITEM},
    ),
}
SERVICES = {**dict.fromkeys(CALLS, SQS), **dict.fromkeys(DYNAMODB_CALLS, DYNAMODB)}
"""The client of botocore for each operation."""


def parsed(request):
    """Take the bytes of a request apart: its first line, headers and body."""
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return first, {name.lower(): value.strip() for name, _, value in pairs}, body


@given(
    call=st.sampled_from(sorted(SERVICES)).flatmap(
        lambda name: st.tuples(st.just(name), (CALLS | DYNAMODB_CALLS)[name])
    ),
    secret=KEY,
    token=st.none() | KEY,
    moment=MOMENT,
)
def test_a_request_is_that_of_botocores_serializer_and_signature(call, secret, token, moment):
    """Same line, headers, target, body and signature, whatever the parameters, the credentials and the day."""
    operation, parameters = call
    credentials = SimpleNamespace(access_key="AKID", secret_key=secret, token=token)
    service = SERVICES[operation].meta.service_model
    name, address = service.service_name, SERVICES[operation].meta.endpoint_url

    line, headers, body = parsed(
        Endpoint(Place(address, "eu-central-1"), lambda: credentials, Config(), service=name).request(
            operation, json.dumps(parameters).encode(), now=moment
        )
    )

    theirs = create_serializer(service.resolved_protocol).serialize_to_request(
        parameters, service.operation_model(operation)
    )
    assert json.loads(body) == json.loads(theirs["body"])
    request = AWSRequest("POST", f"{address}/", theirs["headers"], body)
    request.context["timestamp"] = moment.strftime("%Y%m%dT%H%M%SZ")
    auth = SigV4Auth(credentials, name, "eu-central-1")
    auth._modify_request_before_signing(request)
    auth._inject_signature_to_request(
        request, auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)
    )
    expected = {name.lower(): value for name, value in request.headers.items()}
    assert line == "POST / HTTP/1.1"
    assert expected.items() <= headers.items()
    assert headers.keys() - expected.keys() == {"host", "user-agent", "accept-encoding", "content-length"}
    assert (headers["host"], headers["content-length"]) == (
        f"{name}.eu-central-1.amazonaws.com",
        str(len(body)),
    )


MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"MessageId": ID, "ReceiptHandle": TEXT, "Body": TEXT, "MD5OfBody": ID},
        optional={
            "Attributes": st.dictionaries(st.sampled_from(["MessageGroupId", "SentTimestamp"]), TEXT),
            "MessageAttributes": st.dictionaries(ID, MARK, max_size=2),
        },
    ),
    max_size=10,
)
FAILED = st.fixed_dictionaries(
    {"Id": ID, "SenderFault": st.booleans(), "Code": ID}, optional={"Message": TEXT}
)
BATCHES = st.fixed_dictionaries(
    {}, optional={"Successful": st.none() | entries(), "Failed": st.none() | st.lists(FAILED, max_size=10)}
)


@given(
    call=st.tuples(
        st.just("ReceiveMessage"), st.fixed_dictionaries({}, optional={"Messages": st.none() | MESSAGES})
    )
    | st.tuples(st.sampled_from(["DeleteMessageBatch", "ChangeMessageVisibilityBatch"]), BATCHES)
    | st.tuples(st.just("GetItem"), st.fixed_dictionaries({}, optional={"Item": ITEM}))
    | st.tuples(
        st.just("Query"),
        st.fixed_dictionaries({"Items": st.lists(ITEM)}, optional={"LastEvaluatedKey": ITEM}),
    )
)
def test_an_answer_is_that_of_botocores_parser(call):
    """But for the metadata of the HTTP response."""
    operation, content = call
    body = json.dumps(content).encode()
    details = {"status_code": 200, "headers": {}, "body": body, "context": {}}
    service = SERVICES[operation].meta.service_model
    shape = service.operation_model(operation).output_shape
    theirs = create_parser(service.resolved_protocol).parse(details, shape)
    del theirs["ResponseMetadata"]

    assert LeanClient.read(body) == theirs


CALL = {
    "sqs": ("receive_message", "ReceiveMessage", {"QueueUrl": QUEUE}),
    "dynamodb": ("get_item", "GetItem", {"TableName": "t", "Key": {"pk": {"S": "k"}}}),
}


def sent_by_botocore(client, service):
    """Return the request that a client of boto3 would send."""
    caught = []

    def catch(request, **_):
        caught.append(request)
        return AWSResponse(request.url, 200, {}, SimpleNamespace(stream=lambda **_: iter([b"{}"])))

    client.meta.events.register_first(f"before-send.{service}", catch)
    method, _, parameters = CALL[service]
    getattr(client, method)(**parameters)
    (request,) = caught
    return request


def text(value):
    """Return a header as text."""
    return value.decode() if isinstance(value, bytes) else value


@pytest.mark.parametrize(
    ("region", "settings", "variables"),
    [
        ("eu-central-1", {}, {}),
        ("cn-north-1", {}, {}),
        ("us-gov-west-1", {"use_fips_endpoint": True}, {}),
        ("us-east-1", {"use_fips_endpoint": True, "use_dualstack_endpoint": True}, {}),
        ("us-east-1", {}, {"AWS_USE_DUALSTACK_ENDPOINT": "true"}),
        ("fips-us-east-1", {}, {}),
        ("eu-central-1", {}, {"AWS_ENDPOINT_URL_SQS": "http://127.0.0.1:4566/sqs"}),
        ("eu-central-1", {}, {"AWS_ENDPOINT_URL": "http://127.0.0.1:4566"}),
        ("eu-central-1", {}, {"AWS_ENDPOINT_URL_DYNAMODB": "http://127.0.0.1:4567"}),
        ("eu-central-1", {}, {"AWS_SESSION_TOKEN": "a token"}),
    ],
)
@pytest.mark.parametrize("service", ["sqs", "dynamodb"])
@pytest.mark.parametrize("near", ["{}", "https://sqs.us-east-1.amazonaws.com/1/MAIN.fifo", ""])
def test_a_request_goes_where_botocore_sends_it(monkeypatch, service, region, settings, variables, *, near):
    """Partitions, FIPS and dual-stack endpoints, addresses of your own: host, path, scheme, region and headers."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    clients = Clients(region=region, config=Config(**settings))
    theirs = sent_by_botocore(clients.operations(service), service)
    near = near.format(f"{clients.sqs().meta.endpoint_url}/1/MAIN.fifo")
    try:
        endpoint = Endpoint.of(clients, clients.place(service, near=near), service)
    except Boto3NeededError:
        assert service == "dynamodb"
        assert settings or "AWS_USE_DUALSTACK_ENDPOINT" in variables
        return
    line, headers, _ = parsed(
        endpoint.request(CALL[service][1], text(theirs.body).encode(), now=datetime.now(UTC))
    )

    scheme = "http" if endpoint._tls is None else "https"
    assert f"{scheme}://{headers['host']}{line.split()[1]}" == theirs.url
    expected = {
        name.lower(): text(value) for name, value in theirs.headers.items() if name.lower() not in PER_CALL
    }
    assert expected.items() <= headers.items()
    scopes = [
        one.split("/", 2)[2].split(",")[0]
        for one in (headers["authorization"], text(theirs.headers["Authorization"]))
    ]
    assert scopes[0] == scopes[1]


def test_a_function_on_lambda_makes_lean_calls(monkeypatch):
    """Where botocore adds the header of a trace to each request."""
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "lanes")
    monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-5759e988-bd862e3fe1be46a994272793")
    server = Server(("200 OK", {}, "{}"))
    client = LeanClient(Clients(config=consumer_config(), endpoint_url=server.url))

    assert client.receive_message(QueueUrl=QUEUE) == {}
    server.close()

    assert ["amz-sdk-invocation-id" in headers for _, headers, _ in server.requests] == [False]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [({"proxies": {"https": "http://127.0.0.1:9"}}, "proxy"), ({"client_cert": "/cert.pem"}, "certificate")],
)
def test_boto3_does_the_rest(settings, reason):
    """Connections of our own know no proxy and show no certificate."""
    clients = Clients(region="eu-central-1", config=Config(**settings))

    with pytest.raises(Boto3NeededError, match=reason):
        Endpoint.of(clients, clients.place("sqs", near=QUEUE.replace("eu-central-1", "us-east-1")))


def test_renewed_credentials_sign_the_next_request():
    """A role's keys expire while a slot runs."""
    keys = iter([("one", "1", None), ("two", "2", "token")])
    endpoint = Endpoint(
        Place("https://sqs.eu-central-1.amazonaws.com", "eu-central-1"),
        lambda: SimpleNamespace(**dict(zip(("access_key", "secret_key", "token"), next(keys), strict=True))),
        Config(),
    )

    first, second = (
        parsed(endpoint.request("ReceiveMessage", b"{}", now=datetime.now(UTC)))[1] for _ in range(2)
    )

    assert "Credential=one/" in first["authorization"]
    assert "Credential=two/" in second["authorization"]
    assert (first.get("x-amz-security-token"), second["x-amz-security-token"]) == (None, "token")
