"""The failure of a write, with the summary of its session."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from lanes.errors import LanesError

if TYPE_CHECKING:
    from collections.abc import Mapping


class WriteFailedError(LanesError):
    """
    The write has failed; the message is the reason of the task, the cause its error.

    Attributes:
        summary: Summary of the session: its counts and the row that failed it, if it has a manifest.
    """

    def __init__(self, reason: str, summary: Mapping[str, Any] | None = None) -> None:
        self.summary = summary
        super().__init__(reason)


def report(error: Exception) -> int:
    """Write the reason to standard error, and the summary of a failed session as the last line; give the exit code."""
    sys.stderr.write(f"error: {error}\n")
    if isinstance(error, WriteFailedError) and error.summary is not None:
        sys.stdout.write(json.dumps(error.summary) + "\n")
    return 1
