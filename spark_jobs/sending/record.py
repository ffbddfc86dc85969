"""The record of a task: ids that it has sent, rows that it has set aside, their counts, and lines about them."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ..rows.outgoing import OutgoingRow
    from ..rows.reader import RowRefusedError

    Row = Mapping[str, Any]
EVERY_SECONDS = 10.0


class Record:
    """Records the work of a task for other tasks and later runs; this one keeps nothing."""

    def has(self, identity: str) -> bool:  # noqa: ARG002 - of a manifest
        """Whether an earlier session has sent the message with this identity."""
        return False

    def has_now(self, identity: str) -> bool:  # noqa: ARG002
        """Whether another attempt of this session has sent it."""
        return False

    def sent(self, lane: str, items: Iterable[OutgoingRow]) -> None:
        """Record messages that are in the queue."""

    def quarantined(self, *, position: int, row: Row, reason: str) -> None:
        """
        Set aside a row that cannot be sent.

        Raises:
            NotImplementedError: There is no storage for such rows, and none is lost silently.
        """
        raise NotImplementedError("only a manifest keeps rows that cannot be sent; set manifestPath")

    def flush(self) -> None:
        """Write the record."""

    def keep(self) -> None:
        """Check that this task may go on; raises `LanesError`."""

    def ended(self, *, skipped: int, reason: str | None, refused: RowRefusedError | None) -> None:
        """Record the end of the task: the rows that it skipped, and the reason and the row of its failure."""


@dataclass(slots=True)
class RowCounts:
    """Counts of rows: sent by lane in this session, skipped since an earlier one has sent them, and quarantined."""

    lanes: Counter[str] = field(default_factory=Counter)
    skipped: int = 0
    quarantined: int = 0

    @property
    def rows(self) -> int:
        """All rows that were read."""
        return self.lanes.total() + self.skipped + self.quarantined

    def to_json(self) -> str:
        """Write the counts for `from_json`."""
        return json.dumps({one.name: getattr(self, one.name) for one in fields(self)})

    @classmethod
    def from_json(cls, text: str) -> RowCounts:
        """Read the counts that a task has written."""
        counts = json.loads(text)
        return cls(**counts | {"lanes": Counter(counts["lanes"])})

    def __add__(self, other: RowCounts) -> RowCounts:
        """Add the counts of other rows."""
        return RowCounts(
            lanes=self.lanes + other.lanes,
            skipped=self.skipped + other.skipped,
            quarantined=self.quarantined + other.quarantined,
        )


class TaskReport:
    """
    Reports the counts of a task at intervals, as a JSON line on the standard error of its worker.

    Spark's page shows it by executor.

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
