"""The producer: which messages go out together and when, their trace, the errors of rules and arguments, progress."""

from collections import defaultdict
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanes.errors import AwsError
from lanes.message import Message
from lanes.priority import PriorityRules
from lanes.producer.order import MAX_BYTES, MAX_ENTRIES, SendOrder
from lanes.producer.outgoing import UNANSWERED, Accepted, Outgoing, Refused
from lanes.retries import RetryPolicy
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


ACCEPTED = Accepted(message_id="m", sequence_number="1")
BUSY = Refused(code="InternalError", reason="try again", retryable=True)
THROTTLED = Refused(code="Throttled", reason="slow down", retryable=True)
REFUSED = Refused(code="Invalid", reason="never", retryable=False)
LOST = AwsError(operation="SendMessageBatch", code="ReadTimeout", retryable=True, answered=False)
DENIED = AwsError(operation="SendMessageBatch", code="AccessDenied", retryable=False)


def outgoing(groups, sizes=None):
    """Give one message for each group named, in this order."""
    return [
        Outgoing(
            index=index,
            message=Message(kind="k", id=str(index), group=group),
            body="",
            size_bytes=(sizes or {}).get(index, 10),
        )
        for index, group in enumerate(groups)
    ]


def order_of(items, *, concurrency=4, **policy):
    """Give the order of one lane without jitter."""
    return SendOrder("MAIN", items, concurrency=concurrency, policy=RetryPolicy(**policy), jitter=lambda: 1.0)


def indexes(batch):
    """Give the places of a batch's messages."""
    return [item.index for item in batch]


def test_waits_double_up_to_their_bound():
    """And are spread over their upper half."""
    policy = RetryPolicy(backoff_base=timedelta(seconds=1), backoff_max=timedelta(seconds=5))

    assert [policy.delay(attempts, 1.0) for attempts in (1, 2, 3, 4, 5000)] == [1, 2, 4, 5, 5]
    assert policy.delay(1, 0.0) == 0.5


def test_a_throttle_pauses_the_lane():
    """Each other call would be throttled too; the pause ends by itself, also if its message was given up."""
    order = order_of(outgoing("ab", {0: MAX_BYTES}), give_up_after=timedelta(0))

    order.settle(call_of(order, 0), [THROTTLED], 0)

    assert call_of(order, 0) == []
    assert order.next_due() > 0
    assert indexes(call_of(order, order.next_due())) == [1]


def test_tries_end_before_sqs_forgets_the_first_one():
    """After that a message whose answer was lost could be in the queue twice."""
    order = order_of(outgoing("a"), give_up_after=timedelta(seconds=60))
    order.settle_failure(call_of(order, 0), LOST, 59)
    order.settle_failure(call_of(order, 200), LOST, 200)

    assert order.unsent[0].maybe_sent
    assert order.unsent[0].code == "ReadTimeout"


@pytest.mark.parametrize("call", [1, 20, 45])
def test_without_other_settings_no_call_ends_after_sqs_forgot_the_first_one(call):
    """SQS recognises a repeat for five minutes, however long each call takes in which no answer comes."""
    order, now = order_of(outgoing("a"), max_attempts=10_000), 0.0

    while batch := call_of(order, now):
        now += call
        order.settle_failure(batch, LOST, now)
        ended, now = now, order.next_due() or now

    assert order.unsent[0].maybe_sent
    assert ended < 300


def test_a_message_that_fits_into_no_batch_holds_up_no_other():
    """SQS refuses it, and says why."""
    order = order_of(outgoing(["a", "b", "a"], sizes={0: MAX_BYTES + 1}))

    first, second = start_all(order, 0.0)
    assert (indexes(first), indexes(second)) == ([0], [1])
    order.settle(first, [REFUSED], 0.0)
    order.settle(second, [ACCEPTED], 0.0)

    assert (list(order.sent), sorted(order.unsent)) == ([1], [0, 2])
    assert not start_all(order, 0.0)


def test_a_failure_halves_the_calls_and_success_brings_them_back():
    """A lane that is throttled is asked less at once; calls that fail together are one failure."""
    order = order_of(outgoing([str(place) for place in range(400)]), concurrency=4)
    seen = []
    for now, answer in enumerate((THROTTLED, *[ACCEPTED] * 8)):
        calls = start_all(order, now)
        seen.append(len(calls))
        for call in calls:
            order.settle(call, [answer] * len(call), now)

    assert seen[:2] == [4, 2]
    assert seen[-1] == 4
    assert seen[1:] == sorted(seen[1:])


def call_of(order, now):
    """Return the next batch, and count its call."""
    batch = order.next_batch(now)
    return order.start(batch, now) if batch else batch


def start_all(order, now):
    """Take every batch that may go at once."""
    calls = []
    while batch := call_of(order, now):
        calls.append(batch)
    return calls


@settings(max_examples=200, deadline=None)
@given(
    groups=st.lists(st.sampled_from("abcdefghijklm"), max_size=60),
    sizes=st.dictionaries(
        st.integers(0, 59), st.sampled_from([1, 1000, MAX_BYTES // 3, MAX_BYTES]), max_size=20
    ),
    data=st.data(),
)
def test_any_pattern_of_failures_keeps_limits_and_order(groups, sizes, data):
    """Batches within the limits, each group in order, every message sent or unsent and never both."""
    order = order_of(outgoing(groups, sizes), concurrency=3, max_attempts=3)
    outcome = st.sampled_from([ACCEPTED, ACCEPTED, ACCEPTED, BUSY, THROTTLED, REFUSED, UNANSWERED])
    now = 0.0
    calls = []
    accepted = defaultdict(list)
    while True:
        while batch := call_of(order, now):
            calls.append(batch)
            on_their_way = [item.message.group for call in calls for item in call]
            assert len(on_their_way) == len(set(on_their_way))
            assert len(batch) <= MAX_ENTRIES
            assert sum(item.size_bytes for item in batch) <= MAX_BYTES
        if not calls:
            if order.next_due() is None:
                break
            now = order.next_due()
            continue
        call = calls.pop(data.draw(st.integers(0, len(calls) - 1)))
        if data.draw(st.integers(0, 9)) == 0:
            order.settle_failure(call, data.draw(st.sampled_from([LOST, DENIED])), now)
            continue
        answers = [data.draw(outcome) for _ in call]
        for item, answer in zip(call, answers, strict=True):
            if answer is ACCEPTED:
                accepted[item.message.group].append(item.index)
        order.settle(call, answers, now)

    assert sorted([*order.sent, *order.unsent]) == list(range(len(groups)))
    for group, sent in accepted.items():
        of_group = [index for index, name in enumerate(groups) if name == group]
        assert sent == of_group[: len(sent)]
