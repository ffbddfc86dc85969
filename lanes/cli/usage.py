"""What an option or argument says that it can't: wrong usage, which has an exit status of its own."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from lanes.errors import ConfigurationError, InvalidMessageError
from lanes.operate.sending import read_priority

if TYPE_CHECKING:
    from collections.abc import Iterator


class WrongUsage(ConfigurationError):  # noqa: N818 - what the command's exit status 2 is called
    """An option or argument is wrong; nothing was done."""


@contextmanager
def usage(source: str) -> Iterator[None]:
    """
    Read options; what is wrong with them is wrong usage.

    Args:
        source: what they are, for the error.

    Raises:
        WrongUsage: whatever the inside found wrong.
    """
    try:
        yield
    except (ConfigurationError, InvalidMessageError) as error:
        raise WrongUsage(error.problems, source=source) from error


def priority_given(text: str) -> int:
    """
    Read a priority: a number, or a name such as HIGH.

    Raises:
        WrongUsage: it is neither.
    """
    with usage("priority"):
        return read_priority(text)
