"""Every benchmark runs at small sizes, and its last line has a figure for each of its targets."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.targets import TARGETS

ROOT = Path(__file__).resolve().parents[2]
# These have tests of their own, or take longer.
ELSEWHERE = {"enqueue", "outbox", "wait", "idle", "soak"}


def told(*arguments):
    """Run a benchmark and return the object of its last line."""
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", sorted(set(TARGETS) - ELSEWHERE))
def test_it_finds_what_it_is_held_to(name):
    """A target without its figure would be missed for the wrong reason."""
    line = told(f"benchmarks.{name}", "--quick", "--json")

    assert line["benchmark"] == name
    assert set(line["held"]) == {target.figure for target in TARGETS[name]}
    assert all(line[target.figure] is not None for target in TARGETS[name])


def test_nothing_healthy_is_dead_lettered_by_an_hour_of_flood():
    """Nor lost nor reordered; the plain pattern, in the same hour, does it by the dozen."""
    line = told("benchmarks.purity", "--quick", "--json")

    assert all(line["held"].values())
    assert line["plain_healthy_dead_lettered"] > 20


def test_a_seed_decides_all_figures():
    """Virtual time has no mood."""
    first, again = (told("benchmarks.finish", "--quick", "--json", "--seed", "3") for _ in range(2))

    assert {**first, "took_s": 0} == {**again, "took_s": 0}


def test_all_of_them_leave_their_figures_in_a_folder(tmp_path):
    """One file each, all that was printed, and the table; the page stays as it is at small sizes."""
    page = ROOT / "docs/benchmarks.md"
    before = page.read_text(encoding="utf-8") if page.exists() else None
    command = [sys.executable, "-m", "benchmarks.all", "--quick", "--only", "finish", "--into", str(tmp_path)]

    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env={**os.environ})

    assert sorted(path.name for path in tmp_path.iterdir()) == ["finish.json", "finish.txt", "table.md"]
    assert "| finish | `drain_ratio` |" in (tmp_path / "table.md").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "finish.json").read_text(encoding="utf-8"))["conditions"]["quick"] is True
    assert before == (page.read_text(encoding="utf-8") if page.exists() else None)
