"""
The lanes as every open page sees them: one reading serves them all, and the readings since the start are a timeline.

Nothing is read while no page asks, so a page that nobody looks at costs nothing.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.operate.status import LaneStatus, Status

KEPT = timedelta(hours=6)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """
    Counts of one reading.

    Attributes:
        number: rises by one with each reading.
        at: epoch seconds.
        counts: waiting, in flight, parked and dead letters of each lane, highest first; None for unknown.
    """

    number: int
    at: float
    counts: Sequence[tuple[int, int, int | None, int | None]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """
    What a page gets.

    Attributes:
        at: time of the reading, epoch seconds.
        every: seconds between readings.
        lanes: the reading itself.
        notes: why some of it is unknown.
        samples: those that the page does not have yet.
    """

    at: float
    every: float
    lanes: Sequence[LaneStatus]
    notes: Sequence[str]
    samples: Sequence[Sample]


class Watch:
    """
    Reads the lanes no more often than it has to, and keeps what it read.

    Args:
        read: reads the lanes once.
        every: the least time between two readings.
        clock: epoch seconds.
    """

    def __init__(
        self, *, read: Callable[[], Status], every: timedelta, clock: Callable[[], float] = time.time
    ) -> None:
        self._read = read
        self._every = every.total_seconds()
        self._clock = clock
        self._lock = threading.Lock()
        self._samples: deque[Sample] = deque(maxlen=max(1, int(KEPT / max(every, timedelta(seconds=0.1)))))
        self._number = 0
        self._status: Status | None = None
        self._at = 0.0

    def look(self, *, since: int) -> Look:
        """
        Return the lanes, read now unless that was done a moment ago.

        Args:
            since: number of the last sample that the page has.

        Raises:
            AwsError: a queue can't be counted.
        """
        with self._lock:
            status = self._status
            if status is None or self._clock() - self._at >= self._every:
                status = self._status = self._read()
                self._keep(status)
            return Look(
                at=self._at,
                every=self._every,
                lanes=status.lanes,
                notes=status.notes,
                samples=[sample for sample in self._samples if sample.number > since],
            )

    def _keep(self, status: Status) -> None:
        self._at = self._clock()
        self._number += 1
        counts = [(one.waiting, one.in_flight, one.parked, one.dead_letters) for one in status.lanes]
        self._samples.append(Sample(number=self._number, at=self._at, counts=counts))
