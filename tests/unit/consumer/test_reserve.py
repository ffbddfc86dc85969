"""The reserve: a share of time, saved up within bounds, for what is overdue."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.config import Lane
from lanes.consumer.engines.reserve import SAVED_UP, Reserve
from lanes.testing.clock import FakeClock
from tests.support.records import record_with

LANE = Lane(name="MAIN", max_wait=timedelta(seconds=60))


def overdue(clock):
    return record_with(sent_at=clock.now - 61)


def test_a_lane_without_a_longest_wait_is_never_served():
    """Strict priority is the default."""
    clock = FakeClock()
    reserve = Reserve(share=0.5, clock=clock)
    clock.advance(100)

    assert not reserve.admits(Lane(name="MAIN"), record_with(sent_at=0.0))


@pytest.mark.parametrize(("waited", "served"), [(59, False), (60, False), (60.1, True)])
def test_only_what_waits_longer_is_served(waited, served):
    """Not what waits just so long."""
    clock = FakeClock()
    reserve = Reserve(share=0.5, clock=clock)
    clock.advance(100)

    assert reserve.admits(LANE, record_with(sent_at=clock.now - waited)) is served


def test_there_is_no_credit_at_first():
    """It is saved up while higher lanes work."""
    clock = FakeClock()
    reserve = Reserve(share=0.5, clock=clock)

    assert not reserve.admits(LANE, overdue(clock))
    clock.advance(1)
    assert reserve.admits(LANE, overdue(clock))


@given(
    share=st.floats(0.01, 0.5),
    steps=st.lists(st.tuples(st.floats(0.01, 30), st.floats(0.01, 20)), min_size=1, max_size=100),
)
def test_the_share_holds_over_any_time(share, steps):
    """But for one record, which may overdraw the account."""
    clock = FakeClock()
    reserve = Reserve(share=share, clock=clock)
    began, spent, longest = clock.now, 0.0, 0.0
    for pause, work in steps:
        clock.advance(pause)
        if reserve.admits(LANE, overdue(clock)):
            clock.advance(work)
            reserve.charge(work)
            spent, longest = spent + work, max(longest, work)

    assert spent <= share * (clock.now - began) + longest + 1e-3


def test_savings_are_bounded():
    """A quiet hour is no burst."""
    clock = FakeClock()
    reserve = Reserve(share=0.1, clock=clock)
    clock.advance(3600)
    spent = 0
    while reserve.admits(LANE, overdue(clock)):
        reserve.charge(1)
        spent += 1

    assert spent == SAVED_UP * 0.1
