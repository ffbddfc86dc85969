"""The calls of the pull engine in virtual time: how many there are, and that the slot does not wait for them."""

import itertools

from tests.simulation.pulling import pulling

WORK = 0.2


def drained(groups, *, messages=200):
    """Return one slot's lanes after a backlog of MAIN."""
    lanes = pulling(1)
    for number in range(messages):
        lanes.send("MAIN", group=f"g{number % groups}", seconds=WORK)
    assert lanes.settle(within=120)
    return lanes


def test_one_group_costs_at_most_one_more_receive_a_batch():
    """Its next records are blocked until the deletion of those in hand."""
    one, many = (drained(groups).calls.counts["ReceiveMessage"] for groups in (1, 10))

    assert one <= many + 200 / 10 + 5


def test_a_batch_that_was_set_aside_for_a_short_record_goes_on_at_once():
    """Without a look of its own, since one beside the short record is new enough."""
    lanes = pulling(1)
    for _ in range(30):
        lanes.send("MAIN", group="g", seconds=WORK)
    for number in range(9):
        lanes.scheduler.after(
            1.0 + number / 2, lambda at=number: lanes.send("HIGH", group=f"h{at}", seconds=0.05)
        )
    assert lanes.settle(within=60)

    handled = sorted(lanes.handled, key=lambda one: one.started_at)
    gaps = sorted(
        after.started_at - before.finished_at
        for before, after in itertools.pairwise(handled)
        if (before.lane, after.lane) == ("HIGH", "MAIN")
    )
    # A deletion and a look come between: none before it could see the next record of that group. The others end with a
    # batch, and its group has to be received.
    assert gaps[len(gaps) // 2] < 4 * lanes.unknowns.call
