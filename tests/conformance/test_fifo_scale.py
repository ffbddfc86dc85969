"""A deep queue costs no more per call than a shallow one."""

import time

import pytest

from lanes.testing.fifo.queue import FifoQueue

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
