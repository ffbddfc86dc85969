"""`lanes simulate` as a user types it."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOAD = ["--arrivals", "HIGH rate=2 service=50ms", "--arrivals", "MAIN backlog=40 service=50ms"]


@pytest.fixture
def lanes(typed, monkeypatch):
    """Give the command, in a window that is wide enough for its tables."""
    monkeypatch.setitem(typed.variables, "COLUMNS", "200")
    return typed


def installed(*arguments, folder):
    """Run the command of a folder, which has nothing else of the project on its path."""
    return subprocess.run(
        [sys.executable, "-m", "lanes", *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_simulate_prints_a_table_and_draws_a_picture(lanes, tmp_path):
    """From options alone, all patterns side by side."""
    done = lanes("simulate", *LOAD, "--duration", "5s", "--compare", "--plot", str(tmp_path / "waits.svg"))

    assert done.returncode == 0, done.stderr
    for word in ("ours", "plain", "none", "HIGH p50, p99", "MAIN p50, p99", "$ a day"):
        assert word in done.stdout
    assert ">HIGH</text>" in (tmp_path / "waits.svg").read_text(encoding="utf-8")


def test_a_chart_is_svg(lanes, tmp_path):
    """Another ending is refused before the simulation: its programs could not read the file."""
    done = lanes("simulate", *LOAD, "--plot", str(tmp_path / "waits.png"))

    assert done.returncode == 2
    assert "does not end with .svg" in done.stderr


def test_simulate_prints_json(lanes, tmp_path):
    """One document on standard output; the same each time, options going over the file."""
    load = tmp_path / "load.toml"
    load.write_text('duration = "5s"\n[arrivals.MAIN]\nbacklog = 10\nservice = "50ms"\n')
    first, again = (lanes("--output", "json", "simulate", str(load), *LOAD) for _ in range(2))
    told = json.loads(first.stdout)

    assert [row["sent"] for row in told["runs"][0]["lanes"] if row["lane"] == "MAIN"] == [40]
    assert first.stdout == again.stdout


def test_problems_of_a_load_end_the_verb_all_at_once(lanes, tmp_path):
    """With status 1 and the keys that were probably meant."""
    load = tmp_path / "load.toml"
    load.write_text("[arrivals.HIHG]\nrate = 1\n[arrivals.MAIN]\nrat = 1\n")
    done = lanes("simulate", str(load))

    assert done.returncode == 1
    assert "did you mean 'HIGH'" in done.stderr
    assert "did you mean 'rate'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("text", ["arrivals = 3", "[arrivals]\nHIGH = 3"])
def test_options_beside_something_that_is_no_table_leave_its_report(lanes, tmp_path, text):
    """They can't be added to it; the file is reported as without them."""
    load = tmp_path / "load.toml"
    load.write_text(text)
    done = lanes("simulate", str(load), "--arrivals", "HIGH rate=1")

    assert done.returncode == 2
    assert "must be a table, not the number 3" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("simulate",), "no lane has a rate"),
        (("simulate", "none.toml"), "does not exist"),
        (("simulate", "--arrivals", "HIGH often"), "not key=value"),
        (("simulate", "--arrivals", "HIHG rate=1"), "did you mean 'HIGH'"),
        (("simulate", *LOAD, "--duration", "soon"), "duration"),
        (("simulate", *LOAD, "--away", "10m"), "away is '10m'; give its begin and its later end"),
        (("simulate", *LOAD, "--away", "30m-10m"), "away is '30m-10m'"),
        (("simulate", *LOAD, "--slots", "1,,2"), "'1,,2' has an empty value"),
        (("simulate", *LOAD, "--slots", ""), "has an empty value"),
        (("simulate", *LOAD, "--slots", "1-3"), "'1-3' is not a whole number"),
        (("simulate", *LOAD, "--slots", "2,1, 02"), "'02' is listed twice"),
        (("simulate", *LOAD, "--slots", "1,0"), "reserved_concurrency is 0; must be at least 1"),
        (("simulate", *LOAD, "--batch-size", "1,11"), "batch_size is 11; must be at most 10"),
        (("simulate", *LOAD, "--recheck-interval", "100ms,soon"), "'soon' is not a duration"),
        (("simulate", *LOAD, "--recheck-interval", "1s,1000ms"), "'1000ms' is listed twice"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_options_are_wrong_usage(lanes, arguments, text):
    """As in every other verb; a wrong file is no wrong option."""
    done = lanes(*arguments)

    assert (done.returncode, text in done.stderr) == (2, True), done.stderr


def test_a_stage_of_lanes_toml_is_what_is_simulated(lanes, tmp_path):
    """The lanes of the stage before the verb, from the file after it."""
    settings = tmp_path / "lanes.toml"
    settings.write_text(
        '[[lanes]]\nname = "ALL"\n[stages.two]\n[[stages.two.lanes]]\nname = "FIRST"\nthreshold = 9\n'
    )
    load = ("simulate", "--file", str(settings), "--arrivals", "ALL backlog=2", "--duration", "1s")

    for stage, expected in (((), ["ALL"]), (("--stage", "two"), ["FIRST", "ALL"])):
        done = lanes("--output", "json", *stage, *load)
        assert [row["lane"] for row in json.loads(done.stdout)["runs"][0]["lanes"]] == expected


def test_several_values_of_settings_give_one_table_and_one_picture(lanes, tmp_path):
    """A row for each combination."""
    picture = tmp_path / "waits.svg"
    values = ("--slots", "1, 2", "--batch-size", "1,10", "--recheck-interval", "100ms")
    done = lanes("simulate", *LOAD, "--duration", "5s", *values, "--plot", str(picture))

    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if "batch_size" in line]
    assert [row.split("│")[1].strip() for row in rows] == [
        f"{slots}, batch_size {size}, recheck_interval 100ms"
        for slots in ("1 slot", "2 slots")
        for size in (1, 10)
    ]
    assert "HIGH p50, p99" in done.stdout
    assert "2 slots, batch_size 10" in picture.read_text(encoding="utf-8")


def test_an_installation_brings_the_verbs_under_the_simulators_installed_name(tmp_path):
    """The folders as a wheel lays them out, and nothing else of the project."""
    for name, package in (("lanes", "lanes"), ("simulator", "lanes_simulator")):
        shutil.copytree(ROOT / name, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    done = installed("simulate", *LOAD, "--duration", "1s", folder=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "HIGH" in done.stdout


def test_without_the_simulator_the_command_works_on(tmp_path):
    """Its verbs are missing, no more; a stranger's package of that name is left alone."""
    shutil.copytree(ROOT / "lanes", tmp_path / "lanes", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "simulator").mkdir()
    (tmp_path / "simulator" / "verbs.py").write_text("raise RuntimeError('not ours')\n")
    hidden = (
        "import sys; sys.modules.update(lanes_local=None, lanes_simulator=None); sys.argv[1:] = ['--help']"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{hidden}; from lanes.__main__ import main; main()"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "simulate" not in done.stdout
