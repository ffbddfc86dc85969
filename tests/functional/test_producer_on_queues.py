"""The producer against SQS as moto plays it, with the corrections of this project."""

import json
from dataclasses import replace

import boto3
import pytest
from botocore.exceptions import ClientError, ParamValidationError, ReadTimeoutError

from lanes import Message, PartialSendError, Producer
from lanes.aws.clients import Clients, consumer_config, deployment_from_env, read_deployment
from lanes.aws.errors import aws_errors
from lanes.aws.runtime import runtime_from_env
from lanes.aws.sending import SqsSender
from lanes.aws.stack import table_of
from lanes.config.deployment import pointer
from lanes.consumer.records import RawRecord
from lanes.errors import AwsError, ConfigurationError
from lanes.mapping.event import polled_record
from lanes.message import LARGEST_BODY_BYTES, size_bytes
from lanes.producer import Pacing, RetryPolicy
from tests.support.operating import drain, make_deployment

STACK = "PriorityLanes-test"


pytestmark = pytest.mark.usefixtures("aws_account")


@pytest.fixture
def deployment():
    """Make the queues of three lanes and the parameter that names them."""
    return make_deployment(boto3.client, stack=STACK)


def received(url):
    """Take every message out of a queue, in the order in which it gives them."""
    return drain(boto3.client("sqs"), url)


def test_a_stack_is_all_that_a_producer_needs_to_know(deployment):
    """The lanes are found by the name of the stack, and the message arrives with its attributes."""
    sent = Producer.from_stack(STACK, source="shop").send(
        "order.placed", {"order": 7}, group="customer-1", id="order-7"
    )

    (message,) = received(deployment.queues["MEDIUM"].url)
    assert sent.lane == "MEDIUM"
    assert sent.message_id == message["MessageId"]
    assert sent.sequence_number == message["Attributes"]["SequenceNumber"]
    assert message["Attributes"]["MessageGroupId"] == "customer-1"
    assert message["Attributes"]["MessageDeduplicationId"] == "shop#order.placed#order-7"
    assert json.loads(message["Body"])["type"] == "order.placed"


def test_the_function_finds_its_lanes_in_its_environment(deployment, monkeypatch):
    """What a handler sends goes to the lanes of its own stack."""
    monkeypatch.setenv("LANES_DEPLOYMENT", deployment.to_json())

    assert Producer.from_env().send("k", {}, priority=100).lane == "HIGH"


def test_a_stack_that_is_not_there_is_explained():
    """A mistyped stack, another account or region: the parameter's name says where we looked."""
    with pytest.raises(ConfigurationError, match="/lanes/other"):
        Producer.from_stack("other")


def test_many_lanes_are_read_from_the_parameter_that_the_variable_names(deployment, monkeypatch):
    """A function's variables hold nine lanes; whoever looks at it from outside finds its table there."""
    text = pointer(f"/lanes/{STACK}", table=deployment.table)
    monkeypatch.setenv("LANES_DEPLOYMENT", text)

    assert deployment_from_env() == deployment
    assert Producer.from_env().send("k", {}, priority=100).lane == "HIGH"
    assert runtime_from_env({"LANES_DEPLOYMENT": text}).deployment == deployment
    assert table_of({"LANES_DEPLOYMENT": text}) == deployment.table
    with pytest.raises(AwsError, match="GetParameter"):
        deployment_from_env({"LANES_DEPLOYMENT": pointer("gone", table="t")})


def test_a_parameter_that_can_not_be_read_is_an_aws_error():
    """No right to read it is something else than no such stack."""

    class Closed:
        def get_parameter(self, **_):
            raise ClientError({"Error": {"Code": "AccessDeniedException"}}, "GetParameter")

    with pytest.raises(AwsError, match="GetParameter: AccessDeniedException"):
        read_deployment(Closed(), STACK)


def test_an_answer_without_a_parameter_names_the_parameter():
    """A server that is not AWS answers anything with `{}`."""

    class Other:
        def get_parameter(self, **_):
            return {}

    with pytest.raises(ConfigurationError, match=f"parameter /lanes/{STACK}: .*\n.*not a JSON document"):
        read_deployment(Other(), STACK)


def test_many_messages_arrive_in_order_within_their_groups(deployment):
    """Over batches, threads and lanes."""
    given = [
        Message(
            kind="k",
            data={"place": place},
            group=f"group-{place % 7}",
            priority=[-100, 0][place % 2],
        )
        for place in range(200)
    ]

    sent = Producer.from_stack(STACK).send_many(given, concurrency=4)

    assert [record.id for record in sent] == [message.id for message in given]
    places = {}
    for lane in ("MEDIUM", "MAIN"):
        for message in received(deployment.queues[lane].url):
            key = lane, message["Attributes"]["MessageGroupId"]
            places.setdefault(key, []).append(json.loads(message["Body"])["data"]["place"])
    assert sum(map(len, places.values())) == 200
    assert all(found == sorted(found) for found in places.values())


def test_the_same_id_sent_again_is_in_the_queue_once(deployment):
    """Also when everything else was lost in between; SQS gives the first one's answer."""
    producer = Producer.from_stack(STACK)

    first, second = (producer.send("k", {"try": place}, id="once") for place in range(2))

    assert len(received(deployment.queues["MEDIUM"].url)) == 1
    assert first.message_id == second.message_id


def test_ids_that_sqs_does_not_take_are_sent_all_the_same(deployment):
    """Hashed for SQS, whole in the event."""
    Producer.from_stack(STACK).send("k", {}, id="Größe 7")

    (message,) = received(deployment.queues["MEDIUM"].url)
    assert json.loads(message["Body"])["id"] == "Größe 7"


def test_a_queue_that_is_gone_is_reported_with_its_messages(deployment):
    """The other lanes get theirs."""
    boto3.client("sqs").delete_queue(QueueUrl=deployment.queues["MAIN"].url)

    with pytest.raises(PartialSendError) as caught:
        Producer.from_stack(STACK).send_many(
            [Message(kind="k", id="bulk", priority=-100), Message(kind="k", id="urgent", priority=100)]
        )

    assert [record.id for record in caught.value.sent] == ["urgent"]
    assert [unsent.message.id for unsent in caught.value.failed] == ["bulk"]
    assert "NonExistentQueue" in caught.value.failed[0].code


def test_an_address_that_nobody_answers_is_tried_again_and_given_up(deployment):
    """Connections refused may pass; the account says that nothing is certain."""
    clients = Clients(endpoint_url="http://127.0.0.1:9", config=consumer_config())
    pauses = []
    producer = Producer(
        deployment=deployment,
        sqs=SqsSender(_without_botocores_retries(clients)),
        pacing=Pacing(retries=RetryPolicy(max_attempts=3), pause=pauses.append, clock=lambda: sum(pauses)),
    )
    with pytest.raises(PartialSendError) as caught:
        producer.send("k", {})

    assert len(pauses) == 2
    assert caught.value.failed[0].code == "EndpointConnectionError"
    assert caught.value.failed[0].maybe_sent


def test_a_relays_mark_is_an_attribute_unless_the_body_fills_the_message(deployment):
    """By it the consumer knows that an operator's change means the message; the largest body leaves no room."""
    small, large = (
        Message(kind="k", id="small"),
        Message(kind="k", id="large", data="x" * 1_048_000, priority=0),
    )
    room = LARGEST_BODY_BYTES - size_bytes(large.to_body())
    large = replace(large, data=large.data + "x" * room)
    url = deployment.queues["MEDIUM"].url

    Producer.from_deployment(deployment).send_many([small, large], claimed_at=1_800_000_000.25)

    sqs, claimed = boto3.client("sqs"), {}
    while found := sqs.receive_message(
        QueueUrl=url,
        MaxNumberOfMessages=10,
        MessageAttributeNames=["All"],
        MessageSystemAttributeNames=["All"],
    ).get("Messages"):
        for message in found:
            record = RawRecord.from_event(
                polled_record(message, queue_arn="arn:aws:sqs:eu-central-1:1:MEDIUM.fifo")
            )
            claimed[json.loads(record.body)["id"]] = record.claimed_at
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert claimed == {"small": 1_800_000_000.25, "large": None}


def test_x_ray_is_told_of_the_trace_of_a_message_that_somebody_records(deployment):
    """Beside the body, where AWS looks for it; a trace that nobody records is of no use to X-Ray."""
    trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    producer = Producer.from_deployment(deployment)
    producer.send_many(
        [
            Message(kind="k", id="recorded", traceparent=f"00-{trace}-{span}-01"),
            Message(kind="k", id="unrecorded", traceparent=f"00-{trace}-{span}-00"),
            Message(kind="k", id="broken", traceparent="00-1-2-01"),
            Message(kind="k", id="none"),
        ]
    )

    headers = {
        json.loads(message["Body"])["id"]: message["Attributes"].get("AWSTraceHeader")
        for message in received(deployment.queues["MEDIUM"].url)
    }
    assert headers == {
        "recorded": f"Root=1-{trace[:8]}-{trace[8:]};Parent={span};Sampled=1",
        "unrecorded": None,
        "broken": None,
        "none": None,
    }


@pytest.mark.parametrize(
    ("raised", "code", "retryable", "answered"),
    [
        (ReadTimeoutError(endpoint_url="x"), "ReadTimeoutError", True, False),
        (ParamValidationError(report="x"), "ParamValidationError", False, True),
    ],
)
def test_errors_without_an_answer_of_aws_say_whether_to_try_again(raised, code, retryable, answered):
    """Nothing of botocore leaves the seam, and the cause is kept."""
    with pytest.raises(AwsError) as caught, aws_errors("SendMessageBatch"):
        raise raised

    assert (caught.value.operation, caught.value.code) == ("SendMessageBatch", code)
    assert (caught.value.retryable, caught.value.answered) == (retryable, answered)
    assert caught.value.__cause__ is raised


def _without_botocores_retries(clients):
    """Keep botocore from waiting in real time."""
    client = clients.sqs()
    client.meta.events.unregister("needs-retry.sqs", unique_id="retry-config-sqs")
    return client
