"""The benchmarks in virtual time run at small sizes, and judge each figure that has a goal."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LEAST = ("--engine", "pull", "--slots", "1", "--seed", "3", "--json")


def line_of(name, *arguments):
    """Run a benchmark and return the object of its last line."""
    command = [sys.executable, "-m", f"benchmarks.{name}", *arguments]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_a_seed_decides_the_figures_of_one_load():
    """One load with one engine takes seconds."""
    command = ("wait", "--load", "fives", "--arrivals", "2", "--scale", "0.1", *LEAST)
    first, again = line_of(*command), line_of(*command)

    (row,) = first["rows"]
    assert [row[column] for column in ("load", "bursts of", "slots", "engine")] == ["fives", 2, 1, "pull"]
    assert row["ideal"] <= row["p99 s"] < row["none"]
    assert {"over ideal", "over plain", "work", "$"} <= {
        column for column, cell in row.items() if isinstance(cell, dict)
    }
    assert {**first, "took_s": 0} == {**again, "took_s": 0}


@pytest.mark.deep
@pytest.mark.parametrize("engine", ["mappings", "pull"])
def test_all_arrivals_and_undocumented_behaviour_give_one_row(engine):
    """The worst of them."""
    line = line_of(
        "wait",
        *(
            "--load",
            "fives",
            "--arrivals",
            "1,5",
            "--slots",
            "1",
            "--seeds",
            "2",
            "--scale",
            "0.1",
            "--worst",
        ),
        *("--engine", engine, "--aws", "as given; short polls miss 1 in 3"),
    )

    rows = [(row["load"], row["engine"], row["AWS"]) for row in line["rows"]]
    assert rows == [("fives", engine, "as given"), ("fives", engine, "short polls miss 1 in 3")]


@pytest.mark.deep
@pytest.mark.parametrize(("name", "rows"), [("bounded", 5), ("away", 6)])
def test_each_row_has_a_figure_with_a_goal(name, rows):
    """A row that nobody judges is not worth its time."""
    line = line_of(name, *LEAST)

    assert len(line["rows"]) == rows
    assert all(any(isinstance(cell, dict) for cell in row.values()) for row in line["rows"])
    assert line["met"] + line["missed"] >= rows
