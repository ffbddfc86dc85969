"""
Share the events of the log between open tabs: one reader for each choice of events, while a tab asks.

Owns the word feed.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING

from lanes.events import Count, Event
from lanes.operate.history.descriptions import describe
from lanes.operate.history.tail import EventFilter, Tail

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.operate.history.log import LogEvent, Logs

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
INTERVAL = timedelta(seconds=2)
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
            if idle >= INTERVAL.total_seconds():
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
