"""
Share readings of the lanes between open tabs, and keep them as a timeline.

Lanes are read only while a tab asks, so a closed or hidden page costs nothing.
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

    from lanes.operate.history.symptoms import Symptom
    from lanes.operate.lanes.status import LaneStatus, Status

# At two seconds these are 10,800 samples of a few numbers a lane, some megabytes.
HISTORY = timedelta(hours=6)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """
    Counts of one reading.

    Attributes:
        number: increases by one with each reading.
        at: epoch seconds.
        counts: waiting, in flight, parked and dead letters of each lane, highest first; None for unknown.
    """

    number: int
    at: float
    counts: Sequence[tuple[int, int, int | None, int | None]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """
    The answer for a tab.

    Attributes:
        at: time of the reading, epoch seconds.
        every: seconds between readings.
        lanes: the reading itself.
        figures_read: whether CloudWatch could be read.
        engine: the engine and the bell in one line.
        symptoms: what is wrong, in words.
        notes: reasons of unknown values.
        samples: samples that the tab does not have yet.
    """

    at: float
    every: float
    lanes: Sequence[LaneStatus]
    figures_read: bool
    engine: str
    symptoms: Sequence[Symptom]
    notes: Sequence[str]
    samples: Sequence[Sample]


class Watch:
    """
    Reads the lanes at most once an interval, and keeps their counts.

    Args:
        read: reads the lanes once.
        every: minimum time between two readings.
        clock: epoch seconds.
    """

    def __init__(
        self, *, read: Callable[[], Status], every: timedelta, clock: Callable[[], float] = time.time
    ) -> None:
        self._read = read
        self._every = every.total_seconds()
        self._clock = clock
        self._lock = threading.Lock()
        self._samples: deque[Sample] = deque(maxlen=max(1, int(HISTORY / max(every, timedelta(seconds=0.1)))))
        self._number = 0
        self._status: Status | None = None
        self._at = 0.0

    def look(self, *, since: int) -> Look:
        """
        Return the lanes; reads them at most once an interval.

        Args:
            since: number of the last sample of the tab.

        Raises:
            AwsError: a queue can't be counted.
        """
        # Also during the reading: tabs that ask at once share it.
        with self._lock:
            status = self._status
            if status is None or self._clock() - self._at >= self._every:
                status = self._status = self._read()
                self._keep(status)
            return Look(
                at=self._at,
                every=self._every,
                lanes=status.lanes,
                figures_read=status.figures_read,
                engine=status.engine_line,
                symptoms=status.symptoms,
                notes=status.notes,
                samples=[sample for sample in self._samples if sample.number > since],
            )

    def _keep(self, status: Status) -> None:
        self._at = self._clock()
        self._number += 1
        counts = [(one.waiting, one.in_flight, one.parked, one.dead_letters) for one in status.lanes]
        self._samples.append(Sample(number=self._number, at=self._at, counts=counts))
