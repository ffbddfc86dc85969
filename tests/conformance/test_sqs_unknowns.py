"""Corrected queues under behaviour that AWS does not document, as a server is told to show it."""

import pytest

from lanes.testing.fifo.message import GroupOrder
from local.corrections.sqs_queue import set_unknowns
from local.unknowns import QueueUnknowns


@pytest.fixture
def unknowns():
    """Set the behaviour of all queues, and take it back."""
    yield lambda **values: set_unknowns(QueueUnknowns(**values))
    set_unknowns(QueueUnknowns())


def test_counts_may_be_late(corrected, unknowns):
    """By as many seconds as set, for each change."""
    unknowns(stale=5.0)
    corrected.send("a")
    corrected.clock.advance(3)
    corrected.send("b")
    corrected.receive(1)
    assert corrected.counts() == (0, 0, 0)

    corrected.clock.advance(2)
    assert corrected.counts() == (1, 0, 0)

    corrected.clock.advance(3)
    assert corrected.counts() == (1, 1, 0)


def test_blocked_messages_may_be_left_out_of_the_counts(corrected, unknowns):
    """Those behind one in flight of their group."""
    unknowns(blocked_counted=False)
    for number in range(3):
        corrected.send(f"a{number}", group="A")
    corrected.send("b", group="B")
    corrected.receive(1)

    assert corrected.counts() == (1, 1, 0)


def test_short_polls_may_miss_and_long_ones_do_not(corrected, unknowns):
    """Here all of them."""
    unknowns(missed_polls=1.0)
    corrected.send("a")

    assert corrected.receive() == []
    found = corrected.client.receive_message(QueueUrl=corrected.url, WaitTimeSeconds=1)
    assert [message["Body"] for message in found["Messages"]] == ["a"]


def test_groups_may_take_turns(corrected, unknowns):
    """A group of a queue in high-throughput mode goes behind the others when it is received."""
    unknowns(group_order=GroupOrder.TURN)
    high = {"DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}
    corrected.client.set_queue_attributes(QueueUrl=corrected.url, Attributes=high)
    for group in "AABB":
        corrected.send(group, group=group)
    (first,) = corrected.receive(1)
    corrected.change_visibility(first.handle, 0)

    assert [delivery.group for delivery in corrected.receive(1)] == ["B"]
