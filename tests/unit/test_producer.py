"""Sending: which lane, in which order, and an account of every message."""

import random
import threading
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanes.config import LanesConfig
from lanes.errors import (
    AwsError,
    InvalidMessageError,
    MessageTooLargeError,
    PartialSendError,
    RefusedMessagesError,
)
from lanes.message import LARGEST_BODY_BYTES, Message
from lanes.priority import Priority, PriorityRules, processing_priority
from lanes.producer import Producer
from lanes.trace_context import continuing_trace
from tests.support.sending import (
    ACCEPT,
    FAIL_CALL,
    LEAVE_OUT,
    LOSE_CALL,
    REFUSE,
    THROTTLE,
    FakeClock,
    FakeSqs,
    make_deployment,
    queue_url,
)


def make_producer(sqs, *, config=None, **fields):
    """Give a producer whose time passes only while it waits."""
    clock = FakeClock()
    return Producer(deployment=make_deployment(config), sqs=sqs, clock=clock, pause=clock.pause, **fields)


def messages(groups):
    """Give one message for each group named."""
    return [Message(kind="k", id=f"{place:04}", group=group) for place, group in enumerate(groups)]


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


def test_what_is_no_message_is_refused_before_any_call():
    """A dict with the same keys is the usual slip."""
    sqs = FakeSqs()

    with pytest.raises(TypeError, match=r"takes Message\(kind=\.\.\., data=\.\.\.\), not dict"):
        make_producer(sqs).send_many([Message(kind="k"), {"kind": "k"}])

    assert not sqs.queues


def test_messages_of_different_groups_share_batches_of_ten():
    """Twenty-five messages, three calls."""
    sqs = FakeSqs()

    make_producer(sqs).send_many([Message(kind="k") for _ in range(25)], concurrency=1)

    assert [len(ids) for _, ids in sqs.calls] == [10, 10, 5]


def test_large_messages_share_a_batch_only_as_far_as_they_fit():
    """One mebibyte for all of a batch; the fake refuses more."""
    sqs = FakeSqs()
    data = "x" * (LARGEST_BODY_BYTES // 3)

    make_producer(sqs).send_many([Message(kind="k", data=data) for _ in range(5)], concurrency=1)

    assert [len(ids) for _, ids in sqs.calls] == [2, 2, 1]


def test_one_wrong_message_is_refused_as_what_it_is():
    """`send` raises the error of its one message, before any call."""
    sqs = FakeSqs()
    producer = make_producer(sqs)

    with pytest.raises(InvalidMessageError, match="not JSON"):
        producer.send("k", {1, 2})
    with pytest.raises(InvalidMessageError, match="group"):
        producer.send("k", {}, group="g" * 129)
    with pytest.raises(InvalidMessageError, match="id is"):
        producer.send("k", {}, id="")
    with pytest.raises(InvalidMessageError, match="a priority is an int"):
        producer.send("k", {}, priority=True)
    with pytest.raises(MessageTooLargeError):
        producer.send("k", "x" * LARGEST_BODY_BYTES)
    assert sqs.calls == []


def test_all_wrong_messages_are_refused_together_and_nothing_is_sent():
    """A list is sent as a whole or mended first."""
    sqs = FakeSqs()
    wrong = [Message(kind="k"), Message(kind=""), Message(kind="k", data={1}), Message(kind="k", group="")]

    with pytest.raises(RefusedMessagesError) as caught:
        make_producer(sqs).send_many(wrong)

    assert [(place, message) for place, message, _ in caught.value.refusals] == list(enumerate(wrong))[1:]
    assert "message 2 ('k')" in str(caught.value)
    assert sqs.calls == []


def test_an_error_of_a_rule_is_the_callers():
    """A rule that fails is a bug of its author and not of the message."""
    sqs = FakeSqs()
    producer = make_producer(sqs, rules=PriorityRules({"k": lambda message: message.data["missing"]}))

    with pytest.raises(KeyError, match="missing"):
        producer.send("k", {})
    assert sqs.calls == []


def test_only_failed_entries_are_sent_again():
    """What is in the queue stays out of the next call."""
    throttled = iter([THROTTLE])
    sqs = FakeSqs(lambda identity: next(throttled, ACCEPT) if identity == "0003" else ACCEPT)

    sent = make_producer(sqs).send_many(messages("abcdefgh"), concurrency=1)

    assert [len(ids) for _, ids in sqs.calls] == [8, 1]
    assert [record.id for record in sent] == [f"{place:04}" for place in range(8)]


def test_a_lost_answer_is_repeated_and_deduplicated():
    """The message is in the queue once, and the caller learns its sequence number."""
    lost = iter([LOSE_CALL])
    sqs = FakeSqs(lambda _: next(lost, ACCEPT))

    sent = make_producer(sqs).send_many(messages("ab"), concurrency=1)

    assert sqs.ids(queue_url("MEDIUM")) == ["0000", "0001"]
    assert [int(record.sequence_number) for record in sent] == [0, 1]


def test_throttling_is_waited_out():
    """A queue that is busy for a while loses nothing."""
    busy = iter([FAIL_CALL] * 5)
    sqs = FakeSqs(lambda _: next(busy, ACCEPT))

    assert make_producer(sqs).send("k", {}).lane == "MEDIUM"


def test_what_was_not_sent_is_raised_with_its_reason():
    """And with what was sent, each in the caller's order."""
    sqs = FakeSqs(lambda identity: REFUSE if identity == "0002" else ACCEPT)

    with pytest.raises(PartialSendError) as caught:
        make_producer(sqs).send_many(messages("ababab"))

    assert [record.id for record in caught.value.sent] == ["0000", "0001", "0003", "0005"]
    assert [unsent.message.id for unsent in caught.value.failed] == ["0002", "0004"]
    assert "not for us" in caught.value.failed[0].reason
    assert "0002" in caught.value.failed[1].reason


def test_unsent_messages_can_be_sent_again_as_they_are():
    """With the priority they had, also outside of the block."""
    full = FakeSqs(lambda _: REFUSE)
    with processing_priority(Priority.BULK), pytest.raises(PartialSendError) as caught:
        make_producer(full).send_many(messages("ab"))

    again = make_producer(FakeSqs()).send_many([unsent.message for unsent in caught.value.failed])

    assert {record.lane for record in again} == {"MAIN"}


def test_a_lane_that_refuses_us_is_asked_once_and_others_go_on():
    """No right to send to one lane: one call tells it, and the other lanes get theirs."""

    class OneClosed(FakeSqs):
        def send_batch(self, queue_url, entries):
            if "MAIN" in queue_url:
                self.calls.append((queue_url, []))
                raise AwsError(operation="SendMessageBatch", code="AccessDenied", retryable=False)
            return super().send_batch(queue_url, entries)

    sqs = OneClosed()
    bulk = [Message(kind="k", priority=-100) for _ in range(100)]
    with pytest.raises(PartialSendError) as caught:
        make_producer(sqs).send_many([*bulk, Message(kind="k", id="urgent", priority=100)], concurrency=1)

    assert [record.id for record in caught.value.sent] == ["urgent"]
    assert len(caught.value.failed) == 100
    assert len(sqs.calls) == 2
    assert isinstance(caught.value.__cause__, AwsError)


def test_a_thread_that_dies_loses_nothing_silently():
    """Whatever ended it, its messages are in the error and marked as perhaps sent."""

    class Dying(FakeSqs):
        def send_batch(self, queue_url, entries):
            raise MemoryError

    with pytest.raises(PartialSendError) as caught:
        make_producer(Dying()).send_many(messages(map(str, range(30))), concurrency=2)

    assert len(caught.value.failed) == 30
    assert caught.value.failed[0].maybe_sent
    assert isinstance(caught.value.__cause__, MemoryError)


@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_carries_the_account(interrupt, concurrency):
    """Ctrl-C stops the sending, stays Ctrl-C, and says what was sent."""

    class Interrupted(FakeSqs):
        def send_batch(self, queue_url, entries):
            if any(entry.message_deduplication_id == "0025" for entry in entries):
                raise interrupt
            return super().send_batch(queue_url, entries)

    sqs = Interrupted()
    given_messages = messages(map(str, range(100)))
    with pytest.raises(interrupt) as caught:
        make_producer(sqs).send_many(given_messages, concurrency=concurrency)

    account = caught.value.__cause__
    assert isinstance(account, PartialSendError)
    in_queue = {record.id for record in account.sent}
    assert in_queue == set(sqs.ids(queue_url("MEDIUM")))
    assert sorted([*in_queue, *(unsent.message.id for unsent in account.failed)]) == [
        message.id for message in given_messages
    ]
    assert [unsent.message.id for unsent in account.failed if unsent.maybe_sent] == [
        f"{place:04}" for place in range(20, 30)
    ]


def test_an_interrupt_of_the_waiting_caller_waits_for_the_calls_on_their_way():
    """Ctrl-C hits the thread that waits; what the others send meanwhile counts as sent."""
    release = threading.Event()

    class Slow(FakeSqs):
        def send_batch(self, queue_url, entries):
            if entries[0].message_deduplication_id == "0000":
                release.wait(timeout=60)
                return super().send_batch(queue_url, entries)
            raise AwsError(operation="SendMessageBatch", code="Throttled", retryable=True)

    clock = FakeClock()
    moments = iter(range(6))

    def interrupted_clock():
        if next(moments, None) is None and not release.is_set():
            release.set()
            raise KeyboardInterrupt
        return clock()

    sqs = Slow()
    producer = Producer(deployment=make_deployment(), sqs=sqs, clock=interrupted_clock, pause=clock.pause)
    with pytest.raises(KeyboardInterrupt) as caught:
        producer.send_many(messages(map(str, range(20))), concurrency=2)

    account = caught.value.__cause__
    assert [record.id for record in account.sent] == [f"{place:04}" for place in range(10)]
    assert [unsent.message.id for unsent in account.failed] == [f"{place:04}" for place in range(10, 20)]


def test_an_interrupt_in_mid_accounting_reports_what_it_left_as_perhaps_sent():
    """It may strike between an answer and its record; then nothing is claimed and nothing forgotten."""

    def interrupted():
        raise KeyboardInterrupt

    sqs = FakeSqs()
    with pytest.raises(KeyboardInterrupt) as caught:
        make_producer(sqs, jitter=interrupted).send_many(messages("abab"), concurrency=1)

    failed = caught.value.__cause__.failed
    assert [unsent.message.id for unsent in failed] == ["0000", "0001", "0002", "0003"]
    assert [unsent.maybe_sent for unsent in failed] == [True, True, False, False]


def test_several_calls_are_on_their_way_at_once():
    """The barrier opens only when three threads are inside."""
    barrier = threading.Barrier(3)

    class Meeting(FakeSqs):
        def send_batch(self, queue_url, entries):
            barrier.wait(timeout=60)
            return super().send_batch(queue_url, entries)

    sent = make_producer(Meeting()).send_many(messages(map(str, range(60))), concurrency=3)

    assert len(sent) == 60


def test_a_concurrency_of_nothing_is_refused():
    """It would never end."""
    with pytest.raises(ValueError, match="at least 1"):
        make_producer(FakeSqs()).send_many([], concurrency=0)


OUTCOMES = [ACCEPT, ACCEPT, ACCEPT, ACCEPT, THROTTLE, REFUSE, LEAVE_OUT, LOSE_CALL, FAIL_CALL]


@settings(max_examples=120, deadline=None)
@given(
    groups=st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from([-100, 0, 100])), max_size=70),
    seed=st.integers(0, 2**32),
    share=st.floats(0, 1),
    concurrency=st.sampled_from([1, 1, 1, 4]),
)
def test_order_and_account_hold_under_any_pattern_of_failures(groups, seed, share, concurrency):
    """
    Each group of a lane is in the queue in order and without holes; every message is accounted for once.

    What is reported as sent is in the queue, what is in the queue and not reported as sent is marked.
    """
    rng = random.Random(seed)
    sqs = FakeSqs(lambda _: rng.choice(OUTCOMES) if rng.random() < share else ACCEPT)
    given_messages = [
        Message(kind="k", id=f"{place:04}", group=group, priority=priority)
        for place, (group, priority) in enumerate(groups)
    ]
    try:
        sent, failed = make_producer(sqs).send_many(given_messages, concurrency=concurrency), []
    except PartialSendError as error:
        sent, failed = error.sent, error.failed

    in_queues = [entry for queue in sqs.queues.values() for entry in queue]
    ids = {entry.message_deduplication_id for entry in in_queues}
    assert sorted([*(record.id for record in sent), *(unsent.message.id for unsent in failed)]) == [
        message.id for message in given_messages
    ]
    assert {record.id for record in sent} <= ids
    assert not [x for x in failed if x.message.id in ids and not x.maybe_sent]
    given_order = defaultdict(list)
    for message in given_messages:
        given_order[make_deployment().config.lane_for(message.priority).name, message.group].append(
            message.id
        )
    for (lane, group), expected in given_order.items():
        queue = sqs.queues.get(queue_url(lane), [])
        actual = [entry.message_deduplication_id for entry in queue if entry.message_group_id == group]
        assert actual == expected[: len(actual)]
