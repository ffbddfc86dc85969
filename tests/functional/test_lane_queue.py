"""The consumer's calls to SQS, as corrected moto plays it."""

import base64
import dataclasses
import json
from datetime import timedelta
from types import SimpleNamespace

import pytest
from botocore.exceptions import ConnectionClosedError, ReadTimeoutError
from botocore.stub import ANY, Stubber

from lanes.aws.clients import Clients, receiver_config
from lanes.aws.dead_letters import DeadLetterQueueCalls
from lanes.aws.queues import NOTE_ATTRIBUTE, LaneQueueCalls, attribute_in_note, attributes_with
from lanes.aws.runtime import runtime_from_env
from lanes.bell import is_ring, lane_rings
from lanes.config import LanesConfig
from lanes.config.deployment import Deployment, LaneQueues
from lanes.consumer.engines.looks import POLL
from lanes.consumer.records import RawRecord
from lanes.consumer.settlement import DeadLetterNote, VisibilityChange
from lanes.depth import LaneDepth
from lanes.errors import AwsError, ConfigurationError
from lanes.message import LARGEST_BODY_BYTES
from local.polled_queue import PolledMessage
from tests.support.memory import record_with

COUNTS = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]

NOTE = DeadLetterNote(
    reason="attempts exhausted",
    error="ValueError: no",
    attempts=5,
    yields=40,
    receives=46,
    first_received_at=1_800_000_000.125,
    dead_lettered_at=1_800_000_100.5,
)


TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"


@pytest.fixture
def urls(sqs):
    """Make the queue of one lane and its dead-letter queue."""
    fifo = {
        "FifoQueue": "true",
        "DeduplicationScope": "messageGroup",
        "FifoThroughputLimit": "perMessageGroupId",
    }
    return [
        sqs.create_queue(QueueName=name, Attributes=fifo)["QueueUrl"]
        for name in ("MAIN.fifo", "MAIN-dead.fifo")
    ]


@pytest.fixture
def deployment(urls):
    """Return a deployment of the lane."""
    queues = {"MAIN": LaneQueues(url=urls[0], dead_letter_url=urls[1])}
    return Deployment(config=LanesConfig.from_dict({"lanes": [{"name": "MAIN"}]}), queues=queues, table="t")


@pytest.fixture
def calls(sqs, deployment):
    """Return what the consumer calls."""
    return LaneQueueCalls(deployment=deployment, client=sqs)


def send(sqs, url, count, *, group=None, attributes=None):
    for number in range(count):
        sqs.send_message(
            QueueUrl=url,
            MessageBody=f"body {number}",
            MessageGroupId=group or f"g{number}",
            MessageDeduplicationId=f"d{number}",
            MessageAttributes=attributes or {},
        )


def receive(sqs, url, count=10):
    """Receive as a mapping does, and return the records of its event."""
    answer = sqs.receive_message(
        QueueUrl=url,
        MaxNumberOfMessages=count,
        MessageSystemAttributeNames=["All"],
        MessageAttributeNames=["All"],
        VisibilityTimeout=60,
    )
    arn = "arn:aws:sqs:eu-central-1:1:MAIN.fifo"
    return [RawRecord.from_event(PolledMessage(one).record(arn)) for one in answer.get("Messages", [])]


def pull(calls, *, maximum=10, visibility=60, wait=0):
    """Receive as a slot of the pull engine does."""
    return calls.receive("MAIN", maximum=maximum, visibility=visibility, wait=wait)


def change(record, seconds):
    return VisibilityChange(
        message_id=record.message_id, receipt_handle=record.receipt_handle, seconds=seconds
    )


def test_the_depth_is_what_is_visible_and_what_is_in_flight(sqs, urls, calls):
    """The queue's own counts."""
    assert calls.depth("MAIN").is_empty
    send(sqs, urls[0], 5)
    receive(sqs, urls[0], 2)

    assert calls.depth("MAIN") == LaneDepth(backlog=3, in_flight=2)


@pytest.mark.parametrize(
    "answer",
    [{}, {"Attributes": {"ApproximateNumberOfMessages": "1"}}, {"Attributes": dict.fromkeys(COUNTS, "many")}],
    ids=["nothing", "one of two", "no numbers"],
)
def test_an_answer_without_counts_is_an_aws_error(sqs, calls, answer):
    """Whoever asked makes way then, as after any call that fails."""
    with Stubber(sqs) as stubber:
        stubber.add_response("get_queue_attributes", answer)
        with pytest.raises(AwsError) as caught:
            calls.depth("MAIN")

    assert (caught.value.operation, caught.value.retryable) == ("GetQueueAttributes", True)


def test_visibilities_change_in_batches_of_ten(sqs, urls, calls):
    """All of them."""
    send(sqs, urls[0], 23)
    records = [record for _ in range(3) for record in receive(sqs, urls[0])]

    assert calls.change_visibility("MAIN", [change(record, 0) for record in records]) == []

    assert calls.depth("MAIN") == LaneDepth(backlog=23, in_flight=0)


def test_refused_changes_are_told_by_message_id(sqs, urls, calls):
    """The others take effect."""
    send(sqs, urls[0], 3)
    records = receive(sqs, urls[0])
    sqs.delete_message(QueueUrl=urls[0], ReceiptHandle=records[1].receipt_handle)
    wrong = dataclasses.replace(change(records[2], 0), receipt_handle="nonsense")

    refused = calls.change_visibility("MAIN", [change(records[0], 0), change(records[1], 0), wrong])

    assert refused == [records[1].message_id, records[2].message_id]
    assert calls.depth("MAIN") == LaneDepth(backlog=1, in_flight=1)


def test_a_dead_letter_keeps_body_group_and_attributes(sqs, urls, calls):
    """And says why, with the counts and times."""
    attributes = {
        "text": {"DataType": "String", "StringValue": "ü"},
        "number": {"DataType": "Number.int", "StringValue": "7"},
        "bytes": {"DataType": "Binary.gzip", "BinaryValue": b"\x00\xff"},
    }
    send(sqs, urls[0], 1, group="customer-1", attributes=attributes)
    (record,) = receive(sqs, urls[0])

    calls.dead_letter("MAIN", record, NOTE)

    answer = sqs.receive_message(
        QueueUrl=urls[1], MessageSystemAttributeNames=["All"], MessageAttributeNames=["All"]
    )
    (letter,) = answer["Messages"]
    note = json.loads(letter["MessageAttributes"].pop(NOTE_ATTRIBUTE)["StringValue"])
    assert letter["Body"] == "body 0"
    assert letter["MessageAttributes"] == attributes
    assert letter["Attributes"]["MessageGroupId"] == "customer-1"
    assert note == {
        **dataclasses.asdict(NOTE),
        "lane": "MAIN",
        "message_id": record.message_id,
        "deduplication_id": "d0",
        "sent_at": record.sent_at,
    }


def test_the_tracing_header_of_a_sender_goes_with_its_message(sqs, urls, calls, deployment):
    """To another lane, to the dead-letter queue, and back."""
    header = {"AWSTraceHeader": {"DataType": "String", "StringValue": TRACE}}
    sqs.send_message(
        QueueUrl=urls[0],
        MessageBody="body",
        MessageGroupId="g",
        MessageDeduplicationId="d",
        MessageSystemAttributes=header,
    )
    dead = DeadLetterQueueCalls(deployment=deployment, client=sqs)

    (record,) = receive(sqs, urls[0])
    calls.dead_letter("MAIN", record, NOTE)
    calls.forward("MAIN", record, body="moved", deduplication_id="d2")
    calls.remove("MAIN", record)
    (letter,) = dead.receive("MAIN", limit=1, hold=timedelta(minutes=1))
    assert dead.copy([letter]) == {}

    moved, copy = receive(sqs, urls[0])
    assert [one.body for one in (moved, copy)] == ["moved", "body"]
    assert [one.attributes["AWSTraceHeader"] for one in (moved, copy)] == [TRACE, TRACE]


def test_a_dead_letter_leaves_its_lane_at_once(sqs, urls, calls):
    """No answer is needed for that, which another record of its batch may prevent."""
    send(sqs, urls[0], 2)
    gone, left = receive(sqs, urls[0])

    calls.remove("MAIN", gone)

    assert calls.depth("MAIN") == LaneDepth(backlog=0, in_flight=1)
    calls.change_visibility("MAIN", [change(left, 0)])
    assert [record.message_id for record in receive(sqs, urls[0])] == [left.message_id]


def test_a_dead_letter_that_is_sent_again_is_one_dead_letter(sqs, urls, calls):
    """The first call may have succeeded though its answer was lost."""
    send(sqs, urls[0], 1)
    (record,) = receive(sqs, urls[0])

    calls.dead_letter("MAIN", record, NOTE)
    calls.dead_letter("MAIN", record, NOTE)

    assert len(receive(sqs, urls[1])) == 1


def test_another_life_of_a_message_is_another_dead_letter(sqs, urls, calls):
    """Redriven and given up again within five minutes."""
    send(sqs, urls[0], 1)
    (record,) = receive(sqs, urls[0])

    calls.dead_letter("MAIN", record, NOTE)
    calls.dead_letter(
        "MAIN", dataclasses.replace(record, first_received_at=record.first_received_at + 60), NOTE
    )

    assert len(receive(sqs, urls[1])) == 2


def test_a_slot_receives_the_records_that_a_mapping_brings(sqs, urls, calls):
    """Field by field, with all attributes, and as an event of Powertools."""
    attributes = {
        "text": {"DataType": "String", "StringValue": "ü"},
        "bytes": {"DataType": "Binary.gzip", "BinaryValue": b"\x00\xff"},
    }
    send(sqs, urls[0], 1, group="customer-1", attributes=attributes)
    (mapped,) = receive(sqs, urls[0])
    calls.change_visibility("MAIN", [change(mapped, 0)])

    (pulled,) = pull(calls)

    own = {"receipt_handle", "receive_count", "attributes", "entry"}
    assert {name: value for name, value in dataclasses.asdict(pulled).items() if name not in own} == {
        name: value for name, value in dataclasses.asdict(mapped).items() if name not in own
    }
    assert pulled.receive_count == 2
    assert pulled.entry.keys() == mapped.entry.keys()
    assert pulled.attributes.keys() == mapped.attributes.keys()
    assert pulled.event.event_source_arn == "arn:aws:sqs:eu-central-1:123456789012:MAIN.fifo"
    assert pulled.event.message_attributes["text"].string_value == "ü"


def test_a_receive_hides_its_records_and_takes_no_more_than_its_maximum(sqs, urls, calls):
    """Records of the same group stay hidden with them."""
    send(sqs, urls[0], 5, group="g")

    assert [record.body for record in pull(calls, maximum=3)] == ["body 0", "body 1", "body 2"]
    assert pull(calls) == []


def test_records_that_were_pulled_are_deleted(sqs, urls, calls):
    """Ten a call."""
    send(sqs, urls[0], 13)
    records = [*pull(calls), *pull(calls)]
    assert len(records) == 13

    assert calls.delete("MAIN", records) == []
    assert calls.depth("MAIN").is_empty


def test_rings_are_known_by_body_and_group_when_they_come(calls):
    """One a second for each invocation, and more than a call takes."""
    calls.ring("MAIN", lane_rings(12, 1_800_000_000.0))
    calls.ring("MAIN", lane_rings(12, 1_800_000_000.5))

    rings = [*pull(calls), *pull(calls)]

    assert len(rings) == 12
    assert all(is_ring(ring.group, ring.body) for ring in rings)


def test_refused_deletions_are_told_by_message_id(sqs, urls, calls):
    """A receipt is refused when its record was received again; the others are deleted."""
    send(sqs, urls[0], 2)
    old, other = pull(calls)
    calls.change_visibility("MAIN", [change(old, 0)])
    (new,) = pull(calls)

    assert calls.delete("MAIN", [old, other]) == [old.message_id]
    assert calls.delete("MAIN", [new]) == []


def failed(place, *, by_sender):
    """Return the answer for an entry of a deletion that failed."""
    return {"Id": str(place), "Code": "why", "SenderFault": by_sender}


def test_a_deletion_that_fails_at_sqs_is_tried_once_more(sqs, calls):
    """A wrong receipt is not, and an entry that the answer leaves out is."""
    records = [record_with(name) for name in "abcd"]
    with Stubber(sqs) as stubber:
        stubber.add_response(
            "delete_message_batch",
            {
                "Successful": [{"Id": "0"}],
                "Failed": [failed(1, by_sender=True), failed(2, by_sender=False)],
            },
        )
        stubber.add_response(
            "delete_message_batch",
            {"Successful": [{"Id": "1"}], "Failed": [failed(0, by_sender=False)]},
            {
                "QueueUrl": ANY,
                "Entries": [
                    {"Id": "0", "ReceiptHandle": "handle-c"},
                    {"Id": "1", "ReceiptHandle": "handle-d"},
                ],
            },
        )

        assert calls.delete("MAIN", records) == ["b", "c"]
        stubber.assert_no_pending_responses()


@pytest.fixture
def receiver(sqs, urls, monkeypatch):
    """Give calls with the function's own client for receives, the bodies of its requests, and lost answers."""
    monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=lambda _: None))
    client = Clients(config=receiver_config(longest_wait=timedelta(seconds=3))).sqs()
    sent, lost = [], []

    def lose(request, **_):
        sent.append(json.loads(request.body))
        if lost:
            raise lost.pop()

    client.meta.events.register_first("before-send.sqs.ReceiveMessage", lose)
    deployment = Deployment(
        config=LanesConfig.from_dict({"lanes": [{"name": "MAIN"}]}),
        queues={"MAIN": LaneQueues(url=urls[0], dead_letter_url=urls[1])},
        table="t",
    )
    return LaneQueueCalls(deployment=deployment, client=sqs, receiver=client), sent, lost


@pytest.mark.parametrize(
    "loss", [ReadTimeoutError(endpoint_url="x"), ConnectionClosedError(endpoint_url="x")], ids=str
)
def test_a_receive_with_a_lost_answer_is_repeated_under_its_attempt_id(sqs, urls, receiver, loss):
    """SQS returns the same records for it, which any other receive finds hidden."""
    calls, sent, lost = receiver
    send(sqs, urls[0], 1)
    lost += [loss, loss]

    assert len(pull(calls)) == 1

    assert len(sent) == 3
    assert len({request["ReceiveRequestAttemptId"] for request in sent}) == 1


def test_a_receive_is_given_up_after_three_tries_and_the_next_is_another(receiver):
    """Its id is its own."""
    calls, sent, lost = receiver
    lost += [ReadTimeoutError(endpoint_url="x")] * 3

    with pytest.raises(AwsError) as caught:
        pull(calls)
    assert (caught.value.operation, caught.value.answered) == ("ReceiveMessage", False)

    assert pull(calls) == []
    assert len({request["ReceiveRequestAttemptId"] for request in sent}) == 2


@pytest.mark.parametrize(("longest", "at_least"), [(0.5, 1.5), (3, 4), (900, 21)])
def test_an_answer_is_waited_for_longer_than_sqs_may_take(longest, at_least):
    """AWS: a long poll takes at most 20 seconds."""
    timeout = receiver_config(longest_wait=timedelta(seconds=longest)).read_timeout

    assert at_least <= timeout <= 25


def test_the_deployed_function_waits_for_the_longest_of_its_polls(monkeypatch, urls):
    """In the pull engine; with mappings it receives nothing and has one client."""
    timeouts = []

    def config(*, longest_wait):
        timeouts.append(longest_wait)
        return receiver_config(longest_wait=longest_wait)

    monkeypatch.setattr("lanes.aws.runtime.receiver_config", config)
    for engine in ({"engine": "pull"}, {}):
        deployment = Deployment(
            config=LanesConfig.from_dict({"consumer": engine, "lanes": [{"name": "MAIN"}]}),
            queues={"MAIN": LaneQueues(url=urls[0], dead_letter_url=urls[1])},
            table="t",
            bell=urls[0] if engine else None,
        )
        runtime_from_env({"LANES_DEPLOYMENT": deployment.to_json()})

    assert timeouts == [timedelta(seconds=POLL)]


def test_an_environment_of_several_invocations_is_refused():
    """On Managed Instances more handlers would run than there are slots."""
    with pytest.raises(
        ConfigurationError, match=r"AWS_LAMBDA_MAX_CONCURRENCY is '16': Lambda Managed Instances"
    ):
        runtime_from_env({"AWS_LAMBDA_MAX_CONCURRENCY": "16"})


def event_attribute(value, data_type="String"):
    """Return an attribute as it is in a Lambda event."""
    if data_type.startswith("Binary"):
        return {"dataType": data_type, "binaryValue": base64.b64encode(value).decode()}
    return {"dataType": data_type, "stringValue": value}


def test_ten_attributes_and_a_note_fit_into_the_note():
    """AWS: a message has at most ten attributes; none of the original ones is lost, binary ones included."""
    given = {f"a{number}": event_attribute(str(number)) for number in range(9)}
    given["bytes"] = event_attribute(b"\x00\xff", "Binary")

    attributes = attributes_with(NOTE, "MAIN", record_with(message_attributes=given))

    note = json.loads(attributes[NOTE_ATTRIBUTE]["StringValue"])
    assert set(attributes) == {NOTE_ATTRIBUTE}
    restored = {name: attribute_in_note(value) for name, value in note["attributes"].items()}
    assert len(restored) == 10
    assert restored["a3"] == {"DataType": "String", "StringValue": "3"}
    assert restored["bytes"] == {"DataType": "Binary", "BinaryValue": b"\x00\xff"}


@pytest.mark.parametrize("room", [0, 10, 100, 400, 3_000, 100_000])
def test_a_note_that_does_not_fit_is_shortened_and_the_body_is_not(room):
    """AWS: body and attributes together have at most 1 MiB; the sum always fits."""
    body = "x" * (LARGEST_BODY_BYTES - room)
    long = dataclasses.replace(NOTE, error="e" * 50_000, reason="r" * 50_000)

    attributes = attributes_with(long, "MAIN", record_with(body=body))

    used = sum(
        len(name) + len(value["DataType"]) + len(value["StringValue"]) for name, value in attributes.items()
    )
    assert used <= room
    if room >= 400:
        assert json.loads(attributes[NOTE_ATTRIBUTE]["StringValue"])["reason"].startswith("rrr")


def test_queues_that_are_not_there_are_aws_errors(sqs, calls):
    """For every operation, with its name."""
    for url in sqs.list_queues()["QueueUrls"]:
        sqs.delete_queue(QueueUrl=url)

    for operation, call in {
        "GetQueueAttributes": lambda: calls.depth("MAIN"),
        "ReceiveMessage": lambda: pull(calls),
        "DeleteMessageBatch": lambda: calls.delete("MAIN", [record_with()]),
        "ChangeMessageVisibilityBatch": lambda: calls.change_visibility("MAIN", [change(record_with(), 0)]),
        "DeleteMessage": lambda: calls.remove("MAIN", record_with()),
        "SendMessage": lambda: calls.dead_letter("MAIN", record_with(), NOTE),
    }.items():
        with pytest.raises(AwsError) as caught:
            call()
        assert caught.value.operation == operation
