"""What all benchmarks share: options, the last line, verdicts, and what happens where nothing waits."""

import json

import pytest

from benchmarks.patterns import require_overtaken, require_saturated
from benchmarks.report import NOT_SATURATED, RANGE, Findings, NotSaturatedError, Table, run, run_engine
from benchmarks.targets import TARGETS, Target, verdicts
from lanes.config import EngineName, LanesConfig
from simulator.simulated_lanes import Pattern, SimulatedLanes


def findings(**options):
    """Measure nothing and find what it was asked for."""
    table = Table(title="a table", columns=("name", "s"), rows=[("lanes", 1234.5), ("none", None)])
    return Findings(figures={"flatness": 1.05, **options}, tables=[table], conditions={"slots": 3})


def test_tables_come_first_and_one_object_last(capsys):
    """People read the one, tools the other."""
    assert run("scale", findings, about="-", arguments=["--seed", "7"]) == 0

    *table, last = capsys.readouterr().out.splitlines()
    line = json.loads(last)
    assert table[:4] == ["a table", "  name   s", "  lanes  1234", "  none   -"] or "lanes  1234" in table[2]
    assert line["flatness"] == 1.05
    assert line["conditions"] == {"slots": 3, "quick": False, "seed": 7}
    assert line["held"]["flatness"] is True


def test_a_load_that_fills_nothing_ends_with_a_status_of_its_own(capsys):
    """And with the reason, and no figures that somebody could quote."""

    def idle(**_options):
        raise NotSaturatedError("the slots were busy for 10% of the time")

    assert run("scale", idle, about="-", arguments=[]) == NOT_SATURATED
    out, err = capsys.readouterr()
    assert out == ""
    assert "not saturated" in err
    assert "10%" in err


@pytest.mark.parametrize(
    ("target", "holding", "missing"),
    [
        (Target(figure="x", at_most=1.1), 1.1, 1.11),
        (Target(figure="x", at_least=0.9), 0.9, 0.89),
        (Target(figure="x", exactly=0), 0, 1),
        (Target(figure="x", exactly=True), True, False),
        (Target(figure="x", at_most=1.1), 0, None),
        (Target(figure="x", below=1.0), 0.99, 1.0),
    ],
)
def test_a_target_is_held_up_to_its_limit(target, holding, missing):
    """And never by a figure that could not be taken."""
    assert target.is_held_by(holding)
    assert not target.is_held_by(missing)


@pytest.mark.parametrize(
    ("target", "values", "worst"),
    [
        (Target(figure="x", at_most=1.1), [1.0, 1.2, 0.9], 1.2),
        (Target(figure="x", below=1.0), [0.8, 0.9], 0.9),
        (Target(figure="x", at_least=0.9), [1.0, 0.8, 0.9], 0.8),
        (Target(figure="x", exactly=True), [True, False, True], False),
        (Target(figure="x", exactly=0), [0, 0], 0),
        (Target(figure="x", at_most=1.1), [1.0, None], None),
    ],
)
def test_the_worst_of_several_runs_is_judged(target, values, worst):
    """A run without the figure is the worst."""
    assert target.worst(values) == worst


def by_seed(*, engine, quick, seed):
    """Find more with each seed, and with the other engine."""
    found = seed / 100 + (engine is EngineName.PULL)
    return Findings(
        figures={"flatness": found, "flatness_under_trickle": found, "other": found, "quick": quick}
    )


def judged(*, unknowns=None, **options):
    """Find the same for a seed, and as much as polls are missed under a behaviour."""
    if unknowns is None:
        figures = by_seed(**options).figures
        return {name: figures[name] for name in ("flatness", "flatness_under_trickle")}
    return {"flatness": 1 + unknowns.missed_polls}


def test_an_engine_is_judged_by_the_worst_of_its_seeds(capsys):
    """Figures without a target are those of the first one."""
    run_engine(
        "scale", by_seed, judge=judged, about="-", arguments=["--json", "--engine", "pull", "--seeds", "4"]
    )

    line = json.loads(capsys.readouterr().out)
    assert (line["benchmark"], line["engine"]) == ("scale", "pull")
    assert line["conditions"]["seeds"] == [1, 2, 3, 4]
    assert (line["flatness"], line["other"]) == (1.04, 1.01)
    assert line["held"] == {"flatness": True, "flatness_under_trickle": True}
    assert line["by_seed"]["4"] == {"flatness": 1.04, "flatness_under_trickle": 1.04}


def test_the_range_names_the_worst_behaviour(capsys):
    """Beside the figures, with a verdict of its own."""
    run_engine("scale", by_seed, judge=judged, about="-", arguments=["--engine", "pull", "--seeds", "2"])

    *table, last = capsys.readouterr().out.splitlines()
    line = json.loads(last)
    assert line["worst_of_range"] == {"flatness": 1 + 1 / 3}
    assert line["held_in_range"] == {"flatness": False}
    assert set(line["range"]) == set(RANGE)
    assert line["range"]["receives of 25 ms"] == {"flatness": 1}
    assert any("short polls miss 1 in 3" in row and "1.333" in row for row in table)


@pytest.mark.parametrize("enabled", [True, False])
def test_a_load_that_is_contended_lets_urgent_messages_overtake(enabled):
    """With a single queue none can."""
    lanes = SimulatedLanes(LanesConfig.from_dict({"enabled": enabled}), pattern=Pattern.PULL)
    for number in range(50):
        lanes.send("MAIN", group=f"g{number}", seconds=0.2)
    lanes.scheduler.after(1.0, lambda: lanes.send("HIGH" if enabled else "MAIN", group="g", seconds=0.2))
    lanes.run(seconds=60.0)

    if enabled:
        require_overtaken(lanes)
    else:
        with pytest.raises(NotSaturatedError):
            require_overtaken(lanes)


def test_a_figure_that_is_missing_holds_nothing():
    """A benchmark that forgets a figure doesn't pass by it."""
    assert verdicts("scale", {}) == {target.figure: False for target in TARGETS["scale"]}


@pytest.mark.parametrize(("messages", "enough"), [(600, True), (6, False)])
def test_saturation_means_full_slots_and_messages_that_wait(messages, enough):
    """A handful of messages over an hour fill nothing."""
    lanes = SimulatedLanes(
        LanesConfig.from_dict({"enabled": False, "consumer": {"reserved_concurrency": 3}}),
        pattern=Pattern.NONE,
    )
    for number in range(messages):
        lanes.send("MAIN", group=f"g{number}", seconds=0.2)
    began = lanes.scheduler.now
    lanes.run(seconds=3600, until=lambda: len(lanes.handled) == messages)
    seconds = lanes.scheduler.now - began

    if enough:
        require_saturated(lanes, seconds=seconds, work=0.2)
    else:
        with pytest.raises(NotSaturatedError):
            require_saturated(lanes, seconds=seconds, work=0.2)
