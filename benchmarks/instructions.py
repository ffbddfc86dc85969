"""
Machine instructions of a piece of Python, counted by valgrind: the same on a busy machine and on an idle one.

A worker runs the piece a number of times. Two numbers of times give two counts, and their difference is free of what
starting Python and importing costs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

COUNTED = re.compile(r"I\s+refs:\s+([\d,]+)")


def available() -> bool:
    """Whether this machine can count."""
    return shutil.which("valgrind") is not None


def instructions_each(module: str, *arguments: str, few: int, many: int) -> float:
    """
    Return the instructions of one run of a worker's piece.

    Args:
        module: is called as `python -m MODULE ARGUMENTS TIMES`, and runs its piece so many times.
        arguments: its command line.
        few: the smaller number of times.
        many: the larger one.

    Raises:
        RuntimeError: valgrind said no count.

    """
    command = ("-m", module, *arguments)
    # It leaves bytecode behind, which the first one would write and the second one would not.
    subprocess.run([sys.executable, *command, str(few)], check=True, stdout=subprocess.DEVNULL)
    counts = [_counted(*command, str(times)) for times in (few, many)]
    return (counts[1] - counts[0]) / (many - few)


def instructions_of(statements: str, *, variables: Mapping[str, str]) -> int:
    """
    Return the instructions of statements in a fresh process, without those of Python's own start.

    Args:
        statements: the program; its modules have their bytecode.
        variables: more environment variables.

    Raises:
        RuntimeError: valgrind said no count.

    """
    _counted("-c", statements, variables=variables)  # leaves bytecode behind
    return _counted("-c", statements, variables=variables) - _counted("-c", "pass", variables=variables)


def _counted(*command: str, variables: Mapping[str, str] = MappingProxyType({})) -> int:
    valgrind = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    done = subprocess.run(
        [*valgrind, sys.executable, *command],
        capture_output=True,
        text=True,
        check=False,
        # Hashes by chance would order sets, and so work, differently each time.
        env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "", **variables},
    )
    found = COUNTED.search(done.stderr)
    if done.returncode or not found:
        raise RuntimeError(f"valgrind counted nothing: {done.stderr[-500:]}")
    return int(found[1].replace(",", ""))
