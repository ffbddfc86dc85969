"""Records as Lambda brings them, and the answer."""

import pytest

from lanes.consumer.records import RawRecord, read_batch, response_for
from lanes.errors import ConfigurationError
from tests.support.records import record_with

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


@pytest.mark.parametrize("event", [{}, {"Records": None}, {"Records": []}, {"Records": [{}]}, {"detail": {}}])
def test_another_event_is_refused(event):
    """An answer would be taken for success."""
    with pytest.raises(ConfigurationError, match="SQS"):
        read_batch(event)


def test_one_foreign_record_is_enough():
    """None of them can be judged then."""
    with pytest.raises(ConfigurationError):
        read_batch({"Records": [event_record(), {**event_record(), "eventSource": "aws:kinesis"}]})


def test_the_answer_lists_what_stays():
    """In the form of the partial batch response."""
    assert response_for([record_with("a"), record_with("b")]) == {
        "batchItemFailures": [{"itemIdentifier": "a"}, {"itemIdentifier": "b"}]
    }
    assert response_for([]) == {"batchItemFailures": []}
