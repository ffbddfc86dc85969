"""The intake: what it forwards, and what stays in its queue."""

import json

import pytest

from lanes.errors import AwsError, ConfigurationError
from lanes.mapping.event import sqs_record
from lanes.message import Message
from lanes.producer.intake import Intake
from tests.support.sending import ACCEPT, LEAVE_OUT, REFUSE, FakeSqs, make_producer, queue_url

ARN = "arn:aws:sqs:eu-central-1:123456789012:intake.fifo"


def record(number, body, *, group="g", deduplication_id=None):
    """Give one record of the function's event."""
    return sqs_record(
        message_id=f"m{number}",
        receipt_handle=f"r{number}",
        body=body,
        md5_of_body="",
        attributes={
            "MessageGroupId": group,
            "MessageDeduplicationId": deduplication_id or f"d{number}",
        },
        queue_arn=ARN,
    )


def body(priority=0):
    """Give the body of a CloudEvents message, with an attribute that the library does not know."""
    event = json.loads(Message(kind="order.placed", data={"n": 1.10}, id="e").to_body())
    return json.dumps(event | {"subject": "order 7", "priority": priority})


def handled(sqs, *records):
    """Run the function on records; return the ids that stay."""
    answer = Intake(make_producer(sqs)).handle({"Records": list(records)})
    return [one["itemIdentifier"] for one in answer["batchItemFailures"]]


def test_messages_are_forwarded_as_they_are_to_the_lane_of_their_priority():
    """Group, deduplication id and body are kept to the last character."""
    sqs = FakeSqs()
    bodies = [body(100), body(-100), body(None)]

    assert handled(sqs, *(record(n, one, group=f"g{n}") for n, one in enumerate(bodies))) == []

    for number, lane in enumerate(("HIGH", "MAIN", "MEDIUM")):
        (entry,) = sqs.queues[queue_url(lane)]
        assert (entry.body, entry.message_group_id) == (bodies[number], f"g{number}")
        assert entry.message_deduplication_id == f"d{number}"


@pytest.mark.parametrize("raw", ["plain text", "{}", '{"detail-type": "Object Created"}', body("high")])
def test_a_body_that_is_no_event_goes_to_the_lane_of_normal(raw):
    """The consumer has a handler for raw bodies, or dead-letters them with the reason."""
    sqs = FakeSqs()

    assert handled(sqs, record(0, raw)) == []

    (entry,) = sqs.queues[queue_url("MEDIUM")]
    assert (entry.body, entry.message_group_id) == (raw, "g")


def test_what_was_not_sent_stays_with_the_later_ones_of_its_group():
    """Messages of other groups and lanes are forwarded all the same."""
    sqs = FakeSqs(lambda name: REFUSE if name == "d1" else ACCEPT)
    records = [
        record(0, body()),
        record(1, body()),
        record(2, body()),
        record(3, body(100)),
        record(4, body(), group="other"),
    ]

    assert handled(sqs, *records) == ["m1", "m2"]
    assert sqs.ids(queue_url("MEDIUM")) == ["d0", "d4"]
    assert sqs.ids(queue_url("HIGH")) == ["d3"]


def test_a_message_without_an_answer_stays_and_its_repeat_is_dropped():
    """The lane has it already: its deduplication id is that of the first time."""
    words = iter([LEAVE_OUT] * 10)
    sqs = FakeSqs(lambda _: next(words, ACCEPT))

    assert handled(sqs, record(0, body())) == ["m0"]
    assert handled(sqs, record(0, body())) == []

    assert sqs.ids(queue_url("MEDIUM")) == ["d0"]


def test_every_message_stays_when_the_lanes_refuse_all():
    """A missing permission, for example; nothing is lost, and the answer names each one."""
    records = [record(n, body(), group=f"g{n}") for n in range(3)]

    assert handled(Denied(), *records) == ["m0", "m1", "m2"]


def test_without_a_deployment_the_invocation_fails_and_all_stays(monkeypatch):
    """An answer would delete the messages."""
    monkeypatch.delenv("LANES_DEPLOYMENT", raising=False)

    with pytest.raises(ConfigurationError, match="LANES_DEPLOYMENT"):
        Intake().handle({"Records": [record(0, body())]})


class Denied:
    """A role that may not send."""

    def send_batch(self, _queue_url, _entries):
        raise AwsError(operation="SendMessageBatch", code="AccessDenied", retryable=False)


def test_a_lane_that_takes_nothing_is_logged_once_and_then_each_minute(caplog):
    """An outage of hours is no flood of lines: all messages stay, and come again with each batch."""
    now = [1_000_000.0]
    intake = Intake(make_producer(Denied()), clock=lambda: now[0])

    for _ in range(13):
        intake.handle({"Records": [record(n, body(), group=f"g{n}") for n in range(10)]})
        now[0] += 10

    lines = [one.getMessage() for one in caplog.records if one.name == "lanes.producer.intake"]
    assert ["until now: 1)" in lines[0], "until now: 61)" in lines[1], "until now: 121)" in lines[2]] == [
        True
    ] * 3
    assert len(lines) == 3


def test_a_message_that_sqs_refuses_itself_is_logged_each_time(caplog):
    """It is one message, and its line names it."""
    sqs = FakeSqs(lambda name: REFUSE if name == "d1" else ACCEPT)

    handled(sqs, record(0, body(), group="a"), record(1, body(), group="b"))

    (line,) = [one.getMessage() for one in caplog.records if one.name == "lanes.producer.intake"]
    assert "message m1 was not forwarded" in line
