"""The other policies decide what they say and nothing else, and one that beats ours is found."""

import dataclasses
import functools
from collections import Counter
from random import Random

import pytest

from benchmarks.policies import OURS, Played, better_in_both
from benchmarks.scenarios import ROOM, Load, meet
from benchmarks.turns import Claim, HeadStart, InLineAlone, KeptForTop, Lottery, PolicyLanes, Strict
from simulator.parameters import Unknowns
from simulator.world import Pattern, SimulatedLanes

PLAYED = Played(
    high_p50=1.0,
    high_p99=4.0,
    medium_p99=10.0,
    main_longest=100.0,
    work=0.95,
    yields=0.0,
    calls=7.0,
    dollars=4.0,
)


def claim(position, *, since=0.0, sent_at=0.0):
    """Return a batch of a lane that came and was sent at these times."""
    return Claim(position=position, since=since, sent_at=sent_at)


def play(*, slots, make=SimulatedLanes):
    """Play bursts over a backlog for half a minute."""
    return meet(
        Load(seconds=30, groups=20 * slots),
        slots=slots,
        pattern=Pattern.LANES,
        raw=ROOM,
        unknowns=Unknowns(),
        seed=1,
        make=make,
    )


def most_below_the_top(lanes):
    """Return how many records of lower lanes were handled at once at most."""
    below = [one for one in lanes.handled if one.lane != "HIGH"]
    changes = sorted([(one.started_at, 1) for one in below] + [(one.finished_at, -1) for one in below])
    most = now = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


@pytest.mark.parametrize("slots", [1, 3])
def test_our_own_order_through_a_policy_changes_nothing(slots):
    """Record by record and call by call: what another policy changes is its own doing."""
    ours = play(slots=slots)
    same = play(slots=slots, make=functools.partial(PolicyLanes, policy=Strict()))

    assert list(same.handled) == list(ours.handled)
    assert same.calls.counts == ours.calls.counts


def test_a_kept_slot_is_never_the_lower_lanes():
    """They have it in our own order."""
    kept = play(slots=3, make=functools.partial(PolicyLanes, policy=KeptForTop()))

    assert most_below_the_top(kept) == 2
    assert most_below_the_top(play(slots=3)) == 3


def test_in_line_alone_nobody_makes_way():
    """While the order in line is ours."""
    ours, other = Strict(), InLineAlone()
    high, main = claim(0, since=9.0), claim(2, since=1.0)

    assert ours.makes_way(main, high)
    assert not other.makes_way(main, high)
    assert other.turn(high) < other.turn(main)


def test_lots_are_drawn_by_tickets():
    """The first of three lanes comes by its share of all of them."""
    lottery = Lottery((12, 5, 3), chance=Random(1))
    firsts = Counter()
    for _ in range(5_000):
        lottery.draw()
        firsts[min((0, 1, 2), key=lambda position: lottery.turn(claim(position)))] += 1

    shares = [firsts[position] / 5_000 for position in (0, 1, 2)]
    assert shares == pytest.approx([0.6, 0.25, 0.15], abs=0.03)


def test_a_head_start_is_worth_its_seconds():
    """A message of a lower lane goes first once it is older by more."""
    ahead = HeadStart((120.0, 90.0, 0.0))

    assert ahead.makes_way(claim(2, sent_at=0.0), claim(0, sent_at=119.0))
    assert not ahead.makes_way(claim(2, sent_at=0.0), claim(0, sent_at=121.0))


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"high_p99": 3.0, "work": 0.99}, ["other"]),
        ({"high_p99": 3.0, "work": 0.95}, []),
        ({"high_p99": 4.0, "work": 0.99}, []),
        ({"high_p99": 3.99, "work": 0.951}, []),
    ],
)
def test_a_policy_that_is_better_in_both_is_found(changes, found):
    """By more than chance may give, and not one that pays for the one with the other."""
    assert better_in_both({OURS: PLAYED, "other": dataclasses.replace(PLAYED, **changes)}) == found
