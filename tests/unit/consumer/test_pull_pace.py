"""The pace of a slot: how many records it receives at once, and when it looks at other lanes."""

import pytest

from lanes.config import LanesConfig
from lanes.consumer.engines.pace import FRESH, LONG_RECORD, TRIES, Pace
from tests.support.memory import record_with

PLENTY = 600.0


def pace_with(slots):
    """Return a new environment's pace, and its lanes."""
    consumer = {"engine": "pull", "reserved_concurrency": slots, "recheck_interval": "250ms"}
    config = LanesConfig.from_dict({"consumer": consumer})
    return Pace(config.consumer), config.lanes


def records(count, group=None):
    """Return records of one group, or each of its own."""
    return [record_with(f"m{number}", group=group or f"g{number}") for number in range(count)]


@pytest.mark.parametrize(("slots", "first", "later"), [(1, 10, 10), (3, 1, 1), (10, 1, 1), (30, 1, 1)])
def test_receives_leave_something_for_each_slot(slots, first, later):
    """Urgent records are spread over the slots, above all while it is not known how long they take."""
    pace, lanes = pace_with(slots)

    assert pace.most(lanes[0], seconds_left=PLENTY) == first
    pace.worked(lanes[0], 0.3)
    assert pace.most(lanes[0], seconds_left=PLENTY) == later


@pytest.mark.parametrize(
    ("seconds", "most"), [(0.001, 10), (0.05, 4), (0.15, 2), (0.5, 1), (1.0, 1), (30.0, 1)]
)
@pytest.mark.parametrize("slots", [2, 10])
def test_short_records_are_received_together(slots, seconds, most):
    """About 200 ms of work at any number of slots from two on; calls stay a small share."""
    pace, lanes = pace_with(slots)
    for _ in range(50):
        pace.worked(lanes[0], seconds)

    assert pace.most(lanes[0], seconds_left=PLENTY) == most


@pytest.mark.parametrize(("longest", "most"), [(0.02, 10), (0.1, 7), (0.19, 3), (0.3, 1)])
def test_a_receive_has_room_for_the_longest_record(longest, most):
    """It may be the first one, and no other slot could take those behind it."""
    pace, lanes = pace_with(10)
    for seconds in (0.02, longest, *[0.02] * 20):
        pace.worked(lanes[0], seconds)

    assert pace.most(lanes[0], seconds_left=PLENTY) == most


def test_receives_grow_with_the_records_that_are_known():
    """The first one tells nothing: it may have opened connections."""
    pace, lanes = pace_with(3)
    found = []
    for _ in range(6):
        pace.worked(lanes[0], 0.02)
        found.append(pace.most(lanes[0], seconds_left=PLENTY))

    assert found == [1, 1, 2, 3, 4, 5]


def test_brief_records_are_received_by_their_typical_time():
    """A receive for each would take much of the slot's time; what waits behind a long one returns beside it."""
    pace, lanes = pace_with(3)
    pace.looked(0.02)
    for seconds in [0.03] * 20 + [0.3] + [0.03] * 20:
        pace.worked(lanes[0], seconds)

    assert pace.most(lanes[0], seconds_left=PLENTY) == 7
    assert pace.is_even(lanes[0])


@pytest.mark.parametrize(
    ("slots", "seconds", "even"),
    [
        (3, [0.1] * 10, True),
        (3, [*[0.1] * 10, 0.5], False),
        (3, [*[0.01] * 10, 0.15], True),
        (1, [0.1, 0.9], True),
    ],
    ids=["even", "uneven", "short", "one slot"],
)
def test_a_look_ends_with_records_that_take_about_the_same_time(slots, seconds, even):
    """What it finds would wait in hand for a longer one, while other slots are free."""
    pace, lanes = pace_with(slots)
    for one in seconds:
        pace.worked(lanes[0], one)

    assert pace.is_even(lanes[0]) == even


@pytest.mark.parametrize(
    ("lane", "count", "full", "plenty"),
    [(-1, 10, True, True), (-1, 4, False, False), (-1, 1, True, False), (0, 10, True, False)],
)
def test_only_a_deep_last_lane_has_plenty(lane, count, full, plenty):
    """
    Its records may wait in hand: other slots would take the next ones all the same.

    A single one that was asked for may be the only one: it waited eight seconds behind a long record.
    """
    pace, lanes = pace_with(3)
    pace.received(lanes[lane], records(count), is_full=full)

    assert pace.is_plenty(lanes[lane]) == plenty


def test_records_of_a_lane_with_a_long_one_are_received_alone():
    """The next long one can not be foreseen, and those behind it would wait although other slots are free."""
    pace, lanes = pace_with(10)
    for seconds in (*[0.1] * 9, 3.0, *[0.1] * 200):
        pace.worked(lanes[0], seconds)

    assert pace.most(lanes[0], seconds_left=PLENTY) == 1


def test_long_records_are_received_alone_at_one_slot_too():
    """The second would wait behind the first, invisible to all."""
    pace, lanes = pace_with(1)
    pace.worked(lanes[0], 2.0)

    assert pace.most(lanes[0], seconds_left=PLENTY) == 1


@pytest.mark.parametrize("slots", [1, 3])
def test_a_clock_that_is_set_back_during_a_record_leaves_a_receive_that_sqs_accepts(slots):
    """It asks for one record at least: none is an error, which repeats until a record of the lane is handled."""
    pace, lanes = pace_with(slots)
    pace.worked(lanes[0], -3600.0)
    pace.looked(-3600.0)

    assert pace.most(lanes[0], seconds_left=PLENTY) >= 1
    assert pace.look_in(lanes[0], lanes=lanes[:1]) == 0.0


def test_no_more_records_than_the_time_that_is_left_allows():
    """The others would go back."""
    pace, lanes = pace_with(1)
    pace.worked(lanes[0], 0.5)

    assert pace.most(lanes[0], seconds_left=1.7) == 3
    assert pace.most(lanes[0], seconds_left=0.1) == 1


def test_a_chain_is_received_further_each_time():
    """One group can be served by one slot only: twice as many records with each receive."""
    pace, lanes = pace_with(10)
    pace.worked(lanes[0], 0.3)
    asked = []
    for _ in range(6):
        asked.append(pace.most(lanes[0], seconds_left=PLENTY))
        pace.received(lanes[0], records(asked[-1], group="chain"), is_full=True)

    assert asked == [1, 1, 2, 4, 8, 10]
    assert pace.is_chain(lanes[0])
    pace.received(lanes[0], records(10), is_full=True)
    assert pace.most(lanes[0], seconds_left=PLENTY) == 1


def test_two_groups_in_turn_are_chains_too():
    """Asked for one record each, a slot would hold two groups in turn for good, while another finds none."""
    pace, lanes = pace_with(10)
    pace.worked(lanes[0], 0.3)
    for group in ("a", "b", "a"):
        pace.received(lanes[0], records(1, group=group), is_full=True)

    assert pace.most(lanes[0], seconds_left=PLENTY) == 2


def test_the_last_lane_is_received_ten_at_a_time_while_it_is_deep():
    """Nothing has to wait behind its records."""
    pace, lanes = pace_with(10)
    high, low = lanes[0], lanes[-1]
    for lane in (high, low):
        pace.worked(lane, 0.3)
        pace.received(lane, records(1), is_full=True)

    assert pace.most(high, seconds_left=PLENTY) == 1
    assert pace.most(low, seconds_left=PLENTY) == 10
    pace.received(low, records(4), is_full=False)
    assert pace.most(low, seconds_left=PLENTY) == 1


def test_a_look_is_stale_when_the_record_would_end_after_the_recheck_interval():
    """A long record is preceded by a look that counts as taken now; below the highest lane only long ones are."""
    pace, lanes = pace_with(1)
    high, medium = lanes[0], lanes[1]

    assert not pace.is_stale(high, 0.12, expected=0.001)
    assert pace.is_stale(high, 0.13, expected=0.001)
    assert not pace.is_stale(high, 0.14, expected=0.1)
    assert pace.is_stale(high, 0.16, expected=0.1)
    assert not pace.is_stale(medium, 0.2, expected=0.1)
    for lane in (high, medium):
        assert not pace.is_stale(lane, FRESH, expected=30.0)
        assert pace.is_stale(lane, FRESH + 0.01, expected=30.0)
        assert pace.is_stale(lane, 0.26, expected=0.0)


def test_a_look_from_a_moment_to_come_is_stale():
    """Its age is unknown: the clock was set back since."""
    pace, lanes = pace_with(1)

    assert all(pace.is_stale(lane, -3600.0, expected=0.0) for lane in lanes)


def test_a_look_beside_a_record_ends_with_it():
    """By the times of records and of looks."""
    pace, lanes = pace_with(1)
    pace.worked(lanes[0], 0.5)
    pace.looked(0.01)

    assert pace.look_in(lanes[0], lanes=lanes[:2]) == pytest.approx(0.48)
    assert pace.look_in(lanes[0], lanes=lanes * 20) == 0.0


def test_nothing_is_received_beside_records_that_may_take_far_longer():
    """Their end is not known, and a received record would wait for it."""
    pace, lanes = pace_with(1)
    for _ in range(30):
        pace.worked(lanes[0], 0.1)
    assert pace.is_short(lanes[0])

    pace.worked(lanes[0], 20.0)
    for _ in range(30):
        pace.worked(lanes[0], 0.1)

    assert not pace.is_short(lanes[0])


def test_a_slow_first_record_is_forgotten():
    """It may have opened connections; without this, the lane would be received record by record for good."""
    pace, lanes = pace_with(3)
    pace.worked(lanes[0], 1.5)
    for _ in range(100):
        pace.worked(lanes[0], 0.02)

    assert pace.is_short(lanes[0])
    assert pace.most(lanes[0], seconds_left=PLENTY) == 10


def test_a_lane_that_was_deep_is_asked_again_before_it_counts_as_empty():
    """AWS: a short poll asks some of a queue's servers only. The look beside a record begins early enough for it."""
    pace, lanes = pace_with(3)
    pace.worked(lanes[0], 0.5)
    pace.looked(0.01)
    assert pace.tries(lanes[0]) == 1
    pace.received(lanes[0], records(4), is_full=True)
    assert pace.tries(lanes[0]) == 2
    assert pace.look_in(lanes[0], lanes=lanes[:2]) == pytest.approx(0.47)

    pace.received(lanes[0], [], is_full=False)

    assert pace.tries(lanes[0]) == 1


def test_a_chain_is_asked_once():
    """The next records of its group are blocked, so that none are there."""
    pace, lanes = pace_with(1)

    pace.received(lanes[0], records(10, group="chain"), is_full=True)

    assert pace.tries(lanes[0]) == 1


def test_polls_that_miss_messages_are_repeated_more_often():
    """Until the queues are no longer found to miss any; a lane that may be empty is polled once."""
    pace, lanes = pace_with(3)
    pace.received(lanes[0], records(4), is_full=True)
    tries = []
    for found in (True, False, True, *[False] * 4, *[False] * 20):
        pace.asked_again(lanes[0], found=found)
        tries.append((pace.tries(lanes[0]), pace.tries(lanes[1])))

    assert tries[:2] == [(2, 1)] * 2
    assert tries[2:5] == [(TRIES, 1)] * 3
    assert tries[-1] == (2, 1)


def test_a_deep_chain_is_not_taken_for_empty_where_polls_miss_messages():
    """A lower lane would be served before it."""
    pace, lanes = pace_with(1)
    for group in (None, "chain"):
        pace.received(lanes[0], records(10, group=group), is_full=True)
        for _ in range(2):
            pace.asked_again(lanes[0], found=True)

    assert pace.tries(lanes[0]) == TRIES


def test_polls_that_missed_messages_for_long_are_forgotten_as_soon_as_others():
    """An hour of them is no reason to pay for polls all day."""
    pace, lanes = pace_with(3)
    pace.received(lanes[0], records(4), is_full=True)
    for _ in range(10_000):
        pace.asked_again(lanes[0], found=True)

    for _ in range(TRIES):
        pace.asked_again(lanes[0], found=False)

    assert pace.tries(lanes[0]) == 2


def test_empty_polls_of_a_lane_that_may_be_empty_prove_nothing():
    """Only where more records must be there."""
    pace, lanes = pace_with(3)
    pace.received(lanes[0], records(4), is_full=True)
    for _ in range(2):
        pace.asked_again(lanes[0], found=True)

    for _ in range(100):
        pace.asked_again(lanes[1], found=False)

    assert pace.tries(lanes[0]) == TRIES


def test_a_record_of_a_second_is_long():
    """The same bound for received letters and for those given back meanwhile."""
    pace, lanes = pace_with(1)
    pace.worked(lanes[0], LONG_RECORD)

    assert not pace.is_short(lanes[0])
    assert pace.most(lanes[0], seconds_left=PLENTY) == 1
