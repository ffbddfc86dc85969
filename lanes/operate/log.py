"""Read the function's log: its lines, the events in them, and new ones as they come."""

from __future__ import annotations

import dataclasses
import json
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from lanes.errors import ConfigurationError
from lanes.events import Event
from lanes.message_filter import is_like
from lanes.operate.descriptions import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """
    One line of a log.

    Attributes:
        id: unique in its log group.
        at: epoch seconds.
        text: the line as it was printed.
        stream: the log stream, one for each environment of the function; empty for a file.
    """

    id: str
    at: float
    text: str
    stream: str = ""


class Logs(Protocol):
    """The log of the function."""

    def lines(
        self, *, since: float, until: float | None = None, containing: Sequence[str] = ()
    ) -> Iterable[LogLine]:
        """
        Return the lines of a period.

        If texts are given, return at least the lines that contain one of them; others may be among them.

        Raises:
            AwsError: the log could not be read.
        """


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MessageEvent:
    """
    One event of one message.

    Attributes:
        at: epoch seconds.
        event: the event's name.
        lane: the lane's name.
        message_id: the message ID of SQS.
        id: the message's own id; empty if the event has none.
        kind: the message's kind; empty if the event has none.
        group: the message's group; empty if the event has none.
        receive: the receive of the message that it reports; None if it reports none.
        sent_at: when the message was sent, epoch seconds; None if the event does not say.
        fields: all fields of the event.
    """

    at: float
    event: str
    lane: str
    message_id: str
    id: str
    kind: str
    group: str
    receive: int | None
    sent_at: float | None
    fields: Mapping[str, Any]

    @property
    def delay(self) -> float | None:
        """Seconds for which the message stays invisible after the event; None if the event has no delay."""
        delay = self.fields.get("delay")
        return delay if isinstance(delay, int | float) else None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LogEvent:
    """One event of the log."""

    line: LogLine
    name: str
    fields: Mapping[str, Any]

    @property
    def lane(self) -> str:
        """The lane's name; empty if the event has none."""
        return str(self.fields.get("lane") or "")

    def by_message(self) -> list[MessageEvent]:
        """Return one event for each message that it names."""
        fields = self.fields
        # An event is of one message, of a batch, or of woken records, of which only the ids are known.
        if "message_id" in fields:
            return [self._of_message(fields)]
        messages = fields.get("messages")
        if isinstance(messages, list):
            return [
                self._of_message(one) for one in messages if isinstance(one, dict) and "message_id" in one
            ]
        ids = fields.get("message_ids")
        return [self._of_message({"message_id": one}) for one in ids] if isinstance(ids, list) else []

    def _of_message(self, message: Mapping[str, Any]) -> MessageEvent:
        receive, sent_at = message.get("receive_count"), message.get("sent_at")
        return MessageEvent(
            at=self.line.at,
            event=self.name,
            lane=self.lane,
            message_id=str(message["message_id"]),
            id=str(message.get("id") or ""),
            kind=str(message.get("kind") or ""),
            group=str(message.get("group") or ""),
            receive=receive if isinstance(receive, int) else None,
            sent_at=sent_at if isinstance(sent_at, int | float) else None,
            fields=self.fields,
        )


def read_event(line: LogLine) -> LogEvent | None:
    """Read the event of a line; None for other lines, such as metrics and a handler's own output."""
    # Lambda's own lines and a handler's prints are most of a log: parsing them all would take far longer.
    if not line.text.startswith("{"):
        return None
    try:
        fields = json.loads(line.text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or not isinstance(fields.get("event"), str):
        return None
    return LogEvent(line=line, name=fields["event"], fields=fields)


class LogFiles:
    """
    Reads lines from files.

    A line without a time has the time of the line before it.

    Args:
        paths: the files.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths

    def lines(
        self, *, since: float, until: float | None = None, containing: Sequence[str] = ()
    ) -> Iterator[LogLine]:
        """
        Return the lines of a period; if texts are given, only those that contain one of them.

        Raises:
            ConfigurationError: a file could not be read.
        """
        end = float("inf") if until is None else until
        for path in self._paths:
            for line in self._lines_of(path):
                is_wanted = not containing or any(text in line.text for text in containing)
                if is_wanted and since <= line.at <= end:
                    yield line

    def _lines_of(self, path: Path) -> Iterator[LogLine]:
        at = 0.0
        try:
            with path.open(encoding="utf-8", errors="replace") as stream:
                for number, text in enumerate(stream, start=1):
                    # Tracebacks and prints have no time, and belong to the line before them.
                    at = _time_of(text) or at
                    yield LogLine(id=f"{path}:{number}", at=at, text=text.rstrip("\n"))
        except OSError as error:
            raise ConfigurationError([f"can't be read: {error}"], source=str(path)) from error


def _time_of(text: str) -> float | None:
    if not text.startswith("{"):
        return None
    try:
        written = json.loads(text)["timestamp"]
        # As Powertools' logger writes it.
        return datetime.strptime(written, "%Y-%m-%d %H:%M:%S,%f%z").timestamp()
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


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
