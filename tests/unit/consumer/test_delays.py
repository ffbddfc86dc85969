"""Delays: whole seconds within the bounds of the lane and of SQS."""

from datetime import timedelta
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lanes.config import ConsumerSettings, Lane
from lanes.config.settings import MAX_RECEIVES
from lanes.consumer.outcome import Delays, outage_floor, receive_floor, shortest_delay, soon
from tests.support.memory import record_with

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


def test_a_thousand_receives_outlast_any_retention():
    """AWS: a message lives 14 days at most, so yields and outages in any order never reach the last receive."""
    total = sum(min(receive_floor(count), outage_floor(count)) for count in range(1, 1000))

    assert total > 14 * 24 * 3600


@given(receives=st.integers(1, 500))
@example(receives=500)
def test_for_five_hours_of_an_outage_a_message_is_back_a_minute_after_its_end(receives):
    """However often it was received: then the most urgent goes first. That takes five hours for 500 receives."""
    delays, record = Delays(ConsumerSettings(), Random(1)), record_with("m", receive_count=receives)

    assert delays.untouched(lane_with(), record, 1.0) <= 60
    assert delays.while_unknown(lane_with(), record, waited=1.0, left=DAY) <= 60
    assert sum(outage_floor(count) for count in range(1, 501)) >= 5 * 3600
    assert outage_floor(200) == 0


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


@given(visibility=st.integers(60, HOURS_12))
def test_a_long_visibility_timeout_leaves_room_for_every_delay(visibility):
    """A yield stays a yield, not a return at once, in a lane whose visibility timeout is the longest there is."""
    delay = yield_delay(lane_with(visibility=visibility), random=Random(1))

    assert delay >= 5
