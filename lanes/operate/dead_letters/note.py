"""
Read the consumer's note on a dead letter.

SQS moves a message to its dead-letter queue with the attributes of its sender, so a note may be one that any sender
wrote. Fields in a form that the consumer never writes are left out: no note breaks the list of all dead letters.
"""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LATEST = 253_402_300_799
"""The last second of the year 9999 in epoch seconds, the end of Python's dates."""
LONGEST_ID = 128
"""AWS: the most characters of a deduplication id (API_SendMessage); a message id has 36."""


def read_note(text: str) -> dict[str, Any]:
    """Return the fields of a note that are as the consumer writes them; empty if it is not a note."""
    try:
        note = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(note, dict):
        return {}
    return {name: value for name, value in note.items() if name in FIELDS and FIELDS[name](value)}


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_id(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and value.isprintable() and len(value) <= LONGEST_ID


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_time(value: object) -> bool:
    # NaN is within no bounds.
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LATEST


def _are_attributes(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_attribute, value.values()))


def _is_attribute(value: object) -> bool:
    """Check an attribute of the original that had to make room for the note; its binary value is in base64."""
    if not isinstance(value, dict) or not all(map(_is_text, value.values())):
        return False
    if value.keys() == {"DataType", "BinaryValue"}:
        with suppress(ValueError):
            return bool(base64.b64decode(value["BinaryValue"], validate=True))
    return value.keys() == {"DataType", "StringValue"}


FIELDS: Mapping[str, Callable[[object], bool]] = {
    "reason": _is_text,
    "error": _is_text,
    "attempts": _is_count,
    "yields": _is_count,
    "receives": _is_count,
    "first_received_at": _is_time,
    "dead_lettered_at": _is_time,
    "lane": _is_text,
    "message_id": _is_id,
    "deduplication_id": _is_id,
    "sent_at": _is_time,
    "attributes": _are_attributes,
}
"""Each field of a note with the test that its values pass."""
