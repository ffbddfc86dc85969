"""Commands of somebody who has installed a release: the installer, and what a command prints."""

import subprocess
import sys
from pathlib import Path

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
