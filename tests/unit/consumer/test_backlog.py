"""Backlogs as pure numbers."""

import dataclasses

import pytest

from lanes.bell import MARGIN
from lanes.consumer.engines.backlog import (
    STRANDED,
    VISIBLE_GRACE,
    HeldBacklog,
    VisibleBacklog,
)
from tests.support.memory import record_with


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
