"""The progress of one task: a JSON line on the standard error of its worker, which Spark's page shows by executor."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .record import RowCounts

EVERY_SECONDS = 10.0


class TaskReport:
    """
    Reports the counts of a task at intervals.

    Args:
        partition: Number of the partition.
        every: Seconds between two lines.
        clock: Monotonic seconds.
        write: Writes a line.
    """

    def __init__(
        self,
        partition: int,
        *,
        every: float = EVERY_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        write: Callable[[str], object] | None = None,
    ) -> None:
        self._partition = partition
        self._every = every
        self._clock = clock
        self._write = write or sys.stderr.write
        self._started = self._written = clock()

    @property
    def is_due(self) -> bool:
        """Whether the next line is due."""
        return self._clock() - self._written >= self._every

    def __call__(self, counts: RowCounts) -> None:
        """Write a line with all counts so far."""
        self._written = self._clock()
        seconds = self._written - self._started
        line = {
            "event": "rows_being_sent",
            "partition": self._partition,
            "seconds": round(seconds, 1),
            "messages": counts.lanes.total(),
            "messages_per_second": round(counts.lanes.total() / seconds, 1),
            "skipped": counts.skipped,
            "quarantined": counts.quarantined,
        }
        self._write(json.dumps(line) + "\n")
