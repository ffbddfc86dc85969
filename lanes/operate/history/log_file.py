"""The function's log in files: from a local run, or exported."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING

from lanes.errors import ConfigurationError
from lanes.operate.history.log import LogLine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


class LogFiles:
    """
    Reads lines from files.

    A line without a time has the time of the line before it.

    Args:
        paths: the files.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths

    def lines(
        self, *, since: float, until: float | None = None, containing: Sequence[str] = ()
    ) -> Iterator[LogLine]:
        """
        Return the lines of a period; if texts are given, only those that contain one of them.

        Raises:
            ConfigurationError: a file could not be read.
        """
        end = float("inf") if until is None else until
        for path in self._paths:
            for line in self._lines_of(path):
                is_wanted = not containing or any(text in line.text for text in containing)
                if is_wanted and since <= line.at <= end:
                    yield line

    def _lines_of(self, path: Path) -> Iterator[LogLine]:
        at = 0.0
        try:
            with path.open(encoding="utf-8", errors="replace") as stream:
                for number, text in enumerate(stream, start=1):
                    # Tracebacks and prints have no time, and belong to the line before them.
                    at = _time_of(text) or at
                    yield LogLine(id=f"{path}:{number}", at=at, text=text.rstrip("\n"))
        except OSError as error:
            raise ConfigurationError([f"can't be read: {error}"], source=str(path)) from error


def _time_of(text: str) -> float | None:
    if not text.startswith("{"):
        return None
    try:
        written = json.loads(text)["timestamp"]
        # As Powertools' logger writes it.
        return datetime.strptime(written, "%Y-%m-%d %H:%M:%S,%f%z").timestamp()
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
