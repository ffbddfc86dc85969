"""Delays: whole seconds within the bounds of the lane and of SQS."""

import math
from datetime import timedelta
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lanes.config import ConsumerSettings, Lane
from lanes.config.settings import MAX_RECEIVES
from lanes.consumer.outcome import Delays, outage_floor, receive_floor, shortest_delay, soon
from tests.support.records import record_with

HOURS_12 = 12 * 3600
DAY = 24 * 3600
seconds = st.floats(min_value=1, max_value=HOURS_12).map(lambda value: timedelta(seconds=value))


def lane_with(low=5.0, high=15.0, visibility=180.0):
    return Lane(
        name="MAIN",
        yield_delay_min=timedelta(seconds=low),
        yield_delay_max=timedelta(seconds=high),
        visibility_timeout=timedelta(seconds=visibility),
    )


def yield_delay(lane, *, receive_count=1, random):
    record = record_with("m", receive_count=receive_count)
    return Delays(ConsumerSettings(), random).after_yield(lane, [record]).delay


@given(low=st.floats(1, 300), width=st.floats(0, 300), seed=st.integers(0, 100))
@example(low=1.0000000000000002, width=0, seed=0)
def test_a_yield_delay_stays_within_the_bounds_of_its_lane(low, width, seed):
    """As far as whole seconds fit between them; else it is the next one above."""
    lane = lane_with(low, low + width)

    delay = yield_delay(lane, random=Random(seed))

    # A timedelta has whole microseconds, so the lane's bounds are not quite those drawn.
    least, most = lane.yield_delay_min.total_seconds(), lane.yield_delay_max.total_seconds()
    assert math.ceil(least) <= delay <= max(math.floor(most), math.ceil(least))


def test_yield_delays_are_spread():
    """Batches that yielded together return apart."""
    random = Random(1)

    found = {yield_delay(lane_with(), random=random) for _ in range(200)}

    assert len(found) >= 8


@given(st.integers(1, 1000))
def test_the_floor_grows_with_the_receive_count(receive_count):
    """A yield that would come too soon waits for the floor."""
    delay = yield_delay(lane_with(), receive_count=receive_count, random=Random(1))

    assert delay >= receive_floor(receive_count)


def test_a_thousand_receives_outlast_any_retention():
    """AWS: a message lives 14 days at most, so yields and outages in any order never reach the last receive."""
    total = sum(min(receive_floor(count), outage_floor(count)) for count in range(1, 1000))

    assert total > 14 * 24 * 3600


@given(receives=st.integers(1, 500))
@example(receives=500)
def test_for_eight_hours_of_an_outage_a_message_is_back_a_minute_after_its_end(receives):
    """However often it was received: then the most urgent goes first. That takes eight hours for 500 receives."""
    delays, record = Delays(ConsumerSettings(), Random(1)), record_with("m", receive_count=receives)

    assert delays.untouched(lane_with(), record, 1.0) <= 60
    assert delays.while_unknown(lane_with(), record, waited=1.0, left=DAY) <= 60
    assert sum(outage_floor(count) for count in range(1, 601)) > 8 * 3600


@pytest.mark.parametrize(
    "delay_of",
    [
        lambda delays, record: delays.after_error(lane_with(), record),
        lambda delays, record: delays.after_yield(lane_with(), [record]).delay,
        lambda _delays, record: soon(record),
        lambda _delays, record: shortest_delay([record]),
    ],
)
def test_a_call_that_fails_for_a_day_costs_fewer_receives_than_sqs_allows(delay_of):
    """Each return waits longer than the one before, after some."""
    delays, now, receives = Delays(ConsumerSettings(), Random(1)), 0.0, 1

    while now < DAY:
        # An invocation takes its time as well; a record that returns at once is received again after it.
        now += max(1.0, delay_of(delays, record_with("m", receive_count=receives)))
        receives += 1

    assert receives < 0.6 * MAX_RECEIVES


@given(attempt=st.integers(1, 10_000), seed=st.integers(0, 100))
def test_a_backoff_is_at_most_the_cap_and_at_least_three_quarters_of_the_full_one(attempt, seed):
    """No attempt number overflows."""
    settings = ConsumerSettings()

    delay = Delays(settings, Random(seed)).after_failure(lane_with(), attempt=attempt)

    full = min(900, 2 * 2 ** min(attempt - 1, 40))
    assert math.floor(full * 0.75) <= delay <= math.ceil(full)


@given(after=st.integers(0, 10**9), visibility=st.integers(60, HOURS_12))
def test_what_a_handler_asks_for_is_cut_to_what_sqs_can_do(after, visibility):
    """AWS: twelve hours from the receive."""
    delay = Delays(ConsumerSettings(), Random(1)).asked(
        lane_with(visibility=visibility), timedelta(seconds=after)
    )

    assert min(after, 60) <= delay <= HOURS_12


@given(visibility=st.integers(60, HOURS_12))
def test_a_long_visibility_timeout_leaves_room_for_every_delay(visibility):
    """A yield stays a yield, not a return at once, in a lane whose visibility timeout is the longest there is."""
    delay = yield_delay(lane_with(visibility=visibility), random=Random(1))

    assert delay >= 5
