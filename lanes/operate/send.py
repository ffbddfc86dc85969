"""Send messages by hand: one from options, or many from a file with one JSON object a line."""

from __future__ import annotations

import dataclasses
import json
import time
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from lanes.config.table import nearest, parse_duration
from lanes.encoding import member_places
from lanes.errors import InvalidMessageError, MessageError, SendError
from lanes.message import JsonText, Message, expiry_of
from lanes.priority import Priority
from lanes.producer.outgoing import PartialSendError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lanes.config import LanesConfig
    from lanes.producer.outgoing import SentMessage

KEYS = ("kind", "data", "group", "priority", "id", "deduplication_id", "source", "traceparent", "expires")
SOURCE = "lanes send"
MAX_LISTED = 20
# After an interrupt the results of one part are unknown, so parts are small; each still fills a hundred batch calls.
BATCH = 1_000
NOT_TRIED = ("NotTried", "not tried, or not known")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A message, and its line in the file."""

    number: int
    message: Message


class Sender(Protocol):
    """Sends messages, for example a `Producer`."""

    def send_many(self, messages: Iterable[Message], *, not_before: datetime | None) -> Sequence[SentMessage]:
        """Send messages, now or later; raises `PartialSendError` if some could not be sent."""


class Sending:
    """
    Lines to send, and the result of each.

    Args:
        lines: the lines, in order.
        config: the lanes.
    """

    def __init__(self, lines: Sequence[Line], *, config: LanesConfig) -> None:
        self.lines = lines
        self._config = config
        self._sent: dict[int, SentMessage] = {}
        self._failed: dict[int, tuple[str, str]] = {}

    @property
    def count(self) -> int:
        """Number of messages sent."""
        return len(self._sent)

    def run(
        self, sender: Sender, *, report: Callable[[int], None], not_before: datetime | None = None
    ) -> None:
        """
        Send in parts, up to the first part that fails.

        Args:
            sender: sends messages.
            report: receives the number of messages sent, after each part.
            not_before: time before which none is in its lane.

        Raises:
            SendError: some were not sent; the error lists them by line.
        """
        for start in range(0, len(self.lines), BATCH):
            part = self.lines[start : start + BATCH]
            try:
                sent = sender.send_many([line.message for line in part], not_before=not_before)
            except PartialSendError as error:
                self._add_results(part, error)
                raise SendError(self._summary()) from error
            self._sent |= {line.number: one for line, one in zip(part, sent, strict=True)}
            report(self.count)

    def planned(self) -> list[dict[str, Any]]:
        """Return the lane of each line."""
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
        """Return the result of each line."""
        return [self._row(line) for line in self.lines]

    def planned_by_lane(self) -> list[dict[str, Any]]:
        """Count the lines by lane, the highest lane first."""
        lanes = Counter(self._lane(line) for line in self.lines)
        names = [lane.name for lane in self._config.lanes if lane.name in lanes]
        return [{"lane": name, "messages": lanes[name]} for name in names]

    def by_lane(self) -> list[dict[str, Any]]:
        """Count the results by lane, the highest lane first."""
        sent = Counter(one.lane for one in self._sent.values())
        return [{**row, "sent": sent[row["lane"]]} for row in self.planned_by_lane()]

    def _row(self, line: Line) -> dict[str, Any]:
        sent = self._sent.get(line.number)
        code, error = (None, None) if sent else self._failed.get(line.number, NOT_TRIED)
        return {
            "line": line.number,
            "id": line.message.id,
            "lane": self._lane(line),
            "message_id": sent.message_id if sent else None,
            "sequence_number": sent.sequence_number if sent else None,
            "not_before": sent.not_before.isoformat() if sent and sent.not_before else None,
            "code": code,
            "error": error,
        }

    def _lane(self, line: Line) -> str:
        return self._config.lane_for(line.message.priority or 0).name

    def _add_results(self, part: Sequence[Line], error: PartialSendError) -> None:
        reasons = {unsent.message.identity: (unsent.code, unsent.reason) for unsent in error.failed}
        # The error lists the sent ones in the order of the part.
        sent = iter(error.sent)
        for line in part:
            if line.message.identity in reasons:
                self._failed[line.number] = reasons[line.message.identity]
            elif (one := next((one for one in sent if one.id == line.message.id), None)) is not None:
                self._sent[line.number] = one

    def _summary(self) -> str:
        """List the unsent messages by line."""
        listed = [f"\n  - line {number}: {why}" for number, (_, why) in self._failed.items()]
        more = f"\n  - and {len(listed) - MAX_LISTED} more" if len(listed) > MAX_LISTED else ""
        tried = self._sent.keys() | self._failed.keys()
        later = [line.number for line in self.lines if line.number not in tried]
        rest = f"\n  - lines {later[0]} to {later[-1]} were not tried" if later else ""
        return f"{self.count} of {len(self.lines)} were sent{''.join(listed[:MAX_LISTED])}{more}{rest}"


def read_lines(lines: Iterable[str], defaults: Mapping[str, Any] | None = None) -> list[Line]:
    """
    Read messages, one JSON object with the keys of `KEYS` a line; empty lines are skipped.

    Args:
        lines: the lines.
        defaults: values of keys that a line lacks.

    Raises:
        InvalidMessageError: with all problems by line.
    """
    found: list[Line] = []
    problems: list[str] = []
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        try:
            given = {key: value for key, value in _object(text).items() if value is not None or key == "data"}
            message = message_of({**(defaults or {}), **given})
            message.to_body()
        except MessageError as error:
            problems.append(f"line {number}: {error}")
        else:
            found.append(Line(number=number, message=message))
    if problems:
        rest = [f"and {len(problems) - MAX_LISTED} more"] if len(problems) > MAX_LISTED else []
        raise InvalidMessageError(["nothing was sent", *problems[:MAX_LISTED], *rest])
    return found


def message_of(keys: Mapping[str, Any]) -> Message:
    """
    Build a message from its keys, with the message's own defaults.

    Raises:
        InvalidMessageError: a key is unknown or missing, or the priority or the time is invalid.
    """
    problems = [f"unknown key {key!r}{nearest(key, KEYS)}" for key in keys if key not in KEYS]
    if "kind" not in keys:
        problems.append("kind is missing")
    if problems:
        raise InvalidMessageError(problems)
    # A null is a key left out, but for `data`, where it is a value.
    values = {key: value for key, value in keys.items() if value is not None or key == "data"}
    if "priority" in values:
        values["priority"] = read_priority(values["priority"])
    if "expires" in values:
        values["expires"] = read_moment("expires", values["expires"])
    return Message(**{"source": SOURCE, **values})


def read_moment(name: str, value: object) -> datetime | None:
    """
    Read a time: ISO 8601 with a zone, or a duration from now such as 15m.

    Args:
        name: of the key or option, for the error.
        value: as it was given.

    Raises:
        InvalidMessageError: it is neither.
    """
    if isinstance(value, str):
        if (duration := parse_duration(value)) is not None:
            return expiry_of(duration, now=time.time())
        try:
            if (read := datetime.fromisoformat(value)).utcoffset() is not None:
                return read
        except ValueError:
            pass
    raise InvalidMessageError(
        [
            f"{name} is {value!r}; a time with a zone such as 2026-01-31T12:00Z or a duration such as 15m is needed"
        ]
    )


def read_priority(value: object) -> int:
    """
    Read a priority: a number, as int or text, or a name such as HIGH.

    Raises:
        InvalidMessageError: it is invalid.
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
        InvalidMessageError: it is not JSON.
    """
    try:
        return JsonText(text).checked()
    except ValueError as error:
        raise InvalidMessageError(
            [f"the data is not JSON: {error}; a text needs its quotes: '\"text\"'"]
        ) from error


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidMessageError([f"no JSON: {error}"]) from error
    if not isinstance(value, dict):
        raise InvalidMessageError(["one JSON object is needed"])
    if "data" in value:
        start, end = member_places(text)["data"]
        value["data"] = JsonText(text[start:end])
    return value
