"""The exit codes of the command; `docs/reference/command-line.md` explains them to operators."""

from __future__ import annotations

import enum


class ExitCode(enum.IntEnum):
    """How a verb ended."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    # Not 1: a script distinguishes a found problem from a command that failed.
    NO = 3
    # Of a verb that waits: a script may wait on.
    NOT_IN_TIME = 4
    # 128 and the number of SIGINT, as shells report it.
    INTERRUPTED = 130
