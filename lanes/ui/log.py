"""The log of the function for the page."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lanes.aws.cloudwatch.logs import LogCalls
    from lanes.aws.stack.operations import Operations
    from lanes.operate.history.log import LogLine
    from lanes.ui.session import Session


class SessionLog:
    """
    The log of the function, found at its first use and again after the session has reconnected.

    Args:
        session: the connection to the lanes.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
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
            operations = self._session.operations
            # A new session means new credentials, and its clients replace the old ones.
            if self._found is None or self._found[0] is not operations:
                self._found = operations, operations.logs()
            return self._found[1]

    def lines(
        self, *, since: float, until: float | None = None, containing: Sequence[str] = ()
    ) -> Iterator[LogLine]:
        """Return the lines of a time; raises `LanesError`."""
        return self.calls.lines(since=since, until=until, containing=containing)
