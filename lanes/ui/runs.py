"""The runs of the last days, read for all open tabs together: each again after a time that grows with its size."""

from __future__ import annotations

import dataclasses
import threading
import time
from typing import TYPE_CHECKING, Any

from lanes.operate.runs import MOST_READ, RunRate, rate_so_far, read_progress, row_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.runs import Head
    from lanes.ui.session import Session

SINCE = 7 * 86_400.0
LISTED = 20
INTERVAL = 2.0
"""Seconds between two readings of a small run."""

CHUNKS_A_SECOND = 100.0
"""Of one run: a call of DynamoDB and a hundred read units a second, whatever its size and the number of tabs."""

OVER_LASTS = 60.0
"""Seconds between two readings of a run that is over: only a redrive changes its counts."""


@dataclasses.dataclass(slots=True)
class _Known:
    """What was read of a run, and until when it holds."""

    rate: RunRate
    row: dict[str, Any]
    head: Head
    until: float


class RunReadings:
    """
    Reads runs, each again after its time.

    Args:
        session: the connection to the lanes.
        clock: epoch seconds.
    """

    def __init__(self, session: Session, *, clock: Callable[[], float] = time.time) -> None:
        self._session = session
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[tuple[str, float], _Known] = {}

    def read(self) -> list[dict[str, Any]]:
        """
        Return the runs of the last seven days, at most twenty, the latest first.

        Raises:
            AwsError: the table can't be read.
        """
        with self._lock:
            heads = self._session.operations.runs.heads(since=self._clock() - SINCE, limit=LISTED)
            kept = {(head.name, head.opened_at): self._one(head) for head in heads}
            self._known = kept
            return [one.row for one in kept.values()]

    def _one(self, head: Head) -> _Known:
        now = self._clock()
        known = self._known.get((head.name, head.opened_at))
        if known is not None and known.head == head and now < known.until:
            return known
        reading = read_progress(self._session.operations.runs, head)
        if known is None or reading.is_over:
            rate = rate_so_far(reading, now)
        else:
            rate = known.rate
            rate.add(now, reading.ended)
        lasts = (
            OVER_LASTS if reading.is_over else max(INTERVAL, min(head.chunks, MOST_READ) / CHUNKS_A_SECOND)
        )
        over_at = head.ended_at or head.closed_at or None
        row = row_of(reading, rate) | {"opened_at": head.opened_at, "over_at": over_at}
        return _Known(rate=rate, row=row, head=head, until=now + lasts)
