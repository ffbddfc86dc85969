"""
Follow the log: each event once, although lines arrive late and out of order.

CloudWatch shows a line seconds after it was printed, sometimes a minute, and the lines of several streams in no common
order. So each read starts a little before the latest line, and every half minute well before it; the ids of the lines
shown are kept for as long as they can appear again.
"""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

from lanes.events import Event
from lanes.message_filter import is_like
from lanes.operate.history.descriptions import describe
from lanes.operate.history.log import read_event

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.operate.history.log import LogEvent, Logs, MessageEvent

NEAR, FAR = 10.0, 120.0
"""Seconds before the latest line at which a read starts: by default, and every `FAR_EVERY` seconds."""
FAR_EVERY = 30.0
EVERY_EVENT = ("event",)
"""A text in every line with an event."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """
    Selects events; an event must match every attribute that is set.

    Attributes:
        lane: of this lane; empty for all.
        kind: of messages of this kind; `*` matches any characters.
        group: of messages of this group.
        events: with one of these names, such as `message_failed`, or labels, such as `failed`.
    """

    lane: str = ""
    kind: str = ""
    group: str = ""
    events: Sequence[str] = ()

    @property
    def containing(self) -> Sequence[str]:
        """Texts of which every matching line contains one."""
        kind = "" if any(character in self.kind for character in "*?[") else self.kind
        # The rarest text: CloudWatch returns each line that contains it, page by page.
        if one := self.group or kind:
            return (one,)
        if names := self._names():
            return names
        return (self.lane,) if self.lane else EVERY_EVENT

    def _names(self) -> Sequence[str]:
        """Return the names of the events; none if one may be of a later release."""
        by_word = {word: [event for event in Event if word in (event, event.label)] for word in self.events}
        return tuple(name for names in by_word.values() for name in names) if all(by_word.values()) else ()

    def select(self, event: LogEvent) -> list[MessageEvent] | None:
        """Return the event of each message that matches; None if the event does not match."""
        if self.lane and event.lane != self.lane:
            return None
        if self.events and not {event.name, describe(event.name, event.fields)[0]} & set(self.events):
            return None
        events = event.by_message()
        if not self.kind and not self.group:
            return events
        return [one for one in events if self._matches(one)] or None

    def _matches(self, event: MessageEvent) -> bool:
        kind = not self.kind or is_like(event.kind, self.kind)
        return kind and (not self.group or event.group == self.group)


class Tail:
    """
    Follows the log.

    Each event is returned once, if it appears in the log within 80 seconds of its time.

    Args:
        logs: the function's log.
        since: start, in epoch seconds.
        containing: texts of which each line contains one.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        logs: Logs,
        *,
        since: float,
        containing: Sequence[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logs = logs
        self._since = since
        self._containing = containing
        self._clock = clock
        self._latest: float | None = None
        self._far_at = clock()
        self._shown: dict[str, float] = {}

    def read(self) -> list[LogEvent]:
        """Return the new events in order; raises `AwsError`."""
        found = []
        for line in self._logs.lines(since=self._start(), containing=self._containing):
            # Reads overlap, so a line may come several times.
            if line.id in self._shown:
                continue
            self._shown[line.id] = line.at
            self._latest = line.at if self._latest is None else max(self._latest, line.at)
            if event := read_event(line):
                found.append(event)
        self._forget()
        # CloudWatch returns lines by log stream, and each environment has a stream of its own.
        return sorted(found, key=lambda event: (event.line.at, event.line.id))

    def _start(self) -> float:
        """Return where to start reading: relative to the latest line, as the function's clock decides."""
        if self._latest is None:
            return self._since
        now = self._clock()
        far = now - self._far_at >= FAR_EVERY
        if far:
            self._far_at = now
        return max(self._since, self._latest - (FAR if far else NEAR))

    def _forget(self) -> None:
        if self._latest is not None:
            # No read starts earlier, so no older line comes again.
            oldest = self._latest - FAR
            self._shown = {one: at for one, at in self._shown.items() if at >= oldest}
