"""Messages to send as an operator writes them: one in options, or many in a file with one JSON object a line."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

from lanes.config_table import nearest
from lanes.errors import InvalidMessageError, MessageError, PartialSendError, SendError
from lanes.message import Message
from lanes.priority import Priority

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lanes.config import LanesConfig
    from lanes.outgoing import SentMessage

KEYS = ("kind", "data", "group", "priority", "id", "deduplication_id", "source", "traceparent")
SOURCE = "lanes send"
MOST_LISTED = 20
AT_ONCE = 1_000
NOT_TRIED = "not tried, or not known"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A message and the line that it was read from."""

    number: int
    message: Message


class Sender(Protocol):
    """What sends messages, as `Producer` does."""

    def send_many(self, messages: Iterable[Message]) -> Sequence[SentMessage]:
        """Send messages; raises `PartialSendError` where some could not be."""


class Sending:
    """
    Lines on their way to their lanes, and what became of each.

    Args:
        lines: what to send, in this order.
        config: the lanes.
    """

    def __init__(self, lines: Sequence[Line], *, config: LanesConfig) -> None:
        self.lines = lines
        self._config = config
        self._sent: dict[int, SentMessage] = {}
        self._failed: dict[int, str] = {}

    @property
    def count(self) -> int:
        """How many were sent."""
        return len(self._sent)

    def run(self, sender: Sender, *, report: Callable[[int], None]) -> None:
        """
        Send in parts; after one that fails, the later ones are not tried.

        Args:
            sender: sends.
            report: gets how many were sent, after each part.

        Raises:
            SendError: some were not sent; it lists them by line.
        """
        for start in range(0, len(self.lines), AT_ONCE):
            part = self.lines[start : start + AT_ONCE]
            try:
                sent = sender.send_many([line.message for line in part])
            except PartialSendError as error:
                self._note_partly(part, error)
                raise SendError(self._words()) from error
            self._sent |= {line.number: one for line, one in zip(part, sent, strict=True)}
            report(self.count)

    def planned(self) -> list[dict[str, Any]]:
        """Tell where each line would go."""
        return [
            {
                "id": line.message.id,
                "lane": self._lane(line),
                "kind": line.message.kind,
                "group": line.message.message_group_id,
            }
            for line in self.lines
        ]

    def rows(self) -> list[dict[str, Any]]:
        """Tell what became of each line."""
        return [self._row(line) for line in self.lines]

    def planned_by_lane(self) -> list[dict[str, Any]]:
        """Count where the lines would go, the highest lane first."""
        lanes = Counter(self._lane(line) for line in self.lines)
        names = [lane.name for lane in self._config.lanes if lane.name in lanes]
        return [{"lane": name, "messages": lanes[name]} for name in names]

    def by_lane(self) -> list[dict[str, Any]]:
        """Count what became of the lines, the highest lane first."""
        sent = Counter(one.lane for one in self._sent.values())
        return [{**row, "sent": sent[row["lane"]]} for row in self.planned_by_lane()]

    def _row(self, line: Line) -> dict[str, Any]:
        sent = self._sent.get(line.number)
        return {
            "line": line.number,
            "id": line.message.id,
            "lane": self._lane(line),
            "message_id": sent.message_id if sent else None,
            "sequence_number": sent.sequence_number if sent else None,
            "error": None if sent else self._failed.get(line.number, NOT_TRIED),
        }

    def _lane(self, line: Line) -> str:
        return self._config.lane_for(line.message.priority or 0).name

    def _note_partly(self, part: Sequence[Line], error: PartialSendError) -> None:
        sent = {one.id: one for one in error.sent}
        reasons = {unsent.message.id: unsent.reason for unsent in error.failed}
        for line in part:
            if line.message.id in reasons:
                self._failed[line.number] = reasons[line.message.id]
            elif line.message.id in sent:
                self._sent[line.number] = sent[line.message.id]

    def _words(self) -> str:
        """List what was not sent by its lines."""
        listed = [f"\n  - line {number}: {why}" for number, why in self._failed.items()]
        more = f"\n  - and {len(listed) - MOST_LISTED} more" if len(listed) > MOST_LISTED else ""
        tried = self._sent.keys() | self._failed.keys()
        later = [line.number for line in self.lines if line.number not in tried]
        rest = f"\n  - lines {later[0]} to {later[-1]} were not tried" if later else ""
        return f"{self.count} of {len(self.lines)} were sent{''.join(listed[:MOST_LISTED])}{more}{rest}"


def read_lines(lines: Iterable[str]) -> list[Line]:
    """
    Read messages, one JSON object a line with the keys of `KEYS`; empty lines are skipped.

    Raises:
        InvalidMessageError: with everything that is wrong, each by its line.
    """
    found: list[Line] = []
    problems: list[str] = []
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        try:
            message = message_of(_object(text))
            message.to_body()
        except MessageError as error:
            problems.append(f"line {number}: {error}")
        else:
            found.append(Line(number=number, message=message))
    if problems:
        rest = [f"and {len(problems) - MOST_LISTED} more"] if len(problems) > MOST_LISTED else []
        raise InvalidMessageError(["nothing was sent", *problems[:MOST_LISTED], *rest])
    return found


def message_of(given: Mapping[str, Any]) -> Message:
    """
    Build a message from its keys; what is missing takes the message's own defaults.

    Raises:
        InvalidMessageError: a key is unknown or missing, or the priority is none.
    """
    problems = [f"unknown key {key!r}{nearest(key, KEYS)}" for key in given if key not in KEYS]
    if "kind" not in given:
        problems.append("kind is missing")
    if problems:
        raise InvalidMessageError(problems)
    values = {key: value for key, value in given.items() if value is not None or key == "data"}
    if "priority" in values:
        values["priority"] = read_priority(values["priority"])
    return Message(**{"source": SOURCE, **values})


def read_priority(value: object) -> int:
    """
    Read a priority: an int, a text of one, or a name such as HIGH.

    Raises:
        InvalidMessageError: it is neither.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    names = [level.name for level in Priority]
    if isinstance(value, str):
        if value.upper() in names:
            return int(Priority[value.upper()])
        try:
            return int(value)
        except ValueError:
            pass
    raise InvalidMessageError(
        [f"priority is {value!r}; a whole number or one of {', '.join(names)} is needed"]
    )


def read_data(text: str) -> Any:
    """
    Read data from a command line.

    Raises:
        InvalidMessageError: it is no JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidMessageError(
            [f"the data is no JSON: {error}; a text needs its quotes: '\"text\"'"]
        ) from error


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidMessageError([f"no JSON: {error}"]) from error
    if not isinstance(value, dict):
        raise InvalidMessageError(["one JSON object is needed"])
    return value
