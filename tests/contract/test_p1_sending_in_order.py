"""
P1: sending in order.

`send`, `send_many`: batches of up to ten and 1 MiB, several calls in flight, only failed entries sent again,
throttling met with backoff. Order within a group holds also when a batch partly fails.
"""

import random
import threading
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanes.message import LARGEST_BODY_BYTES, Message, id_in
from lanes.producer import PartialSendError
from tests.support.sending import (
    ACCEPT,
    FAIL_CALL,
    LEAVE_OUT,
    LOSE_CALL,
    REFUSE,
    THROTTLE,
    FakeSqs,
    make_deployment,
    make_producer,
    messages,
    queue_url,
)


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


def test_two_kinds_with_one_id_and_group_are_two_messages():
    """Business ids are unique within a kind at best; the id alone would have SQS drop the second."""
    sqs = FakeSqs()
    producer = make_producer(sqs)
    kinds = ("stock.loaded", "airport.opened")

    alone = [producer.send(kind, {}, id="IBM", group="IBM") for kind in kinds]
    sent = producer.send_many([Message(kind=kind, id="LAX") for kind in kinds])

    assert len({one.sequence_number for one in (*alone, *sent)}) == 4
    (queue,) = sqs.queues.values()
    assert [Message.from_body(entry.body).kind for entry in queue] == [*kinds, *kinds]


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
    busy = iter([FAIL_CALL] * 50)
    sqs = FakeSqs(lambda _: next(busy, ACCEPT))

    assert make_producer(sqs).send("k", {}).lane == "MEDIUM"


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
    ids = {id_in(entry.message_deduplication_id) for entry in in_queues}
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
        actual = [id_in(entry.message_deduplication_id) for entry in queue if entry.message_group_id == group]
        assert actual == expected[: len(actual)]
