"""What waits above the next record is found out while the handler of this one is at work."""

from bisect import bisect_right
from itertools import pairwise
from random import Random

import pytest

from lanes.config import LanesConfig
from simulator.parameters import Faults, Unknowns
from simulator.world import SimulatedLanes
from tests.support.memory import aws_error

RECHECK, FRESH = 0.25, 0.05
MODES = {
    "one slot": {"reserved_concurrency": 1},
    "three slots": {"reserved_concurrency": 3},
    "waiting room": {"reserved_concurrency": 3, "waiting_room": True},
}


def lanes_of(mode, *, faults=None):
    config = LanesConfig.from_dict({"consumer": MODES[mode]})
    return SimulatedLanes(config, faults=faults, unknowns=Unknowns(cold_start=0.0))


def readings_of(lanes):
    """Return the moments at which the state above is read from now on: when the last of its calls was made."""
    moments, taken = [], lanes.calls.takes

    def noted(operation):
        if operation in {"GetQueueAttributes", "GetItem", "UpdateItem"}:
            moments.append(lanes.kernel.now)
        taken(operation)

    lanes.calls.takes = noted
    return moments


def gaps(lanes):
    """Return the seconds between two records of one batch: nothing is sent, so one follows the other in its group."""
    ordered = sorted(lanes.handled, key=lambda one: one.number)
    return [after.started_at - before.finished_at for before, after in pairwise(ordered)]


@pytest.mark.parametrize("takes", [0.02, 0.1, 0.2, 0.5, 3.0])
@pytest.mark.parametrize("mode", MODES)
def test_no_record_waits_for_a_reading_once_it_is_known_how_long_they_take(mode, takes):
    """One handler begins as the one before it ends, but for the batch's own beginning and end."""
    lanes = lanes_of(mode)
    for _ in range(30):
        lanes.send("MAIN", group="one", seconds=takes)
    assert lanes.settle(within=1_000)

    between = gaps(lanes)

    assert sum(gap > 1e-6 for gap in between[9:]) <= 2
    assert len(between) == 29


@pytest.mark.parametrize("takes", [(0.02, 0.04), (0.1, 0.3), (0.5, 2.0), (0.01, 4.0)])
@pytest.mark.parametrize("mode", MODES)
def test_what_is_known_is_never_older_than_it_may_be(mode, takes):
    """However unlike each other the handlers' times are, and whoever has read it."""
    lanes, chance = lanes_of(mode), Random(7)
    moments = readings_of(lanes)
    for number in range(120):
        lanes.send("MAIN", group=f"g{number % 6}", seconds=chance.uniform(*takes))
    assert lanes.settle(within=10_000)

    began = sorted(one.started_at for one in lanes.handled)
    ages = [moment - moments[bisect_right(moments, moment) - 1] for moment in began]

    assert len(ages) == 120
    assert max(ages) <= RECHECK + 1e-6
    if mode == "one slot" and takes[0] > RECHECK:
        assert max(ages[1:]) <= FRESH + 1e-6


@pytest.mark.parametrize("arrives", [0.05, 0.5, 1.0, 1.5, 1.9])
@pytest.mark.parametrize("mode", MODES)
def test_what_arrives_during_a_handler_is_made_way_for_after_it(mode, arrives):
    """Unless it comes while the reading for the next record is on its way: then after that one."""
    lanes = lanes_of(mode)
    slots = lanes.config.consumer.reserved_concurrency
    for number in range(30 * slots):
        lanes.send("MAIN", group=f"g{number % slots}", seconds=0.2)
    lanes.kernel.after(4 + arrives, lambda: lanes.send("HIGH", group="urgent", seconds=0.1))
    assert lanes.settle(within=1_000)

    (high,) = (one for one in lanes.handled if one.lane == "HIGH")
    begun = [one for one in lanes.handled if high.sent_at + 0.3 < one.started_at < high.started_at]

    # Who has a slot may begin one more while another slot is on its way to HIGH.
    assert len(begun) <= slots


def test_what_can_not_be_read_ahead_is_read_before_the_record():
    """A reading that fails beside a handler is neither trusted nor told: the next record asks anew."""
    lanes = lanes_of("one slot")
    busy, refused = [], []
    work = lanes._work

    def working(*args, **fields):
        busy.append(1)
        try:
            work(*args, **fields)
        finally:
            busy.pop()

    def refuse(operation, _position):
        if not busy:
            return None
        refused.append(operation)
        return aws_error()

    lanes._work = working
    lanes.calls.break_if = refuse
    for _ in range(30):
        lanes.send("MAIN", group="one", seconds=0.2)
    lanes.kernel.after(3.0, lambda: lanes.send("HIGH", group="urgent", seconds=0.1))
    assert lanes.settle(within=1_000)

    (high,) = (one for one in lanes.handled if one.lane == "HIGH")
    assert high.started_at - high.sent_at < 2.0
    assert len(refused) > 10
    assert not lanes.tally.problems
    assert [one.number for one in lanes.handled if one.lane == "MAIN"] == list(range(1, 31))


@pytest.mark.parametrize("mode", MODES)
def test_a_process_that_dies_while_it_reads_ahead_loses_nothing(mode):
    """Its reading comes to nothing; order and attempts are those of any crash."""
    lanes = lanes_of(mode, faults=Faults(crashes=0.2, call_errors=0.05, slow_calls=0.05))
    for number in range(120):
        lanes.send("MAIN", group=f"g{number % 4}", seconds=0.2)
    for second in range(0, 20, 2):
        lanes.kernel.after(second, lambda: lanes.send("HIGH", group="urgent", seconds=0.05))

    assert lanes.settle(within=100_000)

    assert lanes.function.times.lost > 0
    assert lanes.done + lanes.dead == lanes.sent == 130
