"""The rules of the bell."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.bell import (
    COALESCING,
    HEARTBEAT,
    HEARTBEAT_LIFE,
    RETENTION,
    RETURN_EVERY,
    Ring,
    groups,
    rings,
    slot_of,
)

DEDUPLICATION_INTERVAL = 300
SEED_INTERVAL = 60
LONGEST_INVOCATION = 900
PART = st.integers(0, 999)


@pytest.mark.parametrize(
    "group", ["slot-abc", "slot-", "slot--1", "slot-07", "slot-1000", "slot-²", "slot-1\n", "x"]
)
def test_a_foreign_group_is_of_no_slot(group):
    """Whoever may send to the bell may choose a group; an invocation that fails would return it again and again."""
    assert slot_of(group) is None
    assert [slot_of(one) for one in groups(1_000)] == list(range(1_000))


def test_every_slot_has_its_ring():
    """A group for each, so that each may start an invocation."""
    assert rings(2, 1_700_000_000.9) == [
        Ring(group="slot-0", deduplication_id="slot-0-1700000000"),
        Ring(group="slot-1", deduplication_id="slot-1-1700000000"),
    ]


@given(slots=st.integers(1, 40), second=st.integers(0, 10**10), parts=st.tuples(PART, PART))
def test_rings_of_one_second_are_one_ring(slots, second, parts):
    """SQS drops those with the same deduplication ids; one interval later they are new."""
    early, late = (rings(slots, second + part / 1000) for part in parts)
    next_ones = rings(slots, second + parts[0] / 1000 + COALESCING)

    assert early == late
    assert not {ring.deduplication_id for ring in early} & {ring.deduplication_id for ring in next_ones}


def test_a_group_names_its_slot():
    """The heartbeat has a group of its own, which names none."""
    assert [slot_of(group) for group in groups(3)] == [0, 1, 2]
    assert slot_of(HEARTBEAT) is None


def test_a_heartbeat_that_is_let_go_has_a_successor():
    """The rule sends one a minute, and SQS accepts the first that is sent after the deduplication interval."""
    assert DEDUPLICATION_INTERVAL + SEED_INTERVAL < HEARTBEAT_LIFE


def test_a_ring_is_kept_for_longer_than_it_can_wait():
    """Behind the longest invocation that AWS allows, or for a heartbeat's whole life."""
    assert max(LONGEST_INVOCATION, HEARTBEAT_LIFE) + RETURN_EVERY < RETENTION
