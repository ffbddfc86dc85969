"""What all benchmarks share: options, the last line, verdicts, and what happens where nothing waits."""

import json

import pytest

from benchmarks.report import NOT_SATURATED, Findings, NotSaturatedError, Table, run
from benchmarks.saturation import require_saturated
from benchmarks.targets import TARGETS, Target, verdicts
from lanes.config import LanesConfig
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


def test_json_alone_prints_one_line(capsys):
    """For tools that want nothing else."""
    run("scale", findings, about="-", arguments=["--json", "--quick"])

    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["quick"] is True


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
    ],
)
def test_a_target_is_held_up_to_its_limit(target, holding, missing):
    """And never by a figure that could not be taken."""
    assert target.is_held_by(holding)
    assert not target.is_held_by(missing)


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
