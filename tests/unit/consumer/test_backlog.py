"""Backlogs as pure numbers."""

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.bell import MARGIN
from lanes.config import Lane
from lanes.consumer.engines.backlog import (
    STRANDED,
    VISIBLE_GRACE,
    HeldBacklog,
    LaneBacklog,
    VisibleBacklog,
)
from lanes.consumer.engines.check import lane_with_priority
from tests.support.records import record_with

counts = st.integers(0, 200)


def backlog(name, waiting, *, running=0, batch_size=10, maximum=100):
    lane = Lane(name=name, batch_size=batch_size, maximum_concurrency=maximum)
    return LaneBacklog(lane=lane, waiting=waiting, running=running)


def decide(loads, free):
    found = lane_with_priority(iter(loads), free_slots=lambda: free)
    return found.name if found else None


@given(waiting=counts, free=st.integers(0, 20), batch_size=st.integers(1, 10))
def test_one_lane_above_is_yielded_to_when_its_batches_outnumber_the_free_slots(waiting, free, batch_size):
    """Nothing waits, nobody yields."""
    expected = "HIGH" if math.ceil(waiting / batch_size) > free else None

    assert decide([backlog("HIGH", waiting, batch_size=batch_size)], free) == expected


@given(waits=st.lists(counts, max_size=6), free=st.integers(0, 30))
def test_several_lanes_share_the_free_slots_the_highest_first(waits, free):
    """The lane named is the first that doesn't find its slots."""
    expected, left = None, free
    for number, waiting in enumerate(waits):
        left -= math.ceil(waiting / 10)
        if left < 0 and waiting:
            expected = f"L{number}"
            break

    assert decide([backlog(f"L{number}", waiting) for number, waiting in enumerate(waits)], free) == expected


@given(waiting=counts, more=counts, free=st.integers(0, 20))
def test_more_work_above_never_lets_a_record_start(waiting, more, free):
    """The decision is monotone."""
    if decide([backlog("HIGH", waiting)], free):
        assert decide([backlog("HIGH", waiting + more)], free) == "HIGH"


@given(waiting=counts, free=st.integers(0, 20), more=st.integers(0, 20))
def test_more_free_slots_never_make_it_yield(waiting, free, more):
    """In the other direction, too."""
    if decide([backlog("HIGH", waiting)], free) is None:
        assert decide([backlog("HIGH", waiting)], free + more) is None


@pytest.mark.parametrize(("running", "needed"), [(0, 3), (1, 2), (3, 0), (5, 0)])
def test_a_lane_needs_no_more_than_its_mapping_may_start(running, needed):
    """Maximum concurrency 3, and 100 records that wait."""
    assert backlog("HIGH", 100, running=running, maximum=3).slots_needed == needed


def test_lanes_are_read_no_further_than_needed():
    """Each reading is a call, and so is asking for the free slots."""
    read = []

    def lazily():
        for name in ("HIGH", "MEDIUM"):
            read.append(name)
            yield backlog(name, 5)

    assert lane_with_priority(lazily(), free_slots=lambda: 0).name == "HIGH"
    assert read == ["HIGH"]


def test_the_free_slots_are_not_asked_for_when_nothing_waits():
    """They need a call, too."""
    assert lane_with_priority([backlog("HIGH", 0)], free_slots=lambda: int("not asked")) is None


class TestVisibleBacklog:
    """Visible records that stay visible although nothing of their lane is held can't be delivered."""

    def test_new_records_count_for_the_grace(self):
        """And not after it."""
        visible_backlog = VisibleBacklog()

        assert visible_backlog.deliverable(5, undelivered=0, now=10.0) == 5
        assert visible_backlog.deliverable(5, undelivered=0, now=10.0 + VISIBLE_GRACE - 0.01) == 5
        assert visible_backlog.deliverable(5, undelivered=0, now=10.0 + VISIBLE_GRACE) == 0

    def test_one_more_counts_again(self):
        """It is new."""
        visible_backlog = VisibleBacklog()
        visible_backlog.deliverable(5, undelivered=0, now=10.0)
        visible_backlog.deliverable(5, undelivered=0, now=12.0)

        assert visible_backlog.deliverable(6, undelivered=0, now=13.0) == 1
        assert visible_backlog.deliverable(6, undelivered=0, now=14.5) == 0

    def test_held_records_make_all_of_them_count(self):
        """The lane's mapping is stuck, so nobody can take them."""
        visible_backlog = VisibleBacklog()
        visible_backlog.deliverable(5, undelivered=0, now=10.0)
        visible_backlog.deliverable(5, undelivered=0, now=12.0)

        assert visible_backlog.deliverable(5, undelivered=1, now=13.0) == 5

    def test_behind_parked_records_none_counts(self):
        """Neither at once nor when one joins; they stay out of what waits beside held ones."""
        visible_backlog = VisibleBacklog()

        assert visible_backlog.deliverable(5, undelivered=0, now=10.0, blockable=True) == 0
        assert visible_backlog.deliverable(6, undelivered=0, now=10.1, blockable=True) == 0
        assert visible_backlog.deliverable(8, undelivered=1, now=10.2, blockable=True) == 2

    def test_what_ran_meanwhile_proves_nothing(self):
        """Its records were behind its own groups."""
        visible_backlog = VisibleBacklog()
        visible_backlog.deliverable(5, undelivered=0, now=10.0)
        visible_backlog.risen_at = 12.0

        assert visible_backlog.deliverable(5, undelivered=0, now=12.5) == 5
        assert visible_backlog.deliverable(5, undelivered=0, now=13.5) == 0

    @given(
        readings=st.lists(
            st.tuples(st.integers(0, 20), st.integers(0, 3), st.floats(0, 2)), min_size=1, max_size=30
        )
    )
    def test_it_never_counts_more_than_there_is(self, readings):
        """Nor less than nothing, and an empty queue has nothing."""
        visible_backlog, now = VisibleBacklog(), 0.0
        for backlog, held, pause in readings:
            now += pause
            fresh = visible_backlog.deliverable(backlog, undelivered=held, now=now)
            assert 0 <= fresh <= backlog

    @given(
        readings=st.lists(st.tuples(st.integers(0, 20), st.floats(0, 2)), max_size=20),
        backlog=st.integers(1, 20),
    )
    def test_what_stays_stops_counting(self, readings, backlog):
        """Whatever came before, a lane that nobody serves holds the lower ones back for a moment only."""
        visible_backlog, now = VisibleBacklog(), 0.0
        for visible, pause in readings:
            now += pause
            visible_backlog.deliverable(visible, undelivered=0, now=now)

        visible_backlog.deliverable(backlog, undelivered=0, now=now)
        visible_backlog.deliverable(backlog, undelivered=0, now=now + VISIBLE_GRACE)

        assert visible_backlog.deliverable(backlog, undelivered=0, now=now + 2 * VISIBLE_GRACE) == 0


class Held:
    """The held records of a lane with one slot, which is free for a share of the time."""

    def __init__(self, *, free=1.0):
        self.backlog = HeldBacklog()
        self.share = free
        self.now = 1_000.0

    def waiting(self, held, *, after=0.0, undeleted=0):
        """Return how many wait after some seconds."""
        self.now += after
        return self.backlog.waiting(
            held,
            undeleted=undeleted,
            now=self.now,
            free=self.now * self.share,
        )

    def serve(self, number, *, received_at):
        """Let an invocation have records."""
        records = [record_with(f"m{n}") for n in range(number)]
        self.backlog.served([dataclasses.replace(one, first_received_at=received_at) for one in records])


@pytest.mark.parametrize("free", [0.4, 1.0])
def test_held_records_wait_until_the_slot_was_free_for_long(free):
    """Time in which the slot was taken proves nothing of them."""
    held = Held(free=free)

    assert held.waiting(10) == 10
    assert held.waiting(10, after=STRANDED / free - 0.1) == 10
    assert held.waiting(10, after=0.2) == 0


def test_later_records_wait_beside_those_left_behind():
    """And are left behind in their turn."""
    held = Held()
    held.waiting(10)
    assert held.waiting(10, after=STRANDED) == 0

    assert held.waiting(13, after=1) == 3
    assert held.waiting(13, after=STRANDED) == 0


def test_served_records_were_not_left_behind():
    """A lane with a steady backlog: those of the first reading are served one after the other."""
    held = Held()
    held.waiting(20)
    for _ in range(10):
        held.serve(10, received_at=held.now - 4)
        assert held.waiting(20, after=2) == 20


def test_records_that_were_received_later_say_nothing_of_those_left_behind():
    """Single messages arrive and are served all the time; one may be undeleted at a reading."""
    held = Held()
    held.waiting(10)
    for _ in range(5):
        held.serve(1, received_at=held.now + 2 * MARGIN)
        held.waiting(9, after=2, undeleted=1)

    assert held.waiting(10, after=2) == 0
