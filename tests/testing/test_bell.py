"""Receiving, deleting and ringing in memory: the queues of the pull engine without AWS."""

from datetime import timedelta

import pytest

from lanes import LanesConfig
from lanes.testing.calls import Calls
from lanes.testing.clock import FakeClock
from lanes.testing.queues import MemoryBell, MemoryQueues, bell_queue
from lanes.testing.world import deployment_in_memory


@pytest.fixture
def config():
    """Give one lane and twelve slots."""
    return LanesConfig.from_dict(
        {"consumer": {"reserved_concurrency": 12, "function_timeout": "30s"}, "lanes": [{"name": "MAIN"}]}
    )


@pytest.fixture
def clock():
    """Give a clock that stands still."""
    return FakeClock()


@pytest.fixture
def calls():
    """Give counted calls."""
    return Calls()


@pytest.fixture
def queues(config, clock, calls):
    """Give the lane in memory."""
    return MemoryQueues(config, clock, calls, native=None)


@pytest.fixture
def queue(config, clock):
    """Give the queue of the bell."""
    return bell_queue(config, clock)


def slots(number):
    """Return the configuration of so many slots."""
    return LanesConfig.from_dict({"consumer": {"engine": "pull", "reserved_concurrency": number}})


def send(queues, count, *, group="g"):
    for number in range(count):
        queues.live["MAIN"].send(f"body {number}", group=group, deduplication_id=f"{group}-{number}")


def bells(queue):
    """Receive all bells, ten at a time."""
    received = []
    while some := queue.receive(10):
        received += some
    return received


def test_a_received_record_is_complete(queues, config, clock):
    """Its event leads to its lane, as that of a mapping does."""
    send(queues, 1, group="customer-1")

    (record,) = queues.receive("MAIN", maximum=10, visibility=60, wait=0)

    deployment = deployment_in_memory(config)
    assert (record.body, record.group, record.receive_count) == ("body 0", "customer-1", 1)
    assert (record.sent_at, record.first_received_at) == (clock.now, clock.now)
    assert record.deduplication_id == "customer-1-0"
    assert deployment.lane_of_queue(record.event.event_source_arn).name == "MAIN"
    assert record.event.attributes.message_group_id == "customer-1"


def test_records_stay_hidden_as_long_as_the_receive_says(queues, clock):
    """Whatever the lane's own visibility timeout."""
    send(queues, 1)
    queues.receive("MAIN", maximum=1, visibility=70, wait=0)

    clock.advance(69)
    assert queues.receive("MAIN", maximum=1, visibility=70, wait=0) == []
    clock.advance(1)
    assert len(queues.receive("MAIN", maximum=1, visibility=70, wait=0)) == 1


def test_a_message_rings_for_one_of_the_slots_that_serve_its_lane(queue, clock, calls):
    """The first two may be busy with MAIN; another slot's turn comes with the next second."""
    raw = {"consumer": {"engine": "pull", "reserved_concurrency": 4}}
    lanes = [{"name": "HIGH", "threshold": 50}, {"name": "MAIN", "maximum_concurrency": 2}]
    bell = MemoryBell(queue, LanesConfig.from_dict({**raw, "lanes": lanes}), clock, calls)

    for second in range(3):
        bell.ring_for("HIGH", at=second)
    bell.ring_for("MAIN", at=0.0)
    bell.ring_for("HIGH", messages=10, at=9.0)

    assert bell.has_rings()
    found = [one.deduplication_id for one in bells(queue)]
    assert sorted(found) == sorted(["slot-2-0", "slot-3-1", "slot-2-2", "slot-0-0", "slot-2-9", "slot-3-9"])
    assert not bell.has_rings()


def test_a_ring_reaches_every_slot(queue, clock, calls):
    """In calls of ten."""
    MemoryBell(queue, slots(12), clock, calls).ring(range(12))

    assert sorted(bell.group for bell in bells(queue)) == sorted(f"slot-{number}" for number in range(12))
    assert calls.counts["SendMessageBatch"] == 2


def test_a_bell_is_dropped_after_twenty_minutes(queue, clock, calls):
    """Bells of a stopped function do not pile up."""
    MemoryBell(queue, slots(1), clock, calls).ring([0])

    clock.advance(timedelta(minutes=20).total_seconds())

    assert queue.counts() == (0, 0, 0)
