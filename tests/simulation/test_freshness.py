"""The counts of the higher lanes that a decision uses are never older than allowed."""

from bisect import bisect_right
from random import Random

import pytest

from lanes.config import LanesConfig
from simulator.parameters import Unknowns
from simulator.simulated_lanes import SimulatedLanes

RECHECK, FRESH = 0.25, 0.05


def lanes_of(slots):
    config = LanesConfig.from_dict({"consumer": {"reserved_concurrency": slots}})
    return SimulatedLanes(config, unknowns=Unknowns(cold_start=0.0))


def readings_of(lanes):
    """Return the list that the moments of all further readings are added to."""
    moments, takes = [], lanes.calls.takes

    def recorded(operation):
        if operation in {"GetQueueAttributes", "GetItem", "UpdateItem"}:
            moments.append(lanes.scheduler.now)
        takes(operation)

    lanes.calls.takes = recorded
    return moments


@pytest.mark.parametrize("takes", [(0.02, 0.04), (0.1, 0.3), (0.5, 2.0), (0.01, 4.0)])
@pytest.mark.parametrize("slots", [1, 3])
def test_no_record_begins_with_an_older_reading_than_allowed(slots, takes):
    """At most the recheck interval before a short record, and a fresh one before a long one."""
    lanes, chance = lanes_of(slots), Random(7)
    moments = readings_of(lanes)
    for number in range(120):
        lanes.send("MAIN", group=f"g{number % 6}", seconds=chance.uniform(*takes))
    assert lanes.settle(within=10_000)

    began = sorted(one.started_at for one in lanes.handled)
    ages = [moment - moments[bisect_right(moments, moment) - 1] for moment in began]

    assert len(ages) == 120
    assert max(ages) <= RECHECK + 1e-6
    if slots == 1 and takes[0] > RECHECK:
        assert max(ages[1:]) <= FRESH + 1e-6


@pytest.mark.parametrize("arrives", [0.05, 0.5, 1.0, 1.5, 1.9])
@pytest.mark.parametrize("slots", [1, 3])
def test_a_message_that_arrives_during_a_handler_goes_before_the_next_record(slots, arrives):
    """Each slot begins one more record at most."""
    lanes = lanes_of(slots)
    for number in range(30 * slots):
        lanes.send("MAIN", group=f"g{number % slots}", seconds=0.2)
    lanes.scheduler.after(4 + arrives, lambda: lanes.send("HIGH", group="urgent", seconds=0.1))
    assert lanes.settle(within=1_000)

    (high,) = (one for one in lanes.handled if one.lane == "HIGH")
    begun = [one for one in lanes.handled if high.sent_at + 0.3 < one.started_at < high.started_at]

    assert len(begun) <= slots
