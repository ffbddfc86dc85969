"""The backlog check: which readings serve the next record, and for how long."""

from datetime import timedelta
from types import SimpleNamespace

import pytest

from lanes.config import LanesConfig
from lanes.consumer.engines.check import BacklogCheck
from lanes.consumer.ledger import CachedLedger
from lanes.depth import LaneDepth
from lanes.testing.calls import Calls
from lanes.testing.clock import FakeClock
from lanes.testing.memory import MemoryLedger


class Lanes:
    """Lanes of which HIGH may have a backlog, and peers that leave no slot free."""

    alone = False

    def __init__(self):
        self.config = LanesConfig()
        self.clock = FakeClock()
        self.high = 0
        self.check = BacklogCheck(
            config=self.config,
            depths=self,
            peers=self,
            ledger=CachedLedger(MemoryLedger(Calls()), clock=self.clock),
            clock=self.clock,
        )

    def free_slots(self):
        return 0

    def depth(self, lane):
        return LaneDepth(backlog=0, in_flight=self.high if lane == "HIGH" else 0)

    def refresh(self):
        """Do nothing: their state does not change."""

    def in_flight(self, lane):
        return 0

    def busy(self, lane):
        return 0

    def above(self, name, *, expected=0.02):
        found = self.check.lane_above(SimpleNamespace(lane=self.config.lane(name)), expected=expected)
        return found.lane.name if found else None


@pytest.fixture
def lanes():
    return Lanes()


def test_a_reading_without_a_backlog_serves_for_the_recheck_interval(lanes):
    """And no longer."""
    assert lanes.above("MAIN") is None
    lanes.high = 1
    recheck = lanes.config.consumer.recheck_interval
    lanes.clock.advance(recheck)

    assert lanes.above("MAIN") is None
    lanes.clock.advance(timedelta(milliseconds=1))
    assert lanes.above("MAIN") == "HIGH"


def test_a_long_record_is_preceded_by_a_fresh_reading(lanes):
    """It would keep the backlog waiting for all of its time."""
    assert lanes.above("MAIN") is None
    lanes.high = 1
    lanes.clock.advance(0.06)

    assert lanes.above("MAIN", expected=5.0) == "HIGH"


def test_a_newer_reading_replaces_an_older_one_without_a_backlog(lanes):
    """Another lane asked in between and found HIGH at work."""
    assert lanes.above("MAIN") is None
    lanes.high = 1
    lanes.clock.advance(0.1)

    assert lanes.above("MAIN", expected=5.0) == "HIGH"
    assert lanes.above("MEDIUM", expected=0.01) == "HIGH"


def test_a_backlog_is_read_again_each_time(lanes):
    """A cached one would prolong yields."""
    lanes.high = 1
    assert lanes.above("MAIN") == "HIGH"
    lanes.high = 0

    assert lanes.above("MAIN") is None


@pytest.mark.parametrize("back", [1.0, 3_600.0])
def test_after_the_clock_was_set_back_the_lanes_above_are_read_again(lanes, back):
    """Else the older reading would serve until the clock has come as far again."""
    assert lanes.above("MAIN") is None
    lanes.high = 1
    lanes.clock.now -= back

    assert lanes.above("MAIN") == "HIGH"
