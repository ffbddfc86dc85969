"""`lanes config` and `lanes new`."""

import json
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from lanes import installing
from tests.support.command import ROOT


def test_config_show_prints_one_json_document(typed):
    """Data goes to standard output, notes to standard error."""
    done = typed("--output", "json", "--stage", "demo", "config", "show")

    rows = json.loads(done.stdout)
    assert [row["lane"] for row in rows] == ["HIGH", "MEDIUM", "MAIN"]
    assert rows[0]["visibility"] == 60.0, "durations are seconds"
    assert "reserved_concurrency is 1" in done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize("closed", ["<&- 2>&-", ">&-"])
def test_a_closed_stream_is_no_fault(closed):
    """Some schedulers start programs so; with a traceback a change that is made would look like one that failed."""
    command = f'"{sys.executable}" -m lanes config show {closed}'
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)

    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert ("HIGH" in done.stdout) != closed.startswith(">")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the device is Linux's")
@pytest.mark.parametrize("output", ["table", "json"])
def test_a_full_disk_is_named(output):
    """The output is lost, and no traceback says more."""
    command = f'"{sys.executable}" -m lanes config show --output {output} > /dev/full'
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "error: the output, or a file, can't be written: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_unknown_stage_is_named_with_the_nearest_known_one(typed):
    """A mistyped stage ends with status 1 and no traceback."""
    done = typed("--stage", "dmo", "config", "show")

    assert done.returncode == 1
    assert "did you mean 'demo'" in done.stderr
    assert "Traceback" not in done.stderr


def test_wrong_option_is_a_usage_error(typed):
    """A wrong option ends with status 2 and says which."""
    done = typed("config", "show", "--fiel", "x")

    assert done.returncode == 2
    assert "--fiel" in done.stderr


def test_config_show_has_the_engine_and_its_settings(typed, tmp_path):
    """A weight for each lane instead of the delays of yields; limits in the units of the file."""
    file = tmp_path / "lanes.toml"
    file.write_text(
        """
        consumer = {engine = "pull", policy = "weighted", max_rate = 50, max_rates = {mail = "6/min"}}
        lanes = [{name = "A", threshold = 0, weight = 3}, {name = "B"}]
        """
    )

    done = typed("--output", "json", "config", "show", "--file", str(file))

    rows = json.loads(done.stdout)
    assert [row["weight"] for row in rows] == [3, 1]
    assert not any("min_yield_delay" in row for row in rows)
    assert "engine: pull, policy weighted, linger 1s, max_rate 50/s, mail 6/min" in done.stderr


FILES = {
    ".gitignore",
    "README.md",
    "app.py",
    "cdk.json",
    "function/handler.py",
    "lanes.toml",
    "pytest.ini",
    "requirements.txt",
    "send.py",
    "test_handler.py",
}


def test_a_new_app_has_all_that_it_needs(typed, tmp_path):
    """Its stack has the name of the folder; its requirements name the place that this library came from."""
    made = tmp_path / "my apps" / "shop"
    done = typed("new", str(made))

    assert done.returncode == 0, done.stderr
    assert {path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file()} == FILES
    assert 'os.environ.get("LANES_STACK", "shop")' in (made / "send.py").read_text()
    *notes, requirement = (made / "requirements.txt").read_text().splitlines()
    assert requirement == f"priority-lanes[local] @ {ROOT.as_uri()}"
    assert "For your colleagues and CI, name one that they can reach too" in notes[0]
    assert all(note.startswith("# ") for note in notes)
    assert not [path for path in made.rglob("*") if path.is_file() and "$" in path.read_text()]
    assert f"next: lanes local up {shlex.quote(str(made))}, and" in done.stderr


def test_the_test_of_a_new_app_passes(typed, tmp_path):
    """As a user runs it, also with handlers in two files, and it is formatted and correct."""
    typed("new", str(tmp_path / "shop"))
    function = tmp_path / "shop" / "function"
    (function / "orders.py").write_text((function / "handler.py").read_text())
    (function / "handler.py").write_text(
        'from orders import consumer, lambda_handler\n\n__all__ = ["consumer", "lambda_handler"]\n'
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        command,
        cwd=tmp_path / "shop",
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    ruff = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--select",
        "E,F,I,UP",
        "--line-length",
        "110",
        ".",
    ]
    checked = subprocess.run(ruff, cwd=tmp_path / "shop", capture_output=True, text=True, check=False)

    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert checked.returncode == 0, checked.stdout


def test_the_extra_of_the_quickstart_brings_the_command_and_the_page():
    """It has you run `lanes ui` and pytest too."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]

    assert "priority-lanes[cdk,ui,simulator,testing]" in extras["local"]
    assert {*extras["cli"]} <= {*extras["ui"]}


def test_an_empty_folder_is_filled(typed, tmp_path):
    """Also the one that you are in."""
    (tmp_path / "shop").mkdir()

    assert typed("new", str(tmp_path / "shop")).returncode == 0
    assert (tmp_path / "shop" / "app.py").is_file()


def test_a_folder_with_files_is_left_alone(typed, tmp_path):
    """Nothing is overwritten."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "mine").write_text("")
    done = typed("new", str(tmp_path / "shop"))

    assert done.returncode == 2
    assert "shop exists and is not an empty folder; give the name of a new one" in done.stderr
    assert [path.name for path in (tmp_path / "shop").iterdir()] == ["mine"]


@pytest.mark.parametrize("name", ["my_app", "7shop", "a" * 41, "the shop"])
def test_a_name_that_no_stack_can_have_is_refused(typed, tmp_path, name):
    """Before anything is written."""
    done = typed("new", str(tmp_path / name))

    assert done.returncode == 2
    assert f"the name is {name!r}; it must have 1 to 40 letters, digits and hyphens" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_named(typed, tmp_path):
    """A file in the way, for one."""
    (tmp_path / "file").write_text("")
    done = typed("new", str(tmp_path / "file" / "shop"))

    assert (done.returncode, "shop can't be written: Not a directory" in done.stderr) == (2, True)


def test_a_released_library_is_required_by_its_name(monkeypatch):
    """The one switch that a release changes."""
    assert installing.install_hint("ui") == f"pip install 'priority-lanes[ui] @ {ROOT.as_uri()}'"

    monkeypatch.setattr(installing, "RELEASED", True)
    assert installing.install_hint("ui") == "pip install 'priority-lanes[ui]'"


@pytest.mark.parametrize(
    ("recorded", "place"),
    [
        ('{"url": "file:///src/lanes", "dir_info": {}}', "file:///src/lanes"),
        (
            '{"url": "https://git.example/lanes", "vcs_info": {"vcs": "git", "commit_id": "5f3a"}}',
            "git+https://git.example/lanes@5f3a",
        ),
        (None, "file:///path/to/priority-lanes"),
    ],
)
def test_an_installed_library_knows_where_it_came_from(monkeypatch, tmp_path, recorded, place):
    """As pip records it."""

    class Installed:
        def read_text(self, _name):
            return recorded

    monkeypatch.setattr(installing, "__file__", str(tmp_path / "lanes" / "installing.py"))
    monkeypatch.setattr(installing.metadata, "distribution", lambda _name: Installed())

    assert installing.requirement("cli") == f"priority-lanes[cli] @ {place}"
