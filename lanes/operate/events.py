"""
What the function tells in its log: lines, the events in them, and what each tells of single messages.

Owns the words line (of a log) and tale: what one event tells of one message. An event that this release doesn't know is
read all the same, as long as it has an `event` and, if it is of a message, a `message_id`.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """
    One line of a log.

    Attributes:
        id: unique in its log group.
        at: epoch seconds.
        text: what was printed.
    """

    id: str
    at: float
    text: str


class Logs(Protocol):
    """Reads the log of the function."""

    def lines(self, *, since: float, until: float | None = None, containing: str = "") -> Iterable[LogLine]:
        """Return the lines of a time, as far as they can be told to contain a text; raises `AwsError`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tale:
    """
    What one event tells of one message.

    Attributes:
        at: epoch seconds.
        event: the event's name.
        lane: the lane's name.
        message_id: what SQS calls the message.
        id: the message's own id; empty where the event doesn't say.
        kind: the same.
        group: the same.
        receive: which receive of the message it tells of; None where it is no receive.
        fields: everything that the event says.
    """

    at: float
    event: str
    lane: str
    message_id: str
    id: str
    kind: str
    group: str
    receive: int | None
    fields: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LogEvent:
    """One event of the log, with what it tells of each message; of none where it tells of no single ones."""

    line: LogLine
    name: str
    fields: Mapping[str, Any]

    @property
    def lane(self) -> str:
        """The lane's name, empty where the event has none."""
        return str(self.fields.get("lane") or "")

    def tales(self) -> list[Tale]:
        """Return what it tells of each message."""
        fields = self.fields
        if "message_id" in fields:
            return [self._tale(fields)]
        of_each = fields.get("messages")
        if isinstance(of_each, list):
            return [self._tale(one) for one in of_each if isinstance(one, dict) and "message_id" in one]
        ids = fields.get("message_ids")
        return [self._tale({"message_id": one}) for one in ids] if isinstance(ids, list) else []

    def _tale(self, one: Mapping[str, Any]) -> Tale:
        receive = one.get("receive_count")
        return Tale(
            at=self.line.at,
            event=self.name,
            lane=self.lane,
            message_id=str(one["message_id"]),
            id=str(one.get("id") or ""),
            kind=str(one.get("kind") or ""),
            group=str(one.get("group") or ""),
            receive=receive if isinstance(receive, int) else None,
            fields=self.fields,
        )


def event_of(line: LogLine) -> LogEvent | None:
    """Read the event of a line; None where it is none, as metrics and a handler's own words are not."""
    if not line.text.startswith("{"):
        return None
    try:
        fields = json.loads(line.text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or not isinstance(fields.get("event"), str):
        return None
    return LogEvent(line=line, name=fields["event"], fields=fields)
