"""`lanes cdk`, beside an app with packages of its own, and the set-up of this checkout."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer.testing

from lanes.cli import main as command_line
from local.deploy import cdk_variables

SET_UP = Path(__file__).parents[2] / ".ci" / "set-up"
FAKE_PYTHON = """#!/bin/sh
case "$*" in
    "-m venv"*)
        mkdir -p .venv/bin
        cp "$0" .venv/bin/python
        printf '#!/bin/sh\\necho "uv $UV_CACHE_DIR" >>"{log}"; exit 1\\n' >.venv/bin/uv
        chmod +x .venv/bin/uv ;;
    *"-m pip"*)
        echo "$*" >>"{log}"
        case "$*" in *requirements.txt) exit 1 ;; esac ;;
esac
"""
"""A Python whose environment has an uv that fails; it writes down how packages would be installed."""


@pytest.mark.parametrize("active", [True, False])
def test_cdk_starts_an_app_with_the_python_of_the_active_environment(monkeypatch, active):
    """Which has the packages of the app; without one, that of the command has them."""
    monkeypatch.setenv("PATH", "/app/venv/bin")
    monkeypatch.setenv("VIRTUAL_ENV", "/app/venv" if active else "")
    ran = []
    monkeypatch.setattr(os, "execve", lambda *how: ran.append(how))
    here = str(Path(sys.executable).parent)

    typer.testing.CliRunner().invoke(
        command_line.app, ["cdk", "deploy", "-c", "stage=prod", "--profile", "p"]
    )

    ((program, words, environment),) = ran
    first, second, node = environment["PATH"].split(":")
    assert (first, second) == (("/app/venv/bin", here) if active else (here, "/app/venv/bin"))
    assert Path(program) == Path(node, "node") == Path(environment["JSII_NODE"])
    assert "JSII_RUNTIME_PACKAGE_CACHE" not in environment
    assert words[2:] == ["deploy", "-c", "stage=prod", "--profile", "p"]


@pytest.mark.parametrize(
    ("words", "is_run"),
    [
        (["deploy"], False),
        (["-c", "a=b", "diff"], False),
        (["--version"], True),
        (["deploy", "--app", "cdk.out"], True),
        (["deploy", "--help"], True),
    ],
)
def test_cdk_outside_an_app_says_where_to_go(monkeypatch, tmp_path, words, is_run):
    """A verb that needs no app, or is given one, runs."""
    monkeypatch.chdir(tmp_path)
    ran = []
    monkeypatch.setattr(os, "execve", lambda *how: ran.append(how))

    done = typer.testing.CliRunner().invoke(command_line.app, ["cdk", *words])

    assert bool(ran) is is_run
    if not is_run:
        assert str(done.exception).endswith(
            f"{tmp_path} is not a CDK app: it has no cdk.json. Change to the folder of your app, or make one with "
            "`lanes new`"
        )


def test_a_home_folder_that_cannot_be_written_stops_no_app(monkeypatch, tmp_path):
    """As in many a container: jsii does without its cache there."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HOME", str(tmp_path / "file"))

    assert cdk_variables()["JSII_RUNTIME_PACKAGE_CACHE"] == "disabled"


def test_cdk_needs_nothing_but_its_packages():
    """No Node.js of the machine, and no network."""
    done = subprocess.run(
        [sys.executable, "-m", "lanes", "cdk", "--version"],
        cwd=SET_UP.parents[1],
        env={"PATH": "/usr/bin:/bin", "https_proxy": "http://127.0.0.1:1"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert re.fullmatch(r"2\.[0-9.]+ \(build [0-9a-f]+\)", done.stdout.strip())


def test_set_up_writes_nothing_outside_its_environment(tmp_path):
    """A cache in the home folder would grow by more than a gigabyte each time, until the disk is full."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(SET_UP, tmp_path / ".ci")
    (tmp_path / "requirements.txt").write_text("uv==1 \\\n    --hash=sha256:0\nsix==1\n")
    python = tmp_path / "python"
    python.write_text(FAKE_PYTHON.format(log=tmp_path / "log"))
    python.chmod(0o755)

    done = subprocess.run(
        [tmp_path / ".ci" / "set-up"],
        env={"PATH": "/usr/bin:/bin", "PYTHON": str(python)},
        capture_output=True,
        text=True,
        check=False,
    )

    for_uv, by_uv, instead = (tmp_path / "log").read_text().splitlines()
    assert done.returncode == 1, done.stderr
    assert Path(by_uv.split()[-1]).is_relative_to(tmp_path / ".venv")
    assert "--no-cache-dir" in for_uv
    assert "--no-cache-dir" in instead
