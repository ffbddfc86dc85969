"""The exit codes of the command; `docs/reference/command-line.md` explains them to operators."""

from __future__ import annotations

import enum


class ExitCode(enum.IntEnum):
    """How a verb ended."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NO = 3
    INTERRUPTED = 130
