"""The model's look-ahead, when something becomes visible by itself, and calls that cost no more in a deep queue."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from lanes.testing.clock import FakeClock
from lanes.testing.fifo.message import FifoSettings
from lanes.testing.fifo.queue import FifoQueue


def queue_of(clock, **settings):
    """Return a model queue with some settings."""
    return FifoQueue(clock, settings=FifoSettings(**settings))


def fill(queue, *groups):
    """Send one message per named group."""
    for number, group in enumerate(groups):
        queue.send(f"{group}{number}", group=group, deduplication_id=f"{group}-{number}")


def received_groups(queue, maximum=10):
    """Return the groups of one receive."""
    return [message.group for message in queue.receive(maximum)]


def test_a_backlog_of_one_blocked_group_hides_the_groups_behind_it():
    """Only the first messages of the queue are searched for groups."""
    queue = queue_of(FakeClock(), look_ahead=3)
    fill(queue, "A", "A", "A", "B")
    first = received_groups(queue, 1)

    assert first == ["A"]
    assert received_groups(queue) == []


def test_each_delete_lets_the_look_ahead_reach_one_message_further():
    """What was hidden is found once there is room."""
    queue = queue_of(FakeClock(), look_ahead=3)
    fill(queue, "A", "A", "A", "B")
    (message,) = queue.receive(1)
    queue.delete(message.receipt_handle)

    assert sorted(received_groups(queue)) == ["A", "A", "B"]


def test_no_more_than_the_look_ahead_is_ever_in_flight():
    """The limit of messages in flight gives an empty answer and no error."""
    queue = queue_of(FakeClock(), look_ahead=4)
    fill(queue, *(f"group-{number}" for number in range(9)))

    assert len(queue.receive(10)) == 4
    assert queue.receive(10) == []
    assert queue.counts() == (5, 4, 0)


def test_a_larger_look_ahead_acts_at_once():
    """Raising the parameter finds what was hidden."""
    queue = queue_of(FakeClock(), look_ahead=1)
    fill(queue, "A", "B")
    queue.receive(1)
    queue.settings = FifoSettings(look_ahead=2)

    assert received_groups(queue) == ["B"]


def test_the_next_event_is_the_earliest_end_of_a_visibility_or_a_delay():
    """Deleted and changed messages do not count."""
    clock = FakeClock()
    queue = queue_of(clock, visibility_timeout=timedelta(seconds=30))
    before = queue.next_event_at()
    fill(queue, "A", "B", "C")
    first, second, _third = queue.receive(3)
    queue.delete(first.receipt_handle)
    queue.change_visibility(second.receipt_handle, timedelta(seconds=40))
    with_visibility = queue.next_event_at()
    queue.settings = FifoSettings(delay=timedelta(seconds=7))
    fill(queue, "D")

    assert before is None
    assert with_visibility == clock.now + 30
    assert queue.next_event_at() == clock.now + 7


def test_nothing_is_receivable_while_all_groups_are_blocked():
    """Visible messages of blocked groups do not make the queue receivable."""
    queue = queue_of(FakeClock())
    fill(queue, "A", "A")
    (message,) = queue.receive(1)
    blocked = queue.is_receivable()
    queue.delete(message.receipt_handle)

    assert not blocked
    assert queue.is_receivable()


def test_messages_in_front_of_those_in_flight_are_not_blocked():
    """Only the messages behind one of their group in flight are counted."""
    queue = queue_of(FakeClock())
    fill(queue, "A", "A", "A", "B", "B")
    first, _ = queue.receive(2)
    all_behind = queue.blocked()
    queue.change_visibility(first.receipt_handle, timedelta(0))

    assert (all_behind, queue.blocked()) == (1, 1)
    assert queue.counts() == (4, 1, 0)
    assert received_groups(queue) == ["A", "B", "B"]


@pytest.mark.parametrize("maximum", [0, 11])
def test_a_receive_asks_for_one_to_ten(maximum):
    """Other numbers are a mistake of the caller."""
    with pytest.raises(ValueError, match="1 to 10"):
        queue_of(FakeClock()).receive(maximum)


def test_a_clock_that_runs_backwards_stands_still():
    """No message is sent before an earlier one."""
    clock = FakeClock()
    queue = queue_of(clock, retention=timedelta(seconds=60))
    fill(queue, "A")
    clock.now -= 1000
    fill(queue, "B")
    first, second = queue.receive(2)

    assert first.sent_at == second.sent_at


CYCLES = 200
GENEROUS_RATIO = 4


def cost_at(depth):
    """Return the least CPU time of some rounds of send, receive, delete and count at a depth."""
    queue = FifoQueue(time.time)
    for number in range(depth):
        queue.send("body", group=f"group-{number % 997}", deduplication_id=str(number))
    costs = []
    for round_number in range(5):
        started = time.process_time()
        for cycle in range(CYCLES):
            queue.send("body", group="other", deduplication_id=f"{round_number}-{cycle}")
            for message in queue.receive(10):
                queue.delete(message.receipt_handle)
            queue.counts()
            queue.next_event_at()
        costs.append(time.process_time() - started)
    return min(costs)


@pytest.mark.deep
def test_a_deep_queue_costs_about_the_same_as_a_shallow_one():
    """Fifty times the messages may not cost a multiple."""
    assert cost_at(60_000) < GENEROUS_RATIO * cost_at(11_000)
