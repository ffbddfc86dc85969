"""
Bodies that are sent on: the same to the last character but for the members that change, and texts in them.

Also the attributes of messages that are sent on.
"""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

TRACE_HEADER = "AWSTraceHeader"
"""AWS: the tracing header of X-Ray that SQS keeps beside a message of a traced sender (API_ReceiveMessage)."""
SPACE = re.compile(r"[ \t\r\n]*")
_decoder = json.JSONDecoder()


def with_priority(body: str, priority: int) -> str:
    """
    Return an event's body with another priority and nothing else changed, its numbers and spaces included.

    Args:
        body: a JSON object, as it was decoded before.
        priority: the new one.

    Example:
        >>> with_priority('{"id": "a", "data": 1.10}', 50)
        '{"priority":50,"id": "a", "data": 1.10}'
    """
    return with_members(body, {"priority": str(priority)})


def with_members(body: str, changes: Mapping[str, str]) -> str:
    """
    Return a JSON object with other values for some members, and nothing else changed.

    Args:
        body: the object, as it was decoded before.
        changes: the new values by name, as JSON; missing members are added.
    """
    places = member_places(body)
    for start, end, value in sorted(
        ((*places[name], changes[name]) for name in changes if name in places), reverse=True
    ):
        body = f"{body[:start]}{value}{body[end:]}"
    start = _after_space(body, 0) + 1
    added = "".join(f"{json.dumps(name)}:{value}," for name, value in changes.items() if name not in places)
    return f"{body[:start]}{added if places else added[:-1]}{body[start:]}"


def member_places(text: str) -> dict[str, tuple[int, int]]:
    """Return where the value of each member of a JSON object begins and ends; of a repeated name the last counts."""
    places: dict[str, tuple[int, int]] = {}
    place = _after_space(text, _after_space(text, 0) + 1)
    while text[place] == '"':
        key, place = _decoder.raw_decode(text, place)
        start = _after_space(text, _after_space(text, place) + 1)
        _, place = _decoder.raw_decode(text, start)
        places[key] = start, place
        place = _after_space(text, place)
        if text[place] == "}":
            break
        place = _after_space(text, place + 1)
    return places


def _after_space(text: str, place: int) -> int:
    match = SPACE.match(text, place)
    return place if match is None else match.end()


def sendable_attribute(value: Mapping[str, Any]) -> dict[str, Any]:
    """Turn an attribute of a Lambda event (lower-case keys) into one that SendMessage takes."""
    sendable: dict[str, Any] = {"DataType": value["dataType"]}
    # AWS: a type may have a suffix of your own, such as Binary.png (SQS, message attributes).
    if value["dataType"].startswith("Binary"):
        binary = value["binaryValue"]
        sendable["BinaryValue"] = base64.b64decode(binary) if isinstance(binary, str) else binary
    else:
        sendable["StringValue"] = value["stringValue"]
    return sendable


def sendable_trace(header: str | None) -> Any:
    """Return the parameter of SendMessage that passes on X-Ray's tracing header; empty without one."""
    if not header:
        return {}
    # AWS: by it X-Ray links the traces of senders to that of the consumer; it counts towards no quota of the message
    # (X-Ray developer guide, "Amazon SQS").
    return {"MessageSystemAttributes": {TRACE_HEADER: {"DataType": "String", "StringValue": header}}}


def attribute_bytes(name: str, value: Mapping[str, Any]) -> int:
    """Return what an attribute, as SendMessage takes it, adds to the size of its message."""
    # AWS: name, type and value of an attribute count towards the size of a message (API_SendMessage).
    content = value.get("BinaryValue") or value.get("StringValue", "").encode()
    return len(name) + len(value["DataType"]) + len(content)
