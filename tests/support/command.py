"""The command as its user runs it, in this process or from an installed release."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lanes.aws import dead_letters
from lanes.cli import main as command_line
from local.account import isolated_variables

ROOT = Path(__file__).parents[2]
NOWHERE = "http://127.0.0.1:1"
# Typer puts the command together anew for each call, which takes longer than many a verb.
COMMAND = command_line.command()


class Typed:
    """
    The command within this process, through its own `main`; empty queues answer at once.

    Args:
        endpoint_url: address of AWS; nothing listens at the default one.
    """

    def __init__(self, endpoint_url=NOWHERE):
        self.variables = {**os.environ, **isolated_variables(endpoint_url, "operator")}

    def __call__(self, *arguments, text=None, without=()):
        """Run it to its end, without some of its variables."""
        said, talk, status = io.StringIO(), io.StringIO(), 0
        with (
            pytest.MonkeyPatch.context() as patch,
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(talk),
        ):
            for name, value in self.variables.items():
                patch.setenv(name, value)
            for name in without:
                patch.delenv(name, raising=False)
            patch.chdir(ROOT)
            patch.setattr(dead_letters, "WAIT_SECONDS", 0)
            patch.setattr(command_line, "command", lambda: COMMAND)
            patch.setattr(sys, "argv", ["lanes", *arguments])
            patch.setattr(sys, "stdin", io.StringIO(text or ""))
            try:
                command_line.main()
            except SystemExit as exit_:
                status = exit_.code or 0
        return subprocess.CompletedProcess(arguments, status, said.getvalue(), talk.getvalue())

    def json(self, *arguments, text=None):
        """Run it to a good end and return its JSON document."""
        done = self("--output", "json", *arguments, text=text)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


class Command(Typed):
    """The command as a process of its own."""

    def start(self, *arguments):
        """Start it and return the process."""
        return subprocess.Popen(
            [sys.executable, "-m", "lanes", *arguments],
            cwd=ROOT,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A suite in the background of a shell has interrupts ignored, and hands that on.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no thread runs here
        )

    def __call__(self, *arguments, text=None):
        """Run it to its end."""
        return subprocess.run(
            [sys.executable, "-m", "lanes", *arguments],
            cwd=ROOT,
            env=self.variables,
            input=text or "",
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )


UV = Path(sys.prefix) / "bin" / "uv"
"""The installer of this project; pip does the same in three times the time."""


def run(command, *, cwd, environment):
    """Run a command to its good end; return its output."""
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def line_with(text, process):
    """Read the output of a process up to a line with a text, and return it."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return line
    raise AssertionError("".join(lines))


DURATIONS = {
    -1: "0 s",
    0: "0 s",
    0.0004: "0 ms",
    0.0123: "12 ms",
    0.25: "250 ms",
    0.9994: "999 ms",
    1: "1 s",
    1.5: "1.5 s",
    2.345: "2.35 s",
    12.34: "12.3 s",
    59.96: "60 s",
    60: "60 s",
    99.4: "99.4 s",
    100: "1 min 40 s",
    120: "2 min",
    187.4: "3 min 7 s",
    3599.6: "1 h",
    3605: "1 h",
    3660: "1 h 1 min",
    86_400: "1 d",
    93_600: "1 d 2 h",
    1_000_000: "11 d 13 h",
}
"""Texts by seconds."""
