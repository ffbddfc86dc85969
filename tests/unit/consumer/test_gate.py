"""The gate before each record: for how long what was read is believed."""

import pytest

from lanes.config import LanesConfig
from lanes.consumer.gate import Gate
from lanes.consumer.yielding import LaneLoad
from lanes.testing.clock import FakeClock


class Lanes:
    """Three lanes, one of which may wait, and an environment beside others that are all busy."""

    alone, undeleted, free_slots = False, None, 0

    def __init__(self):
        self.clock = FakeClock()
        self.config = LanesConfig.from_dict({"consumer": {"reserved_concurrency": 3}})
        self.waiting = 0
        self.gate = Gate(config=self.config, others=self, loads=self, clock=self.clock)

    def load(self, lane):
        return LaneLoad(lane=lane, waiting=self.waiting if lane.name == "HIGH" else 0)

    def above(self, name, *, expected=0.02):
        found = self.gate.lane_above(self.config.lane(name), expected=expected)
        return found.name if found else None


@pytest.fixture
def lanes():
    return Lanes()


def test_what_was_read_ahead_serves_the_next_record(lanes):
    """As long as it is fresh."""
    lanes.waiting = 1
    lanes.gate.look_ahead(lanes.config.lane("MAIN"))
    lanes.waiting = 0
    lanes.clock.advance(0.04)

    assert lanes.above("MAIN") == "HIGH"
    lanes.clock.advance(0.04)
    assert lanes.above("MAIN") is None


def test_what_was_read_ahead_is_forgotten_when_the_lane_that_waited_is_served(lanes):
    """A short batch of it may be done before that reading is old, and the lane below would make way for nothing."""
    lanes.waiting = 1
    lanes.gate.look_ahead(lanes.config.lane("MAIN"))
    lanes.gate.entered(lanes.config.lane("HIGH"))
    lanes.waiting = 0
    lanes.clock.advance(0.03)
    lanes.gate.entered(lanes.config.lane("MAIN"))

    assert lanes.above("MAIN") is None


@pytest.mark.parametrize("back", [1.0, 3_600.0])
@pytest.mark.parametrize("seen", [0, 1])
def test_after_the_clock_was_set_back_the_lanes_above_are_read_anew(lanes, back, seen):
    """Else what was read before would be believed until the clock has come as far again."""
    lanes.waiting = seen
    lanes.gate.look_ahead(lanes.config.lane("MAIN"))
    lanes.waiting = 1 - seen
    lanes.clock.now -= back

    assert lanes.above("MAIN") == (None if seen else "HIGH")
