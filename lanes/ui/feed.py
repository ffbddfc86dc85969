"""
Events as every open page sees them: the log is followed once for each choice of events, and only while a page asks.

Owns the word feed.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING

from lanes.operate.event_words import words_of
from lanes.operate.tail import EventFilter, Tail

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.operate.events import LogEvent, Logs

CHOICES = {
    "yields": "batch_yielded",
    "failures": "message_failed",
    "dead letters": "message_dead_lettered",
    "everything": "",
}
"""Events by the word of the page; a choice is what makes CloudWatch Logs send less."""
BEGINNING = timedelta(minutes=15)
EVERY = timedelta(seconds=2)
# A feed that nobody asked for any more begins anew: what lies between was not read.
FORGOTTEN = timedelta(minutes=2)
KEPT = 1_000
MESSAGES_SHOWN = 10


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FeedEvent:
    """
    One event as the page shows it.

    Attributes:
        number: rises with each event of the feed.
        id: of its line in the log: a feed that began anew gives events again.
        at: epoch seconds.
        to_lane: the lane that a yield made way for.
        what: what happened, in a word or two.
        why: why or how.
        messages: the first of those that it tells of: id, kind and group.
        count: how many it tells of.
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
    Follows one choice of events.

    Args:
        logs: the function's log.
        choice: one of `CHOICES`.
        clock: epoch seconds.
    """

    def __init__(self, logs: Logs, choice: str, *, clock: Callable[[], float] = time.time) -> None:
        self._logs = logs
        name = CHOICES[choice]
        self._wanted = EventFilter(events=(name,) if name else ())
        self._clock = clock
        self._lock = threading.Lock()
        self._tail: Tail | None = None
        self._looked_at = float("-inf")
        self._number = 0
        self._events: deque[FeedEvent] = deque(maxlen=KEPT)

    def events(self, *, since: int) -> list[FeedEvent]:
        """
        Return the events after a number, the log read now unless that was done a moment ago.

        Raises:
            LanesError: the log can't be found or read.
        """
        with self._lock:
            now = self._clock()
            idle = now - self._looked_at
            if self._tail is None or idle > FORGOTTEN.total_seconds():
                since_then = now - BEGINNING.total_seconds()
                self._tail = Tail(self._logs, since=since_then, containing=self._wanted.containing)
                self._events.clear()
            if idle >= EVERY.total_seconds():
                for event in self._tail.look():
                    self._keep(event)
                self._looked_at = self._clock()
            return [event for event in self._events if event.number > since]

    def _keep(self, event: LogEvent) -> None:
        tales = self._wanted.meant(event)
        if tales is None:
            return
        self._number += 1
        what, why = words_of(event.name, event.fields)
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
                    (tale.id or tale.message_id, tale.kind, tale.group) for tale in tales[:MESSAGES_SHOWN]
                ],
                count=len(tales),
            )
        )
