"""The relay's decisions."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.config import OutboxSettings
from lanes.outbox.entry import Positions
from lanes.outbox.rules import LaneShare, joined, retry_delay
from lanes.testing.clock import START

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


def test_positions_differ_within_one_moment():
    """Entries of one transaction keep the order in which they were added."""
    positions = Positions(lambda: START)
    given_out = [positions.next() for _ in range(5)]

    assert given_out == sorted(set(given_out))
