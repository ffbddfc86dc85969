"""The function's log as the page reads it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lanes.aws.logs import LogCalls
    from lanes.aws.operations import Operations
    from lanes.operate.events import LogLine
    from lanes.ui.desk import Desk


class DeskLog:
    """
    The function's log, found at its first use and anew when the desk has connected anew.

    Args:
        desk: where it is.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._lock = threading.Lock()
        self._found: tuple[Operations, LogCalls] | None = None

    @property
    def calls(self) -> LogCalls:
        """
        The log.

        Raises:
            LanesError: the function can't be found or read.
        """
        with self._lock:
            operations = self._desk.operations
            if self._found is None or self._found[0] is not operations:
                self._found = operations, operations.logs()
            return self._found[1]

    def lines(self, *, since: float, until: float | None = None, containing: str = "") -> Iterator[LogLine]:
        """Return the lines of a time; raises as `calls` does, and `AwsError`."""
        return self.calls.lines(since=since, until=until, containing=containing)
