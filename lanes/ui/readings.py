"""
Read lanes, runs and the log once for all open tabs, the slow and costly parts less often.

Nothing is read unless a tab asks, so a closed or hidden page costs nothing. Owns the word feed.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import deque
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from lanes.events import Count, Event
from lanes.operate.descriptions import describe
from lanes.operate.figures import DepthTrend
from lanes.operate.log import EventFilter, Tail
from lanes.operate.runs import MOST_READ, RunRate, rate_so_far, read_progress, row_of
from lanes.operate.status import OUTBOX_LASTS, Cached, StatusReader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.operate.figures import LaneFigures
    from lanes.operate.log import LogEvent, Logs
    from lanes.operate.pause import LaneMapping
    from lanes.operate.status import LaneStatus, Status
    from lanes.operate.symptoms import Symptom
    from lanes.runs import Head
    from lanes.ui.session import Session

FIGURES_LAST = timedelta(seconds=30)
"""CloudWatch has new figures once a minute, and charges for each one that is read."""
# AWS: Lambda takes 15 calls a second of all that read or change its configuration (Lambda quotas).
MAPPINGS_LAST = timedelta(seconds=6)
SINCE = 7 * 86_400.0
LISTED = 20
RUNS_INTERVAL = 2.0
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
            OVER_LASTS
            if reading.is_over
            else max(RUNS_INTERVAL, min(head.chunks, MOST_READ) / CHUNKS_A_SECOND)
        )
        over_at = head.ended_at or head.closed_at or None
        row = row_of(reading, rate) | {"opened_at": head.opened_at, "over_at": over_at}
        return _Known(rate=rate, row=row, head=head, until=now + lasts)


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


CHOICES: dict[str, Count | None] = {
    "yields": Count.YIELDED,
    "failures": Count.FAILED,
    "dead letters": Count.DEAD_LETTERED,
    "everything": None,
}
"""The counts of the events of each choice on the page; a narrow choice makes CloudWatch Logs send less."""
# Enough to see how an incident started; CloudWatch Logs reads all of that time.
START_AGE = timedelta(minutes=15)
# One call a choice; an account has 5 to 25 calls of FilterLogEvents a second and region.
FEED_INTERVAL = timedelta(seconds=2)
# After this pause a feed starts again, since the events in between were not read.
IDLE_LIMIT = timedelta(minutes=2)
# About the events that a person can scroll through; older ones are in the log.
MAX_EVENTS = 1_000
# A batch has at most ten records in a FIFO queue.
MESSAGES_SHOWN = 10


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FeedEvent:
    """
    One event as the page shows it.

    Attributes:
        number: increases with each event of the feed.
        id: id of the log line, the same after the feed starts again.
        at: epoch seconds.
        to_lane: the lane with priority, if the event is a yield.
        what: label of the event.
        why: cause of the event.
        messages: id, kind and group of its first messages.
        count: number of its messages.
    """

    number: int
    id: str
    at: float
    lane: str
    to_lane: str
    what: str
    why: str
    messages: Sequence[tuple[str, str, str]]
    count: int


class Feed:
    """
    Reads one choice of events.

    Args:
        logs: the log of the function.
        choice: one of `CHOICES`.
        clock: epoch seconds.
    """

    def __init__(self, logs: Logs, choice: str, *, clock: Callable[[], float] = time.time) -> None:
        self._logs = logs
        count = CHOICES[choice]
        events = () if count is None else tuple(event for event in Event if event.counts is count)
        self._wanted = EventFilter(events=events)
        self._clock = clock
        self._lock = threading.Lock()
        self._tail: Tail | None = None
        self._looked_at = float("-inf")
        self._number = 0
        self._events: deque[FeedEvent] = deque(maxlen=MAX_EVENTS)

    def events(self, *, since: int) -> list[FeedEvent]:
        """
        Return the events after a number; reads the log at most once an interval.

        Raises:
            LanesError: the log can't be found or read.
        """
        # One tab reads, the others wait for its result: CloudWatch Logs counts the calls of all.
        with self._lock:
            now = self._clock()
            idle = now - self._looked_at
            if self._tail is None or idle > IDLE_LIMIT.total_seconds():
                since_then = now - START_AGE.total_seconds()
                self._tail = Tail(self._logs, since=since_then, containing=self._wanted.containing)
                self._events.clear()
            if idle >= FEED_INTERVAL.total_seconds():
                for event in self._tail.read():
                    self._keep(event)
                self._looked_at = self._clock()
            return [event for event in self._events if event.number > since]

    def _keep(self, event: LogEvent) -> None:
        messages = self._wanted.select(event)
        if messages is None:
            return
        self._number += 1
        what, why = describe(event.name, event.fields)
        self._events.append(
            FeedEvent(
                number=self._number,
                id=event.line.id,
                at=event.line.at,
                lane=event.lane,
                to_lane=str(event.fields.get("to_lane") or ""),
                what=what,
                why=why,
                messages=[
                    (one.id or one.message_id, one.kind, one.group) for one in messages[:MESSAGES_SHOWN]
                ],
                count=len(messages),
            )
        )
