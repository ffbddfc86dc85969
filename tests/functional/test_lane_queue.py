"""The consumer's calls to SQS, as corrected moto plays it."""

import base64
import dataclasses
import json

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from lanes.aws.queues.lane_queue import NOTE_ATTRIBUTE, LaneQueueCalls, attribute_in_note, attributes_with
from lanes.config import LanesConfig
from lanes.config.deployment import Deployment, LaneQueues
from lanes.consumer.records import RawRecord
from lanes.consumer.settlement import DeadLetterNote, VisibilityChange
from lanes.depth import LaneDepth
from lanes.errors import AwsError
from lanes.message import LARGEST_BODY_BYTES
from local import corrections
from local.model.queue_mapping import PolledMessage
from tests.support.records import record_with

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


@pytest.fixture
def sqs():
    """Return a client of an empty account."""
    corrections.install()
    with mock_aws():
        yield boto3.client("sqs")


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
def calls(sqs, urls):
    """Return what the consumer calls."""
    queues = {"MAIN": LaneQueues(url=urls[0], dead_letter_url=urls[1])}
    deployment = Deployment(
        config=LanesConfig.from_dict({"lanes": [{"name": "MAIN"}]}), queues=queues, table="t"
    )
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


def test_a_stale_receipt_changes_nothing(sqs, urls, calls):
    """The record has been received again since."""
    send(sqs, urls[0], 1)
    (record,) = receive(sqs, urls[0])
    calls.change_visibility("MAIN", [change(record, 0)])
    receive(sqs, urls[0])

    assert calls.change_visibility("MAIN", [change(record, 0)]) == [record.message_id]
    assert calls.depth("MAIN").in_flight == 1


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


def test_a_dead_letter_leaves_its_lane_at_once(sqs, urls, calls):
    """No answer is needed for that, which another record of its batch may prevent."""
    send(sqs, urls[0], 2)
    gone, left = receive(sqs, urls[0])

    calls.dead_letter("MAIN", gone, NOTE)

    assert calls.depth("MAIN") == LaneDepth(backlog=0, in_flight=1)
    calls.change_visibility("MAIN", [change(left, 0)])
    assert [record.message_id for record in receive(sqs, urls[0])] == [left.message_id]


def test_a_dead_letter_that_cant_leave_its_lane_is_sent_all_the_same(sqs, urls, calls):
    """Lambda deletes it after the answer."""
    send(sqs, urls[0], 1)
    (record,) = receive(sqs, urls[0])
    sqs.delete_queue(QueueUrl=urls[0])

    calls.dead_letter("MAIN", record, NOTE)

    assert [letter.message_id for letter in receive(sqs, urls[1])]


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
        "ChangeMessageVisibilityBatch": lambda: calls.change_visibility("MAIN", [change(record_with(), 0)]),
        "SendMessage": lambda: calls.dead_letter("MAIN", record_with(), NOTE),
    }.items():
        with pytest.raises(AwsError) as caught:
            call()
        assert caught.value.operation == operation
