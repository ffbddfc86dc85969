"""Messages to send as an operator writes them: one in options, or many in a file with one JSON object a line."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from lanes.config_table import nearest
from lanes.errors import InvalidMessageError, MessageError
from lanes.message import Message
from lanes.priority import Priority

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

KEYS = ("kind", "data", "group", "priority", "id", "deduplication_id", "source", "traceparent")
SOURCE = "lanes send"
MOST_LISTED = 20


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A message and the line that it was read from."""

    number: int
    message: Message


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
