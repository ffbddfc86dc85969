"""What the benchmarks of waits and idle slots find at small sizes: the relations that hold at any."""

import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.report import NotSaturatedError
from benchmarks.scenarios import Load
from benchmarks.wait import Case, waits_of
from lanes.config import EngineName, LanesConfig
from simulator.ideal import IdealLanes
from simulator.simulated_lanes import SimulatedLanes

ROOT = Path(__file__).resolve().parents[2]


@functools.cache
def figures_of(*options):
    """Measure waits, slot time and prices, once for all tests."""
    command = [sys.executable, "-m", "benchmarks.wait", "--json", "--quick", "--no-range", *options]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.deep
def test_the_wait_at_the_top_hangs_on_no_backlog_and_costs_the_others_little():
    """The plain pattern pays for a similar wait with half of the slots' time."""
    figures = figures_of()

    # A function starts ten invocations a second for each slot, which few bursts show as 1.33.
    assert figures["deep_over_shallow_p50"] < 1.5
    # The quick form has a few bursts only, so its p99 is the wait of one of them: 1.5 to 3.2 by its seed.
    assert figures["p99_over_plain"] < 4
    # Ten slots look every 150 ms, which the few seconds of the quick form show as 1.45; 1.29 at full length.
    assert figures["drain_over_none"] < 1.6
    assert figures["plain_drain_over_none"] > 1.5


@pytest.mark.deep
def test_slots_are_at_work_while_messages_wait():
    """In every mix far more than with the plain pattern."""
    figures = figures_of()

    # 0.628 at small sizes: a batch of several groups waits for the call that lets them return after a crash.
    assert figures["busy_over_none"] > 0.6
    assert figures["yield_time_share"] < 0.11
    assert figures["plain_busy_over_none"] < 0.2


@pytest.mark.deep
def test_slots_that_receive_wait_and_idle_less_than_both():
    """At small sizes, where cold starts and single bursts weigh more than in the targets."""
    figures = figures_of("--engine", "pull")

    assert 1 <= figures["p99_over_ideal"] < 1.5
    assert figures["p99_over_plain"] < 1
    assert figures["drain_over_none"] < 1.1
    assert figures["busy_over_none"] > 0.85
    assert figures["dollars_over_plain"] < 1.2


def test_a_load_under_which_nothing_waits_shows_nothing(monkeypatch):
    """It is refused rather than reported."""
    monkeypatch.setattr("benchmarks.wait.MIN_DEPTH", 0)
    case = Case(engine=EngineName.MAPPINGS, seed=1, slots=10, depth=5, scale=0.05)

    with pytest.raises(NotSaturatedError):
        _ = case.none


def test_alone_there_is_nothing_below():
    """The arrivals at the top stay the same."""
    load = Load(seconds=10)

    assert (load.alone.depth, load.alone.medium, load.alone.high) == (0, 0.0, load.high)


@pytest.mark.parametrize("engine", EngineName)
def test_a_wait_ends_with_the_first_start_of_the_handler(engine):
    """A retry is no wait: the message has had its turn."""
    lanes = SimulatedLanes(LanesConfig.from_dict({"consumer": {"engine": engine.value}}))
    lanes.send("HIGH", group="g", seconds=1.0, fault="once")
    lanes.run(seconds=60.0)

    (one,) = lanes.handled
    assert one.started_at > one.first_started_at + 1.0
    assert lanes.handled.waits("HIGH") == [one.first_started_at - one.sent_at]
    assert waits_of(lanes, seconds=60.0).p99 < 2.0


def test_messages_without_a_start_count_with_the_whole_time():
    """A pattern can't shorten its waits by leaving messages behind."""
    lanes = IdealLanes(LanesConfig.from_dict({}))
    for _ in range(2):
        lanes.send("HIGH", group="g", seconds=10.0)
    lanes.run(seconds=15.0)

    assert waits_of(lanes, seconds=15.0).p99 == 15.0
