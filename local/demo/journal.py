"""The journal of a run: lines of the functions, taken down as they come."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from lanes.events import Count, Event
from local.demo.evidence import Effect, Ending

_STARTED = "started"
_STEPS = (_STARTED, *Ending)
_YIELDS = frozenset(event for event in Event if event.counts is Count.YIELDED)


class Journal:
    """
    Records the events of one stage, from any thread.

    Args:
        lane_of: lane names by message id.
        backfill: returns whether an id is one of the backfill.
    """

    def __init__(self, *, lane_of: Mapping[str, str], backfill: Callable[[str], bool]) -> None:
        self._lane_of = lane_of
        self._is_backfill = backfill
        self._changed = threading.Condition()
        self._open: dict[str, Effect] = {}
        self._effects: list[Effect] = []
        self._finished: set[str] = set()
        self._given_up = 0
        self._backfill_done = 0
        self._done: Counter[str] = Counter()
        self._yields: Counter[str] = Counter()
        self._last_change = time.monotonic()

    def take_line(self, line: str) -> None:
        """Record the event of a line that a function printed, if it has one."""
        if not line.startswith("{"):
            return
        try:
            event = json.loads(line)
        except ValueError:
            return
        if event.get("resource") in _STEPS:
            self._take_effect(event)
        elif event.get("event") in _YIELDS:
            with self._changed:
                self._yields[event["lane"]] += 1
        elif event.get("event") == Event.MESSAGE_DEAD_LETTERED:
            with self._changed:
                self._given_up += 1
                self._changed.notify_all()

    def _take_effect(self, event: Mapping[str, Any]) -> None:
        one, at = str(event["id"]), float(event["at"])
        with self._changed:
            self._last_change = time.monotonic()
            before = self._open.pop(one, None)
            if event["resource"] == _STARTED:
                if before is not None:
                    self._effects.append(before)
                self._open[one] = Effect(id=one, attempt=int(event["attempt"]), started_at=at)
                return
            ending = Ending(event["resource"])
            started = before or Effect(id=one, attempt=int(event["attempt"]), started_at=at)
            self._effects.append(
                Effect(
                    id=one,
                    attempt=started.attempt,
                    started_at=started.started_at,
                    ended_at=at,
                    ending=ending,
                )
            )
            if ending is Ending.FINISHED and one not in self._finished:
                self._finished.add(one)
                self._done[self._lane_of.get(one, "")] += 1
                self._backfill_done += self._is_backfill(one)
                self._changed.notify_all()

    def wait_for_backfill(self, done: int, *, timeout: float) -> bool:
        """Wait until so many messages of the backfill are done, or the seconds are over."""
        with self._changed:
            return self._changed.wait_for(lambda: self._backfill_done >= done, timeout)

    def wait_for_all(self, messages: int, *, timeout: float) -> bool:
        """Wait until so many are done or dead-lettered, or the seconds are over."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._finished) + self._given_up >= messages, timeout)

    @property
    def quiet_seconds(self) -> float:
        """Seconds since a handler last started or ended anything."""
        return time.monotonic() - self._last_change

    def done(self) -> Counter[str]:
        """Messages done, by lane."""
        with self._changed:
            return Counter(self._done)

    def yields(self) -> Counter[str]:
        """Yields in the consumer's words, by lane."""
        with self._changed:
            return Counter(self._yields)

    def effects(self) -> list[Effect]:
        """All effects so far, those that never ended among them."""
        with self._changed:
            return [*self._effects, *self._open.values()]
