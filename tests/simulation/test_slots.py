"""The deployed consumer behind mappings in virtual time, with one slot and with several, beside the plain pattern."""

from __future__ import annotations

from bisect import bisect_right
from functools import cache
from random import Random

import pytest

from lanes.config import LanesConfig
from simulator.parameters import Unknowns
from simulator.simulated_lanes import Pattern, SimulatedLanes

WORK = 0.2
LOAD = 0.6
BURST = 20


def flooded(pattern, slots, *, seed=1, fault=""):
    """Lanes with a MAIN backlog, bursts of HIGH and a trickle of MEDIUM; run until everything is handled."""
    lanes = SimulatedLanes(
        LanesConfig.from_dict({"consumer": {"reserved_concurrency": slots}}), pattern=pattern, seed=seed
    )
    chance = Random(seed)
    backlog = 100 * (slots + 1)
    for number in range(backlog):
        lanes.send(
            "MAIN", group=f"m{number % (20 * slots)}", seconds=WORK, fault=fault if number % 50 == 7 else ""
        )
    span = backlog * WORK / slots / (1 - LOAD)
    rate = LOAD * slots / WORK
    schedule(lanes, chance, "HIGH", first=1.0, span=span, rate=rate * 0.8 / BURST, burst=BURST)
    schedule(lanes, chance, "MEDIUM", first=0.5, span=span, rate=rate * 0.2, burst=1)
    lanes.run(seconds=span)
    assert lanes.run(seconds=3_600, until=lambda: len(lanes.handled) + lanes.dead >= lanes.sent)
    return lanes


def schedule(lanes, chance, lane, *, first, span, rate, burst):
    moment = first
    while moment < span:
        for _ in range(burst):
            group = f"{lane}{chance.randrange(500)}"
            lanes.scheduler.after(moment, lambda group=group: lanes.send(lane, group=group, seconds=WORK))
        moment += chance.expovariate(rate)


@cache
def run(pattern, slots):
    return flooded(pattern, slots)


def longest_wait(lanes, lane):
    return max(one.started_at - one.sent_at for one in lanes.handled if one.lane == lane)


def duration(lanes):
    return max(one.finished_at for one in lanes.handled) - min(one.sent_at for one in lanes.handled)


@pytest.mark.parametrize("slots", [1, 3, 10])
def test_every_message_is_handled_once_and_in_the_order_of_its_group(slots):
    """At any number of slots, under yields, parking and waking."""
    lanes = run(Pattern.LANES, slots)

    # With twice as many slots as lanes an invocation serves the lanes above itself.
    assert (lanes.tally.counts["YieldedMessages"] > 0) is (slots < 6)
    assert len(lanes.handled) == lanes.sent
    for lane in ("HIGH", "MEDIUM", "MAIN"):
        last = {}
        for one in (one for one in lanes.handled if one.lane == lane):
            assert one.number == last.get(one.group, 0) + 1
            last[one.group] = one.number


@pytest.mark.parametrize("slots", [1, 3, 10])
def test_high_overtakes_a_backlog(slots):
    """Its longest wait is a fraction of that without priority."""
    assert (
        longest_wait(run(Pattern.LANES, slots), "HIGH") < longest_wait(run(Pattern.NONE, slots), "HIGH") / 3
    )


@pytest.mark.parametrize("slots", [1, 3, 10])
def test_priority_costs_little_of_the_whole(slots):
    """
    The plain pattern parks for whole visibility timeouts; this one wakes, and is done nearly as soon as without.

    At one slot the plain pattern gives some messages up, so it is done sooner than with all of them.
    """
    without = duration(run(Pattern.NONE, slots))

    assert duration(run(Pattern.LANES, slots)) < 1.4 * without
    assert duration(run(Pattern.PLAIN, slots)) > 1.7 * without


@pytest.mark.parametrize("slots", [1, 3])
def test_failures_among_them_change_neither_order_nor_count(slots):
    """Some messages fail once; they return after their backoff, before the later ones of their group."""
    lanes = flooded(Pattern.LANES, slots, seed=2, fault="once")

    assert lanes.tally.counts["FailedAttempts"] > 0
    assert len(lanes.handled) == lanes.sent
    last = {}
    for one in (one for one in lanes.handled if one.lane == "MAIN"):
        assert one.number == last.get(one.group, 0) + 1
        last[one.group] = one.number


def test_a_run_is_decided_by_its_seed():
    """The same seed gives the same run, another seed another one."""
    first, again, other = (flooded(Pattern.LANES, 3, seed=seed) for seed in (5, 5, 6))

    assert [one.started_at for one in first.handled] == [one.started_at for one in again.handled]
    assert [one.started_at for one in first.handled] != [one.started_at for one in other.handled]


def with_a_failing_message(slots, *, behind):
    """Seconds until a MAIN backlog is done below a HIGH message that fails again and again; others join its group."""
    raw = {"consumer": {"reserved_concurrency": slots, "max_attempts": 12, "backoff_max": 30}}
    lanes = SimulatedLanes(LanesConfig.from_dict(raw))
    began = lanes.scheduler.now
    lanes.send("HIGH", group="failing", seconds=0.01, fault="always")
    for number in range(behind):
        lanes.scheduler.after(number * 0.5, lambda: lanes.send("HIGH", group="failing", seconds=0.0))
    backlog = 150 * slots
    for number in range(backlog):
        lanes.send("MAIN", group=f"m{number % 40}", seconds=WORK)
    assert lanes.run(seconds=3_600, until=lambda: len(lanes.handled) >= backlog)
    return lanes.scheduler.now - began


@pytest.mark.parametrize("slots", [1, 3])
def test_messages_behind_a_failing_one_cost_the_lower_lanes_little(slots):
    """Two join its group each second, visible and not deliverable; an attempt brings ten of them along."""
    assert with_a_failing_message(slots, behind=200) < 1.2 * with_a_failing_message(slots, behind=0)


RECHECK, FRESH = 0.25, 0.05


def lanes_of(slots):
    config = LanesConfig.from_dict({"consumer": {"reserved_concurrency": slots}})
    return SimulatedLanes(config, unknowns=Unknowns(cold_start=0.0))


def readings_of(lanes):
    """Return the list that the moments of all further readings are added to."""
    moments, takes = [], lanes.calls.takes

    def recorded(operation):
        if operation in {"GetQueueAttributes", "GetItem", "UpdateItem"}:
            moments.append(lanes.scheduler.now)
        takes(operation)

    lanes.calls.takes = recorded
    return moments


@pytest.mark.parametrize("takes", [(0.02, 0.04), (0.1, 0.3), (0.5, 2.0), (0.01, 4.0)])
@pytest.mark.parametrize("slots", [1, 3])
def test_no_record_begins_with_an_older_reading_than_allowed(slots, takes):
    """At most the recheck interval before a short record, and a fresh one before a long one."""
    lanes, chance = lanes_of(slots), Random(7)
    moments = readings_of(lanes)
    for number in range(120):
        lanes.send("MAIN", group=f"g{number % 6}", seconds=chance.uniform(*takes))
    assert lanes.settle(within=10_000)

    began = sorted(one.started_at for one in lanes.handled)
    ages = [moment - moments[bisect_right(moments, moment) - 1] for moment in began]

    assert len(ages) == 120
    assert max(ages) <= RECHECK + 1e-6
    if slots == 1 and takes[0] > RECHECK:
        assert max(ages[1:]) <= FRESH + 1e-6


@pytest.mark.parametrize("arrives", [0.05, 0.5, 1.0, 1.5, 1.9])
@pytest.mark.parametrize("slots", [1, 3])
def test_a_message_that_arrives_during_a_handler_goes_before_the_next_record(slots, arrives):
    """Each slot begins one more record at most."""
    lanes = lanes_of(slots)
    for number in range(30 * slots):
        lanes.send("MAIN", group=f"g{number % slots}", seconds=0.2)
    lanes.scheduler.after(4 + arrives, lambda: lanes.send("HIGH", group="urgent", seconds=0.1))
    assert lanes.settle(within=1_000)

    (high,) = (one for one in lanes.handled if one.lane == "HIGH")
    begun = [one for one in lanes.handled if high.sent_at + 0.3 < one.started_at < high.started_at]

    assert len(begun) <= slots
