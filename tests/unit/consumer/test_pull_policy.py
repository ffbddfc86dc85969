"""Policies of the pull engine: which lane a slot serves next."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.config import LanesConfig
from lanes.consumer.engines.order import Weighted


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


def test_weighted_sets_nothing_aside():
    """The choice is made from batch to batch."""
    config = config_with([9, 1])

    assert list(Weighted().above(config.lanes[1])) == []
