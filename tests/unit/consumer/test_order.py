"""Which lane a slot serves next: by weights, from the reserve, and within a rate."""

from datetime import timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.config import Lane, LanesConfig
from lanes.consumer.engines.order import SAVED_UP, Rate, Reserve, Weighted
from lanes.testing.clock import FakeClock
from tests.support.memory import record_with
from tests.support.scenario import Scenario


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


LANE = Lane(name="MAIN", max_wait=timedelta(seconds=60))


def overdue(clock):
    return record_with(sent_at=clock.now - 61)


@pytest.mark.parametrize(("waited", "served"), [(59, False), (60, False), (60.1, True)])
def test_only_what_waits_longer_is_served(waited, served):
    """Not what waits just so long."""
    clock = FakeClock()
    reserve = Reserve(share=0.5, clock=clock, monotonic=clock)
    clock.advance(100)

    assert reserve.admits(LANE, record_with(sent_at=clock.now - waited)) is served


def test_savings_are_bounded():
    """A quiet hour is no burst."""
    clock = FakeClock()
    reserve = Reserve(share=0.1, clock=clock, monotonic=clock)
    clock.advance(3600)
    spent = 0
    while reserve.admits(LANE, overdue(clock)):
        reserve.charge(1)
        spent += 1

    assert spent == SAVED_UP * 0.1


def test_the_account_does_not_depend_on_a_clock_that_is_set():
    """One that was wrong by an hour for a moment would leave overdue messages without a reserve for that hour."""
    clock, monotonic = FakeClock(), FakeClock()
    reserve = Reserve(share=0.1, clock=clock, monotonic=monotonic)
    monotonic.advance(3600)
    clock.advance(3600)
    assert reserve.admits(LANE, overdue(clock))
    reserve.charge(1)

    clock.now -= 3600

    assert reserve.admits(LANE, overdue(clock))


def rate_of(clock, rate=2.0, slots=1, seed=1):
    """Return a slot's part."""
    return Rate(rate, slots=slots, clock=clock, random=Random(seed))


def test_a_slot_begins_with_a_pause():
    """A new environment knows nothing of the records of the one before."""
    rate = rate_of(FakeClock(), rate=0.5, slots=3)

    assert 3.0 <= rate.wait() <= 9.0


def test_a_clock_that_is_set_back_costs_no_more_than_a_first_pause():
    """Not an hour of silence."""
    clock = FakeClock()
    rate = rate_of(clock, rate=1.0)
    clock.now -= 3600

    assert rate.wait() <= 1.5
    clock.advance(1.5)
    assert rate.wait() == 0


def test_a_pause_ends_if_the_higher_lanes_are_to_be_asked_without_any_age():
    """A `recheck_interval` of 0 does not turn the wait for the rate into calls without end."""
    scenario = Scenario({"consumer": {"max_rate": 2, "recheck_interval": 0}}, engine="pull")
    pauses, advance = [], scenario.world.clock.advance

    def pause(seconds):
        pauses.append(seconds)
        assert len(pauses) < 1000, "it looks again and again, and no time passes"
        advance(seconds)

    scenario.world.clock.advance = scenario.world.sleep = pause
    scenario.environments = [scenario._new_environment()]
    scenario.send("MAIN", "m0")
    scenario.send("MAIN", "m1")

    scenario.drain()

    assert scenario.done == ["m0", "m1"]
    assert all(pauses)


def test_records_done_are_deleted_before_a_higher_lane_is_served_in_a_pause():
    """Its work may take long, and their visibility must not end meanwhile."""
    scenario = Scenario({"consumer": {"max_rate": 2}}, engine="pull")
    left, advance = [], scenario.world.clock.advance

    def pause(seconds):
        advance(seconds)
        if scenario.done == ["m0", "m1"] and len(scenario.sent) == 4 and seconds > scenario.takes:
            scenario.send("HIGH", "urgent")

    scenario.world.clock.advance = scenario.world.sleep = pause
    scenario.environments = [scenario._new_environment()]
    for number in range(4):
        scenario.send("MAIN", f"m{number}", group=f"g{number}")
    scenario.in_handler = lambda message: (
        left.append(sum(scenario.world.queues.live["MAIN"].counts())) if message.id == "urgent" else None
    )
    scenario.step("MAIN")

    assert scenario.done == ["m0", "m1", "urgent", "m2", "m3"]
    assert left == [2]
