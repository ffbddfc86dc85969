"""The producer: the trace of its messages, the errors of its rules and its arguments, and its progress."""

import pytest

from lanes.message import Message
from lanes.priority import PriorityRules
from lanes.trace_context import continuing_trace
from tests.support.sending import (
    FakeSqs,
    make_producer,
    queue_url,
)


def test_messages_continue_the_current_trace():
    """Those that bring their own keep it."""
    sqs = FakeSqs()
    current, own = f"00-{'a' * 32}-{'b' * 16}-00", f"00-{'1' * 32}-{'2' * 16}-01"
    with continuing_trace(current):
        make_producer(sqs).send_many([Message(kind="k", id="1"), Message(kind="k", id="2", traceparent=own)])

    sent = [Message.from_body(entry.body) for entry in sqs.queues[queue_url("MEDIUM")]]
    assert {message.id: message.traceparent for message in sent} == {"1": current, "2": own}


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
