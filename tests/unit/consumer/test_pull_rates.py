"""A slot's part of a rate."""

from random import Random

from lanes.consumer.engines.order import Rate
from lanes.testing.clock import FakeClock
from tests.support.scenario import Scenario


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

    scenario.world.clock.advance = pause
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

    scenario.world.clock.advance = pause
    scenario.environments = [scenario._new_environment()]
    for number in range(4):
        scenario.send("MAIN", f"m{number}", group=f"g{number}")
    scenario.in_handler = lambda message: (
        left.append(sum(scenario.world.queues.live["MAIN"].counts())) if message.id == "urgent" else None
    )
    scenario.step("MAIN")

    assert scenario.done == ["m0", "m1", "urgent", "m2", "m3"]
    assert left == [2]
