"""Figures and their goals, the worst of several runs, and their output."""

import json

import pytest

from benchmarks.figures import least, most, show, worst
from benchmarks.wait import LOADS, Case, found, put
from lanes.config import LanesConfig
from simulator.patterns import IdealLanes


@pytest.mark.parametrize(
    ("meets", "misses"),
    [(most(1.1, 1.1), most(1.11, 1.1)), (least(0.9, 0.9), least(0.89, 0.9)), (most(0, 0), most(1, 0))],
)
def test_a_goal_is_met_up_to_its_limit(meets, misses):
    """And the table shows on which side the figure is."""
    assert meets.met
    assert not misses.met
    assert str(misses).startswith("**")
    assert meets.worse(misses) == misses.worse(meets) == misses


def test_the_worst_of_several_runs_is_kept_by_row():
    """Of other columns the highest number; a column that one run lacks stays."""
    rows = [
        {"load": "a", "p99 s": 1.0, "over": most(1.2, 1.1), "work": least(0.9, 0.85)},
        {"load": "b", "p99 s": 5.0, "over": None},
        {"load": "a", "p99 s": 2.0, "over": most(1.0, 1.1), "work": least(0.8, 0.85)},
    ]

    assert worst(rows, by=["load"]) == [
        {"load": "a", "p99 s": 2.0, "over": most(1.2, 1.1), "work": least(0.8, 0.85)},
        {"load": "b", "p99 s": 5.0, "over": None},
    ]


def test_the_table_comes_first_and_one_object_last(capsys):
    """People read the one, tools the other."""
    show("wait", [{"load": "a", "over": most(1.2, 1.1)}, {"load": "b", "s": 1234.5}], seeds=[1])

    *table, last = capsys.readouterr().out.splitlines()
    assert table[0] == "| load | over | s |"
    assert table[2:4] == ["| a | **1.2** > 1.1 | - |", "| b | - | 1234 |"]
    assert "0 of 1 figures" in table[-1]
    line = json.loads(last)
    assert (line["benchmark"], line["met"], line["missed"], line["seeds"]) == ("wait", 0, 1, [1])
    assert line["rows"][0]["over"] == {"value": 1.2, "goal": 1.1, "at_least": False, "met": False}


def test_messages_without_a_start_count_with_the_whole_time():
    """A pattern can't shorten its waits by leaving messages behind."""
    case = Case("log-normal", burst=200, slots=1, behaviour="as given", seed=1, scale=0.05)

    assert found(case, None).longest == case.seconds


@pytest.mark.parametrize("name", LOADS)
def test_a_load_sends_to_the_top_lane_at_its_rate(name):
    """A tenth of the time at the end is quiet, so that all earlier messages start."""
    load = LOADS[name]
    lanes = IdealLanes(LanesConfig.from_dict({"lanes": [*load.lanes]} if load.lanes else {}))
    put(load, lanes, burst=1, seconds=1_000, seed=1)
    lanes.run(seconds=1_000)
    share = load.high / load.high_work.mean if load.depth else 1 / 3

    assert lanes.sent_to[lanes.config.lanes[0].name] == pytest.approx(900 * share, rel=0.2)
    assert (lanes.sent_to[lanes.config.last_lane.name] >= load.depth) or not load.depth
