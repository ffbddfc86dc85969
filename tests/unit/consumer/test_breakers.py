"""The breaker of a resource: which lane has the next try."""

from lanes.config import Lane
from lanes.consumer.breakers import COMES_WITHIN, IN_A_ROW, Breaker
from lanes.testing.clock import FakeClock

HIGH, MAIN = Lane(name="HIGH", threshold=50, position=0), Lane(name="MAIN", position=1)


def open_breaker(clock, *, messages):
    """Return a breaker that so many messages opened, each with one call after each pause."""
    breaker = Breaker(clock, clock)
    for number in range(max(messages, IN_A_ROW)):
        clock.advance(breaker.seconds_left)
        breaker.failed([f"m{number % messages}"])
    return breaker


def test_a_lane_below_leaves_the_try_to_a_record_that_returns():
    """It is received a moment after its return, by this slot or another; if not, the lane below may go."""
    clock = FakeClock()
    breaker = open_breaker(clock, messages=IN_A_ROW + 1)
    breaker.returns(HIGH, 30.0)

    assert breaker.seconds_left_for(HIGH) == breaker.seconds_left < 30
    assert breaker.seconds_left_for(MAIN) == 30 + COMES_WITHIN
    clock.advance(30 + COMES_WITHIN)
    assert breaker.seconds_left_for(MAIN) == 0


def test_a_resource_that_is_back_keeps_no_lane_waiting():
    """Nor at the beginning of the next outage, for a record of the one before."""
    clock = FakeClock()
    breaker = open_breaker(clock, messages=IN_A_ROW + 1)
    breaker.returns(HIGH, 3600.0)
    breaker.succeeded("m0")
    assert breaker.seconds_left_for(MAIN) == 0

    for number in range(IN_A_ROW + 1):
        breaker.failed([f"n{number}"])

    assert breaker.seconds_left_for(MAIN) == breaker.seconds_left
