"""Every benchmark runs at small sizes, and its last line has a figure for each of its targets."""

import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.targets import TARGETS

pytestmark = pytest.mark.deep

ROOT = Path(__file__).resolve().parents[2]
# These have tests of their own, or take longer.
ELSEWHERE = {"enqueue", "outbox", "wait", "wait-pull", "soak"}
LONGEST = {"away", "away-pull", "finish-pull", "loads-pull"}
"""Each takes half a minute or more also at small sizes."""


@functools.cache
def quick(label):
    """Run a benchmark at small sizes, once for all tests."""
    name, _, engine = label.partition("-")
    options = ["--engine", engine] if engine else []
    return told(f"benchmarks.{name}", "--quick", "--json", "--seed", "3", *options)


def told(*arguments):
    """Run a benchmark and return the object of its last line."""
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.nightly) if name in LONGEST else name
        for name in sorted(set(TARGETS) - ELSEWHERE)
    ],
)
def test_it_finds_what_it_is_held_to(name):
    """A target without its figure would be missed for the wrong reason."""
    line = quick(name)

    assert name in (line["benchmark"], f"{line['benchmark']}-{line.get('engine')}")
    assert set(line["held"]) == {target.figure for target in TARGETS[name]}
    assert all(line[target.figure] is not None for target in TARGETS[name])


def test_a_seed_decides_all_figures():
    """Virtual time has no mood."""
    again = told("benchmarks.finish", "--quick", "--json", "--seed", "3")

    assert {**quick("finish"), "took_s": 0} == {**again, "took_s": 0}


def test_all_of_them_leave_their_figures_in_a_folder(tmp_path):
    """One file each, all that was printed, and the table; the page stays as it is at small sizes."""
    page = ROOT / "docs/benchmarks.md"
    before = page.read_text(encoding="utf-8") if page.exists() else None
    command = [
        sys.executable,
        "-m",
        "benchmarks.all",
        "--quick",
        "--only",
        "bounded-pull",
        "--into",
        str(tmp_path),
    ]

    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "bounded-pull.json",
        "bounded-pull.txt",
        "table.md",
    ]
    line = json.loads((tmp_path / "bounded-pull.json").read_text(encoding="utf-8"))
    assert f"| `reserve_share` | {line['reserve_share']:.4g} |" in (tmp_path / "table.md").read_text(
        encoding="utf-8"
    )
    assert line["conditions"]["quick"] is True
    assert before == (page.read_text(encoding="utf-8") if page.exists() else None)
