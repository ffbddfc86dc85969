"""Read the state of the lanes; slow and costly parts less often than the counts of the queues."""

from __future__ import annotations

import dataclasses
import threading
import time
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from lanes.operate.cached import Cached
from lanes.operate.lanes.figures import DepthTrend
from lanes.operate.lanes.status import OUTBOX_LASTS, StatusReader
from lanes.operate.runs import MOST_READ, RunRate, rate_so_far, read_progress, row_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.operate.lanes.figures import LaneFigures
    from lanes.operate.lanes.mappings import LaneMapping
    from lanes.operate.lanes.status import Status
    from lanes.runs import Head
    from lanes.ui.session import Session

FIGURES_LAST = timedelta(seconds=30)
"""CloudWatch has new figures once a minute, and charges for each one that is read."""
# AWS: Lambda takes 15 calls a second of all that read or change its configuration (Lambda quotas).
MAPPINGS_LAST = timedelta(seconds=6)
SINCE = 7 * 86_400.0
LISTED = 20
INTERVAL = 2.0
"""Seconds between two readings of a small run."""

CHUNKS_A_SECOND = 100.0
"""Of one run: a call of DynamoDB and a hundred read units a second, whatever its size and the number of tabs."""

OVER_LASTS = 60.0
"""Seconds between two readings of a run that is over: only a redrive changes its counts."""


class CachedMappings:
    """
    States of mappings for `StatusReader`.

    Args:
        session: the connection to the lanes.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._bell = Cached(self._read_bell, lasts=MAPPINGS_LAST)
        self._lanes: dict[str, Cached[Sequence[LaneMapping]]] = {}

    def of_lane(self, lane: str) -> Sequence[LaneMapping]:
        """Return the mappings that serve a lane."""
        read = partial(self._read, lane)
        return self._lanes.setdefault(lane, Cached(read, lasts=MAPPINGS_LAST)).get()

    def of_bell(self) -> Sequence[LaneMapping]:
        """Return the mappings on the bell."""
        return self._bell.get()

    def forget(self) -> None:
        """Read the mappings again next time."""
        self._bell.forget()
        # A copy, since another thread may add a lane meanwhile.
        for cached in list(self._lanes.values()):
            cached.forget()

    def _read(self, lane: str) -> Sequence[LaneMapping]:
        return self._session.operations.mappings.of_lane(lane)

    def _read_bell(self) -> Sequence[LaneMapping]:
        return self._session.operations.mappings.of_bell()


class LaneReadings:
    """
    Reads the state of all lanes.

    Args:
        session: the connection to the lanes.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._figures = Cached(self._read_figures, lasts=FIGURES_LAST)
        self._mappings = CachedMappings(session)
        self._outbox = Cached(lambda: session.operations.outbox_status(), lasts=OUTBOX_LASTS)  # noqa: PLW0108 - the session connects again
        self._trend = DepthTrend()

    def read(self) -> Status:
        """
        Read all lanes once.

        Raises:
            AwsError: a queue can't be counted.
        """
        operations = self._session.operations
        reader = StatusReader(
            config=operations.deployment.config,
            depths=operations.depths,
            mappings=self._mappings,
            figures=self._figures.get,
            trend=self._trend,
            outbox=self._outbox.get,
        )
        return reader.read()

    def forget(self) -> None:
        """Read everything again next time, after a change."""
        self._figures.forget()
        self._mappings.forget()

    def _read_figures(self) -> Mapping[str, LaneFigures]:
        return self._session.operations.figures.read()


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
