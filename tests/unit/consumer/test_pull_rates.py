"""A slot's part of a rate."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.consumer.engines.pull.policy import PROMISED, Rate
from tests.support.memory import FakeClock


def rate_of(clock, rate=2.0, slots=1, seed=1):
    """Return a slot's part."""
    return Rate(rate, slots=slots, clock=clock, random=Random(seed))


@given(rate=st.floats(0.02, 50), slots=st.integers(1, 20), seed=st.integers(0, 99))
def test_all_slots_together_keep_the_rate(rate, slots, seed):
    """Over any time: at most the rate, and one record more for each slot."""
    clock, starts = FakeClock(0.0), 0
    rates = [rate_of(clock, rate, slots, seed + number) for number in range(slots)]
    span = 20 * slots / rate
    while clock.now < span:
        for one in rates:
            if not one.wait():
                one.start()
                starts += 1
        clock.advance(max(1e-6, min(one.wait() for one in rates)))

    assert starts <= rate * span + slots
    assert starts >= rate * span * 0.8 - 2 * slots


def test_a_slot_begins_with_a_pause():
    """A new environment knows nothing of the records of the one before."""
    rate = rate_of(FakeClock(), rate=0.5, slots=3)

    assert 3.0 <= rate.wait() <= 9.0


def test_a_quiet_time_saves_up_one_record():
    """Not a burst."""
    clock = FakeClock()
    rate = rate_of(clock)
    clock.advance(1000)

    assert rate.wait() == 0
    rate.start()
    assert rate.wait() == pytest.approx(0.5)


def test_each_promise_is_later_than_those_before():
    """So that returned records do not come back all at once."""
    clock = FakeClock()
    rate = rate_of(clock, rate=1.0)
    clock.advance(100)
    rate.start()

    promises = [rate.promise() for _ in range(3)]

    assert promises == pytest.approx([1 + PROMISED, 1 + 2 * PROMISED, 1 + 3 * PROMISED])
