"""
Events as they happen: each once, although the log is late and out of order.

CloudWatch shows a line seconds after it was printed, sometimes a minute, and lines of several streams in no common
order. So each look goes back a little behind the latest line seen, now and then a lot, and what was shown is remembered
for as long as it can come again.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import time
from typing import TYPE_CHECKING

from lanes.operate.event_words import words_of
from lanes.operate.events import event_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.operate.events import LogEvent, Logs, Tale

NEAR, FAR = 10.0, 120.0
"""Seconds by which a look goes back behind the latest line seen: usually, and every `FAR_EVERY` seconds."""
FAR_EVERY = 30.0
EVENT = "event"
"""What every line with an event contains."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """
    Which events are meant: those that fulfil all of it.

    Attributes:
        lane: of this lane; empty for all.
        kind: of messages of this kind; `*` and `?` stand for any characters.
        group: of messages of this group.
        events: of these names, such as `message_failed`, or words, such as `failed`.
    """

    lane: str = ""
    kind: str = ""
    group: str = ""
    events: Sequence[str] = ()

    @property
    def containing(self) -> str:
        """A text that every line which is meant contains."""
        kind = "" if any(character in self.kind for character in "*?[") else self.kind
        name = self.events[0] if len(self.events) == 1 and "_" in self.events[0] else ""
        return self.group or kind or name or self.lane or EVENT

    def meant(self, event: LogEvent) -> list[Tale] | None:
        """Return what the event tells of messages that are meant; None where it is not meant at all."""
        if self.lane and event.lane != self.lane:
            return None
        if self.events and not {event.name, words_of(event.name, event.fields)[0]} & set(self.events):
            return None
        tales = event.tales()
        if not self.kind and not self.group:
            return tales
        return [tale for tale in tales if self._of_message(tale)] or None

    def _of_message(self, tale: Tale) -> bool:
        kind = not self.kind or fnmatch.fnmatchcase(tale.kind, self.kind)
        return kind and (not self.group or tale.group == self.group)


class Tail:
    """
    Follows the log.

    An event is shown once, and not missed if it is in the log within 80 seconds of its time.

    Args:
        logs: the function's log.
        since: from when on, in epoch seconds.
        containing: a text that the lines contain.
        clock: seconds that only grow.
    """

    def __init__(
        self, logs: Logs, *, since: float, containing: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._logs = logs
        self._since = since
        self._containing = containing
        self._clock = clock
        self._latest: float | None = None
        self._far_at = clock()
        self._shown: dict[str, float] = {}

    def look(self) -> list[LogEvent]:
        """Return the events that were not returned before, in the order of their times; raises `AwsError`."""
        found = []
        for line in self._logs.lines(since=self._from(), containing=self._containing):
            if line.id in self._shown:
                continue
            self._shown[line.id] = line.at
            self._latest = line.at if self._latest is None else max(self._latest, line.at)
            if event := event_of(line):
                found.append(event)
        self._forget()
        return sorted(found, key=lambda event: (event.line.at, event.line.id))

    def _from(self) -> float:
        """Return how far back to look: from the latest line seen, whose clock is the one that counts."""
        if self._latest is None:
            return self._since
        now = self._clock()
        far = now - self._far_at >= FAR_EVERY
        if far:
            self._far_at = now
        return max(self._since, self._latest - (FAR if far else NEAR))

    def _forget(self) -> None:
        if self._latest is not None:
            oldest = self._latest - FAR
            self._shown = {one: at for one, at in self._shown.items() if at >= oldest}
