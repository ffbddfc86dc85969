"""Policies of the pull engine: which lane a slot serves next."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.config import LanesConfig
from lanes.consumer.engines.order import Strict, Weighted


def config_with(weights, *, enabled=True):
    """Return lanes with these weights, highest first."""
    lanes = [
        {"name": f"L{number}", "threshold": -number, "weight": weight}
        for number, weight in enumerate(weights)
    ]
    consumer = {"engine": "pull", "policy": "weighted"}
    return LanesConfig.from_dict({"enabled": enabled, "consumer": consumer, "lanes": lanes})


def names(lanes):
    """Return their names."""
    return [lane.name for lane in lanes]


def test_strict_keeps_the_order_of_the_lanes():
    """However long a lane was served."""
    config = config_with([1, 1, 1])
    policy = Strict(config)
    policy.charge(config.lanes[0], 1000.0)

    assert names(policy.order(config.lanes)) == ["L0", "L1", "L2"]
    assert names(policy.above(config.lanes[2])) == ["L0", "L1"]


def test_strict_sets_nothing_aside_where_priority_lanes_are_disabled():
    """No lane is above another then."""
    config = config_with([1, 1], enabled=False)

    assert list(Strict(config).above(config.lanes[1])) == []


@given(weights=st.lists(st.floats(0.5, 20), min_size=1, max_size=5), record=st.floats(0.01, 3.0))
def test_weighted_lanes_share_the_time_by_their_weights(weights, record):
    """Within one record of each lane, as long as all have messages; no lane starves."""
    config, policy = config_with(weights), Weighted()
    served = dict.fromkeys(names(config.lanes), 0.0)
    records = 200 * len(weights)
    for _ in range(records):
        lane = policy.order(config.lanes)[0]
        policy.charge(lane, record)
        served[lane.name] += record

    total = records * record
    for lane in config.lanes:
        share = lane.weight / sum(weights)
        assert served[lane.name] == pytest.approx(total * share, abs=record * (1 + len(weights)))


def test_a_lane_that_had_no_messages_saves_up_nothing():
    """It joins the others, and does not hold them up until it has caught up."""
    config, policy = config_with([1, 1]), Weighted()
    high, low = config.lanes
    for _ in range(100):
        policy.charge(low, 1.0)

    turns = []
    for _ in range(10):
        lane = policy.order(config.lanes)[0]
        policy.charge(lane, 1.0)
        turns.append(lane.name)

    assert turns[0] == high.name
    assert 4 <= turns.count(low.name) <= 5


def test_weighted_sets_nothing_aside():
    """The choice is made from batch to batch."""
    config = config_with([9, 1])

    assert list(Weighted().above(config.lanes[1])) == []
