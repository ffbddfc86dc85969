"""The producer: the lane and the priority of a message, its trace, and the order of the results."""

import pytest

from lanes.config import LanesConfig
from lanes.message import Message
from lanes.priority import Priority, PriorityRules, processing_priority
from lanes.trace_context import continuing_trace
from tests.support.sending import (
    FakeSqs,
    make_producer,
    queue_url,
)


def test_a_message_goes_to_the_lane_of_its_priority():
    """Callers name urgency and never a lane."""
    sqs = FakeSqs()
    producer = make_producer(sqs, rules=PriorityRules({"payment.captured": 50}))

    sent = [
        producer.send("order.placed", {"order": 7}, id="everyday"),
        producer.send("order.placed", {}, priority=Priority.CRITICAL, id="explicit"),
        producer.send("payment.captured", {}, id="ruled"),
    ]
    with processing_priority(Priority.BULK):
        sent.append(producer.send("payment.captured", {}, id="block"))

    assert [(record.id, record.lane) for record in sent] == [
        ("everyday", "MEDIUM"),
        ("explicit", "HIGH"),
        ("ruled", "HIGH"),
        ("block", "MAIN"),
    ]
    assert sqs.ids(queue_url("HIGH")) == ["explicit", "ruled"]


def test_the_resolved_priority_travels_in_the_message():
    """The handler's own sends inherit it."""
    sqs = FakeSqs()
    with processing_priority(-7):
        make_producer(sqs, source="shop").send("k", {"a": 1}, group="g", id="1", traceparent="00-1-2-01")

    entry = sqs.queues[queue_url("MAIN")][0]
    message = Message.from_body(entry.body)
    assert message.priority == -7
    assert message.source == "shop"
    assert message.traceparent == "00-1-2-01"
    assert entry.message_group_id == "g"


def test_messages_continue_the_current_trace():
    """Those that bring their own keep it."""
    sqs = FakeSqs()
    current, own = f"00-{'a' * 32}-{'b' * 16}-00", f"00-{'1' * 32}-{'2' * 16}-01"
    with continuing_trace(current):
        make_producer(sqs).send_many([Message(kind="k", id="1"), Message(kind="k", id="2", traceparent=own)])

    sent = [Message.from_body(entry.body) for entry in sqs.queues[queue_url("MEDIUM")]]
    assert {message.id: message.traceparent for message in sent} == {"1": current, "2": own}


def test_priority_switched_off_sends_everything_to_the_last_lane():
    """The priority still travels, for the day when lanes are switched on."""
    sqs = FakeSqs()
    producer = make_producer(sqs, config=LanesConfig.from_dict({"enabled": False}))

    assert producer.send("k", {}, priority=100).lane == "MAIN"
    assert Message.from_body(sqs.queues[queue_url("MAIN")][0].body).priority == 100


def test_results_come_in_the_order_of_the_messages():
    """Whatever lane and batch they went through."""
    given_messages = [
        Message(kind="k", id=str(place), priority=[-100, 0, 100][place * 7 % 5 % 3]) for place in range(95)
    ]

    sent = make_producer(FakeSqs()).send_many(given_messages, concurrency=3)

    assert [record.id for record in sent] == [message.id for message in given_messages]


def test_higher_lanes_are_sent_first():
    """Also by the producer."""
    sqs = FakeSqs()
    given_messages = [Message(kind="k", priority=priority) for priority in (-100, 0, 100)]

    make_producer(sqs).send_many(given_messages, concurrency=1)

    assert [url for url, _ in sqs.calls] == [queue_url(lane) for lane in ("HIGH", "MEDIUM", "MAIN")]


def test_sending_nothing_calls_nobody():
    """An empty list is no error."""
    sqs = FakeSqs()

    assert make_producer(sqs).send_many([]) == []
    assert sqs.calls == []


def test_an_error_of_a_rule_is_the_callers():
    """A rule that fails is a bug of its author and not of the message."""
    sqs = FakeSqs()
    producer = make_producer(sqs, rules=PriorityRules({"k": lambda message: message.data["missing"]}))

    with pytest.raises(KeyError, match="missing"):
        producer.send("k", {})
    assert sqs.calls == []


def test_progress_is_reported_while_an_iterator_is_sent():
    """After each call, with all messages that SQS has accepted so far."""
    sqs = FakeSqs()
    seen = []

    make_producer(sqs).send_many(
        (Message(kind="a.kind", group=f"g-{number}") for number in range(25)),
        concurrency=1,
        progress=seen.append,
    )

    assert seen == [10, 20, 25]


@pytest.mark.parametrize(
    ("given", "named"), [(None, "not None"), (7, "not 7"), (Message(kind="a"), "not one Message")]
)
def test_many_messages_are_an_iterable(given, named):
    """The error says what to give."""
    with pytest.raises(TypeError, match=f"an iterable of Message.kind=..., data=....*, {named}"):
        make_producer(FakeSqs()).send_many(given)
