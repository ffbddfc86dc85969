"""The relay's decisions."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.config import LanesConfig, OutboxSettings
from lanes.outbox.entry import EntryState, Positions
from lanes.outbox.rules import (
    Candidate,
    LaneShare,
    choose,
    joined,
    lane_shares,
    next_pause,
    parked,
    refused,
    retry_delay,
    returned,
)
from lanes.testing.clock import START
from tests.support.outbox import new_outbox

SETTINGS = OutboxSettings()


@pytest.mark.parametrize(("attempts", "seconds"), [(1, 60), (2, 120), (3, 240), (10, 3600), (1000, 3600)])
def test_waits_double_up_to_the_cap(attempts, seconds):
    """Base, factor and cap of the settings."""
    assert retry_delay(SETTINGS, attempts, 0.5) == timedelta(seconds=seconds)


@given(attempts=st.integers(1, 200), chance=st.floats(0, 1))
def test_jitter_stays_within_its_share(attempts, chance):
    """A quarter less to a quarter more."""
    plain = retry_delay(SETTINGS, attempts, 0.5)

    assert plain * 0.75 <= retry_delay(SETTINGS, attempts, chance) <= plain * 1.25


def test_neighbouring_shares_without_a_limit_are_read_at_once():
    """A lane with a window is read alone, up to its limit."""

    def share(lane, lowest, highest, limit=None):
        return LaneShare(lane=lane, lowest=lowest, highest=highest, limit=limit)

    shares = [share("A", 90, None), share("B", 50, 89), share("C", 0, 49, 3), share("D", None, -1)]

    assert joined(shares) == [share("A", 50, None), share("C", 0, 49, 3), share("D", None, -1)]


@given(priority=st.integers(-1000, 1000), enabled=st.booleans())
def test_every_priority_belongs_to_exactly_one_share(priority, enabled):
    """The ranges leave no gap and are those of the lanes."""
    config = LanesConfig(enabled=enabled)
    found = [
        share.lane
        for share in lane_shares(config)
        if (share.lowest is None or share.lowest <= priority)
        and (share.highest is None or priority <= share.highest)
    ]

    assert found == [config.lane_for(priority).name]


def test_a_full_lane_has_no_room():
    """Never less than none."""
    shares = {share.lane: share.limit for share in lane_shares(LanesConfig(), {"HIGH": 5, "MAIN": -3})}

    assert shares == {"HIGH": 5, "MEDIUM": None, "MAIN": 0}


@pytest.mark.parametrize(
    ("behind", "claimed"),
    [
        ({"a": None, "b": None}, ["a", "b"]),
        ({"a1": None, "a2": "a1"}, ["a1", "a2"]),
        ({"a2": "a1", "a1": None}, ["a1"]),
        ({"a2": "a1", "b": None}, ["b"]),
        ({"a1": None, "a3": "a2"}, ["a1"]),
        ({"a1": None, "a3": "a2", "a4": "a3"}, ["a1"]),
        ({"a1": "a1", "b1": None}, ["b1"]),
    ],
    ids=["no groups", "in order", "out of order", "behind a held one", "a gap", "behind a gap", "gone"],
)
def test_a_group_is_claimed_from_its_beginning_without_a_gap(behind, claimed):
    """Everything else is blocked."""
    choice = choose(Candidate(id=one, chain="c", behind=before) for one, before in behind.items())

    assert [one.id for one in choice.claimed] == claimed
    assert [one.id for one in choice.blocked] == [one for one in behind if one not in claimed]


def test_the_last_attempt_abandons():
    """With three attempts the third failure is the end."""
    entry = new_outbox().prepare("k", None)
    states = []
    for attempts in range(3):
        mark = refused(replace(entry, attempts=attempts), SETTINGS, now=START, reason="why", chance=0.5)
        states.append((mark.state, mark.attempts))

    assert states == [(EntryState.FAILED, 1), (EntryState.FAILED, 2), (EntryState.ABANDONED, 3)]


def test_an_abandoned_entry_of_a_group_holds_it_where_you_choose_so():
    """And is kept without an end; one without a group has nothing to hold."""
    settings = OutboxSettings(on_abandoned="hold", max_attempts=1)
    marks = [
        refused(new_outbox().prepare("k", None, group=group), settings, now=START, reason="why", chance=0.5)
        for group in ("g", None)
    ]

    assert [(mark.leaves_chain, mark.expires_at is None) for mark in marks] == [(False, True), (True, False)]


@pytest.mark.parametrize(("attempts", "state"), [(0, EntryState.PENDING), (2, EntryState.FAILED)])
def test_a_returned_entry_keeps_its_attempts(attempts, state):
    """The failure of another message, or of its lane, is none of its own."""
    entry = replace(new_outbox().prepare("k", None), attempts=attempts)

    for mark in (returned(entry), parked(entry, SETTINGS, now=START)):
        assert (mark.state, mark.attempts, mark.leaves_chain) == (state, attempts, False)


def test_an_idle_relay_asks_less_and_less_often():
    """From milliseconds up to the tick."""
    pauses = [next_pause(None, SETTINGS.tick)]
    while pauses[-1] < SETTINGS.tick:
        pauses.append(next_pause(pauses[-1], SETTINGS.tick))

    assert pauses[0] == timedelta(milliseconds=20)
    assert len(pauses) == 7
    assert next_pause(SETTINGS.tick, SETTINGS.tick) == SETTINGS.tick


def test_positions_differ_within_one_moment():
    """Entries of one transaction keep the order in which they were added."""
    positions = Positions(lambda: START)
    given_out = [positions.next() for _ in range(5)]

    assert given_out == sorted(set(given_out))
