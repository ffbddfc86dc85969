"""The rules of the bell."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.bell import (
    COALESCING,
    HEARTBEAT,
    HEARTBEAT_LIFE,
    MARGIN,
    RETENTION,
    RETURN_EVERY,
    Ring,
    groups,
    others,
    rings,
    rung_for,
    slot_of,
    stay_for,
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
    assert rings([0, 1], 1_700_000_000.9) == [
        Ring(group="slot-0", deduplication_id="slot-0-1700000000"),
        Ring(group="slot-1", deduplication_id="slot-1-1700000000"),
    ]


def test_a_send_rings_for_as_many_slots_as_it_has_messages():
    """All senders of a second for the same ones first, so that SQS drops the others' rings; the seconds take turns."""
    assert rung_for(1, range(10), 20.1) == rung_for(1, range(10), 20.9) == [0]
    assert rung_for(3, range(10), 29.0) == [9, 0, 1]
    assert rung_for(10, range(2, 5), 1.0) == [3, 4, 2]
    assert {rung_for(1, range(7), at)[0] for at in range(7)} == set(range(7))


@given(
    slots=st.integers(1, 1_000),
    slot=st.integers(0, 999),
    count=st.integers(0, 2_000),
    after=st.integers(0, 2_000),
)
def test_a_slot_rings_for_others_and_never_for_itself(slots, slot, count, after):
    """For each of them once, however many messages wait, and in turn."""
    slot %= slots
    found = others(slot, count, slots=slots, after=after)

    assert len(set(found)) == len(found) == min(count, slots - 1)
    assert slot not in found
    assert set(others(slot, slots, slots=slots)) == set(range(slots)) - {slot}


@given(slots=st.integers(1, 40), second=st.integers(0, 10**10), parts=st.tuples(PART, PART))
def test_rings_of_one_second_are_one_ring(slots, second, parts):
    """SQS drops those with the same deduplication ids; one interval later they are new."""
    early, late = (rings(range(slots), second + part / 1000) for part in parts)
    next_ones = rings(range(slots), second + parts[0] / 1000 + COALESCING)

    assert early == late
    assert not {ring.deduplication_id for ring in early} & {ring.deduplication_id for ring in next_ones}


@given(slots=st.integers(1, 3), second=st.integers(10, 10**10), sent=PART, rung=st.integers(-250, 1_250))
def test_a_slot_stays_until_the_second_of_its_ring_is_over(slots, second, sent, rung):
    """SQS's servers may date the ring by clocks that differ by the margin; no clock of a slot counts."""
    (*_, ring) = rings(range(slots), second + sent / 1000)
    rung_at = second + rung / 1000

    stay = stay_for(ring.deduplication_id, sent_at=rung_at)

    assert stay >= 0
    assert rung_at + stay >= second + COALESCING
    assert stay <= max(0.0, second + COALESCING + MARGIN - rung_at) + 1e-5


@pytest.mark.parametrize("ring", ["slot-0-50", "slot-0-200", "slot-0", "x", "", "heartbeat-"])
def test_a_ring_of_an_unknown_second_is_heard_for_a_whole_one(ring):
    """Another program may choose the id, or the clock of the one who rang may be wrong."""
    assert stay_for(ring, sent_at=100.5) == COALESCING + MARGIN


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
