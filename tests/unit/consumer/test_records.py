"""Records as Lambda brings them, and the answer."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
from aws_lambda_powertools.utilities.data_classes import EventBridgeEvent, S3EventBridgeNotificationEvent

from lanes.consumer.records import Invocation, RawRecord, oldest_first, read_batch, response_for
from lanes.errors import ConfigurationError
from lanes.testing.clock import FakeClock
from tests.support.memory import record_with

ARN = "arn:aws:sqs:eu-central-1:123456789012:orders-HIGH.fifo"


def event_record(**attributes):
    return {
        "messageId": "m",
        "receiptHandle": "handle",
        "body": "body",
        "attributes": {"SentTimestamp": "1800000000123", **attributes},
        "messageAttributes": {"a": {"dataType": "String", "stringValue": "x"}},
        "eventSource": "aws:sqs",
        "eventSourceARN": ARN,
    }


def test_a_fifo_record_is_read():
    """Counts are text, times are milliseconds."""
    record = RawRecord.from_event(
        event_record(
            ApproximateReceiveCount="1000",
            ApproximateFirstReceiveTimestamp="1800000001500",
            MessageGroupId="g",
            MessageDeduplicationId="d",
        )
    )

    assert (record.receive_count, record.sent_at, record.first_received_at) == (
        1000,
        1_800_000_000.123,
        1_800_000_001.5,
    )
    assert (record.group, record.deduplication_id, record.body) == ("g", "d", "body")
    assert record.message_attributes["a"]["stringValue"] == "x"


def test_a_record_without_a_group_is_a_group_of_its_own():
    """A standard queue keeps no order."""
    record = RawRecord.from_event(event_record())

    assert (record.group, record.deduplication_id, record.receive_count) == ("m", "m", 1)
    assert record.first_received_at == record.sent_at


def test_a_batch_keeps_the_order_of_sqs():
    """And names its queue."""
    records = [{**event_record(), "messageId": str(number)} for number in range(10)]

    queue, found = read_batch({"Records": records})

    assert queue == ARN
    assert [record.message_id for record in found] == [str(number) for number in range(10)]


@pytest.mark.parametrize(
    "event",
    [
        *({}, {"Records": None}, {"Records": []}, {"Records": [{}]}, {"detail": {}}),
        # A console sends any JSON as a test event.
        *(None, "text", [], 7, {"Records": "text"}, {"Records": [1]}),
    ],
)
def test_another_event_is_refused(event):
    """An answer would be taken for success."""
    with pytest.raises(ConfigurationError, match="SQS"):
        read_batch(event)


def test_one_foreign_record_is_enough():
    """None of them can be judged then."""
    with pytest.raises(ConfigurationError):
        read_batch({"Records": [event_record(), {**event_record(), "eventSource": "aws:kinesis"}]})


@pytest.mark.parametrize("key", ["messageId", "receiptHandle", "body", "attributes", "eventSourceARN"])
def test_a_record_without_a_part_is_refused_by_the_name_of_the_part(key):
    """As in a test event that somebody wrote."""
    with pytest.raises(ConfigurationError, match=f"a record has no '{key}'"):
        read_batch({"Records": [{name: part for name, part in event_record().items() if name != key}]})


@pytest.mark.parametrize("attributes", [None, "none", {"SentTimestamp": "now"}])
def test_a_record_with_another_value_is_refused_with_the_value(attributes):
    """Raising keeps every record in its queue."""
    with pytest.raises(ConfigurationError, match=r"a record can't be read \(.+\); make a test event of one"):
        read_batch({"Records": [event_record() | {"attributes": attributes}]})


def test_records_of_two_queues_are_refused():
    """They would be handled as the first one's: yield to its lanes and end in its dead-letter queue."""
    with pytest.raises(ConfigurationError, match="of 2 queues"):
        read_batch({"Records": [event_record(), {**event_record(), "eventSourceARN": f"{ARN}-other"}]})


def test_the_oldest_of_a_batch_comes_first_but_no_group_is_reordered():
    """Also where the clocks of two hosts of SQS gave a later message of a group an earlier time."""
    records = [
        record_with(name, group=name[0], sent_at=sent_at)
        for name, sent_at in (
            ("a1", 50.0),
            ("a2", 10.0),
            ("b1", 20.0),
            ("a3", 70.0),
            ("c1", 50.0),
            ("b2", 60.0),
        )
    ]

    ordered = [record.message_id for record in oldest_first(records)]

    assert ordered == ["b1", "a1", "a2", "c1", "b2", "a3"]


def test_the_answer_lists_what_stays():
    """In the form of the partial batch response."""
    assert response_for([record_with("a"), record_with("b")]) == {
        "batchItemFailures": [{"itemIdentifier": "a"}, {"itemIdentifier": "b"}]
    }
    assert response_for([]) == {"batchItemFailures": []}


def test_a_raw_handler_gets_the_record_in_powertools_type():
    """With every attribute, and the notifications that S3 nests in a body."""
    nested = {"Records": [{"s3": {"bucket": {"name": "uploads"}, "object": {"key": "a.csv"}}}]}
    entry = {**event_record(MessageGroupId="g", SequenceNumber="7"), "body": json.dumps(nested)}

    event = RawRecord.from_event(entry).event

    assert (event.message_id, event.attributes.message_group_id) == ("m", "g")
    assert event.attributes.sequence_number == "7"
    assert event.message_attributes["a"].string_value == "x"
    assert event.decoded_nested_s3_event.bucket_name == "uploads"


def test_a_body_is_given_as_the_event_type_that_is_asked_for():
    """A class of Powertools, or whatever takes parsed JSON."""
    notification = {"detail-type": "Object Created", "detail": {"bucket": {"name": "uploads"}}}
    record = RawRecord.from_event({**event_record(), "body": json.dumps(notification)})

    assert record.body_as(EventBridgeEvent).detail_type == "Object Created"
    assert record.body_as(S3EventBridgeNotificationEvent).detail.bucket.name == "uploads"
    assert record.body_as(dict) == notification


def test_a_body_that_is_no_json_is_no_event_type():
    """The handler fails, as it would by reading it itself."""
    with pytest.raises(ValueError, match="Expecting value"):
        RawRecord.from_event(event_record()).body_as(dict)


def test_the_event_types_are_loaded_when_they_are_first_asked_for():
    """They cost a cold start 30 ms, which nobody pays who does not use them."""
    code = (
        "import sys, lanes.consumer, lanes.aws.runtime; from tests.support.memory import record_with\n"
        "name = 'aws_lambda_powertools.utilities.data_classes'\n"
        "before = name in sys.modules; record_with().event; sys.exit(before or name not in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("wrong_by", [-600, -5, 0, 5, 600])
def test_the_time_left_is_never_more_than_that_of_the_timeout(wrong_by):
    """Lambda's context subtracts the clock from an absolute time, so it is wrong by as much as the clock."""
    monotonic = FakeClock(50.0)
    deadline = 1_000.0 + 30.0
    context = SimpleNamespace(
        get_remaining_time_in_millis=lambda: (deadline - (monotonic() + 950.0 + wrong_by)) * 1000
    )

    invocation = Invocation.of(context, timeout=30.0, monotonic=monotonic)

    assert invocation.milliseconds_left() / 1000 == pytest.approx(min(30.0, 30.0 - wrong_by))
    monotonic.advance(12)
    assert invocation.milliseconds_left() / 1000 == pytest.approx(min(18.0, 18.0 - wrong_by))
