"""What the benchmarks of waits and idle slots find at small sizes: the relations that hold at any."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.report import NotSaturatedError
from benchmarks.scenarios import ROOM, Load
from benchmarks.wait import Bench
from simulator.parameters import Unknowns

ROOT = Path(__file__).resolve().parents[2]


def figures_of(name):
    command = [sys.executable, "-m", f"benchmarks.{name}", "--json", "--quick"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_the_wait_at_the_top_hangs_on_no_backlog_and_costs_the_others_little():
    """Beside the plain pattern, which pays for a like wait with half of the slots' time."""
    figures = figures_of("wait")

    assert figures["deep_over_shallow_p50"] < 1.1
    assert figures["p99_over_plain"] < 1.5
    assert figures["drain_over_none"] < 1.1
    assert figures["plain_drain_over_none"] > 1.5
    assert figures["throttled"]["drain_over_none"] > figures["drain_over_none"]


def test_slots_are_at_work_while_messages_wait():
    """Nearly as much as without priority, in every mix."""
    figures = figures_of("idle")

    assert figures["busy_over_none"] > 0.85
    assert figures["yield_time_share"] < 0.02
    assert figures["plain_busy_over_none"] < 0.2
    assert figures["throttled"]["busy_over_none"] < figures["busy_over_none"]


def test_a_load_under_which_nothing_waits_shows_nothing(monkeypatch):
    """It is refused rather than reported."""
    monkeypatch.setattr("benchmarks.wait.LEAST_DEPTH", 0)
    bench = Bench(ROOM, seed=1, scale=0.05)

    with pytest.raises(NotSaturatedError):
        bench.case(slots=10, depth=5, unknowns=Unknowns())


def test_alone_there_is_nothing_below():
    """The arrivals at the top stay the same."""
    load = Load(seconds=10)

    assert (load.alone.depth, load.alone.medium, load.alone.high) == (0, 0.0, load.high)
