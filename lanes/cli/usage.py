"""Errors in options and arguments, and the exit codes, which `docs/reference/command-line.md` explains."""

from __future__ import annotations

import enum
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lanes.errors import ConfigurationError, InvalidMessageError
from lanes.operate.lanes.sending import read_priority

if TYPE_CHECKING:
    from collections.abc import Iterator


class UsageError(ConfigurationError):
    """An option or argument is wrong; nothing was changed."""


@contextmanager
def usage(source: str) -> Iterator[None]:
    """
    Turn errors about values that the operator typed into usage errors.

    Args:
        source: the option or argument that the error names.

    Raises:
        UsageError: the block raised an error about a value.
    """
    try:
        yield
    except (ConfigurationError, InvalidMessageError) as error:
        raise UsageError(error.problems, source=source) from error


def parse_priority(text: str) -> int:
    """
    Parse a priority: a number, or a name such as HIGH.

    Raises:
        UsageError: the text is neither.
    """
    with usage("priority"):
        return read_priority(text)


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
