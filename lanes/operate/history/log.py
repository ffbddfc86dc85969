"""
The function's log: its lines, the events in them, and the part of each event that concerns one message.

Events of a later release are read as well, as long as they have an `event` and, if they concern a message, a
`message_id`.
"""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from lanes.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
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
