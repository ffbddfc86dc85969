"""The reserve: a share of time, saved up within bounds, for what is overdue."""

from datetime import timedelta

import pytest

from lanes.config import Lane
from lanes.consumer.engines.order import SAVED_UP, Reserve
from lanes.testing.clock import FakeClock
from tests.support.memory import record_with

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
