"""
The form of a message on the wire: its data as JSON, also dataclasses, models, structs, times, decimals and enums.

A body that is sent on is the same to the last character but for the members that change. The default source is here
too: it is part of a message's identity, the same in every process of a program, so that a repeat from another process
is still a repeat, and different in two programs, so that they can use the same ids.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import re
import sys
from collections.abc import Callable  # noqa: TC003 - read when the table below is made
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Mapping


def encoded(value: Any) -> str:
    """
    Write a value as compact JSON.

    Raises:
        TypeError: a part of it has no form in JSON.
        ValueError: a number or a decimal is not finite, the value contains itself, or two keys of a mapping are one
            in JSON, such as `1` and `"1"`.
        RecursionError: it is nested too deep.
    """
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"), default=_plain)
    _refuse_collisions(value)
    return text


def _plain(value: Any) -> Any:
    """Return a value of another type in the types of JSON."""
    kind = type(value)
    # Before the forms: the missing time of pandas is a datetime too.
    if kind.__name__ in _MISSING:
        raise TypeError(f"{kind.__name__} has no form in JSON; pass None")
    # An integer of NumPy is none of Python's.
    if kind.__module__ == "numpy" and getattr(value, "shape", None) == ():
        return _of_numpy(value)
    if hasattr(kind, "__pydantic_serializer__"):
        return _of_pydantic(value)
    if hasattr(kind, "__struct_fields__"):
        import msgspec

        struct = msgspec.to_builtins(value)
        _refuse_collisions(struct)
        return struct
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        plain: Any = {one.name: getattr(value, one.name) for one in dataclasses.fields(value) if one.init}
        _refuse_collisions(plain)
        return plain
    for form, write in _FORMS:
        if isinstance(value, form):
            return write(value)
    cure = _CURES.get(kind.__name__, "a value of JSON's types")
    raise TypeError(f"{kind.__name__} has no form in JSON; pass {cure}")


def _of_pydantic(value: Any) -> Any:
    """
    Return a model in the form that its own type reads; raises `TypeError` if it would arrive as another one.

    Each value is checked, which takes 4 µs: a field of a subclass or one that is excluded is lost in some of them only.
    """
    kind = type(value)
    if hasattr(value, "get_secret_value"):
        raise TypeError(
            f"{kind.__name__} is a secret, which has no form in JSON; pass value.get_secret_value()"
        )
    if not hasattr(kind, "__pydantic_validator__"):
        return kind.__pydantic_serializer__.to_python(value, mode="json")
    problem = ""
    for by_alias in (True, False):
        plain = kind.__pydantic_serializer__.to_python(
            value, mode="json", by_alias=by_alias, round_trip=True, warnings=False
        )
        try:
            read = kind.__pydantic_validator__.validate_json(json.dumps(plain))
        except ValueError as error:
            # The first one is about the form that the aliases ask for.
            errors: list[Any] = getattr(error, "errors", list)()
            problem = problem or "; ".join(
                f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in errors
            )
            continue
        if hasattr(value, "__pydantic_private__"):
            # Private attributes are no data.
            object.__setattr__(read, "__pydantic_private__", value.__pydantic_private__)
        if read == value:
            return plain
        fields = getattr(kind, "__pydantic_fields__", ())  # since pydantic 2.10
        names = [name for name in fields if getattr(read, name) != getattr(value, name)]
        changed = ", ".join(f"{name} ({type(getattr(value, name)).__name__})" for name in names)
        problem = changed or "its extra fields"
    cure = "pass plain data of your own, or change the model so that it reads what it writes"
    raise TypeError(f"{kind.__name__} would not arrive as it is sent: {problem}; {cure}")


def _of_numpy(value: Any) -> Any:
    """Return a scalar as one of Python's; its times may be finer, and missing ones count as times."""
    dtype = getattr(value, "dtype", None)
    if getattr(dtype, "names", None):
        # Its value for Python is a tuple, without their names.
        cure = "dict(zip(value.dtype.names, value.item()))"
        raise TypeError(f"{type(value).__name__} with fields has no form in JSON; pass {cure}")
    kind = getattr(dtype, "kind", "")
    if kind == "M" and (text := str(value)) != "NaT":
        return text
    plain = value.item()
    # One of Python's would be a number without its unit, or less exact.
    if kind in {"M", "m"} or type(plain).__module__ == "numpy":
        name = "NaT" if str(value) == "NaT" else type(value).__name__
        raise TypeError(f"{name} has no form in JSON; pass {_CURES.get(name, 'float(value)')}")
    return plain


def _decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise ValueError(f"{value} is not a finite number")
    # Not as a number, which most readers would round to a float.
    return str(value)


_FORMS: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (Enum, lambda value: value.value),
    # Its own method: a time of pandas has nanoseconds.
    (datetime, lambda value: value.isoformat()),
    (date, date.isoformat),
    (time, time.isoformat),
    (UUID, str),
    (Decimal, _decimal),
)


_CURES = {
    "timedelta": "value.total_seconds()",
    "bytes": "base64.b64encode(value).decode()",
    "set": "sorted(value)",
    "frozenset": "sorted(value)",
    "ndarray": "value.tolist()",
    "timedelta64": "value / numpy.timedelta64(1, 's')",
    "NaT": "None",
}
_MISSING = frozenset({"NAType", "NaTType"})
"""The missing values of pandas."""


def _refuse_collisions(value: Any) -> None:
    """Raise `ValueError` if two keys of a mapping are one in JSON: a reader would lose one of them."""
    if isinstance(value, dict):
        if not all(type(key) is str for key in value):
            written = [key if isinstance(key, str) else json.dumps(key) for key in value]
            if len(set(written)) < len(written):
                raise ValueError(f"two keys of an object with {len(written)} keys are the same in JSON")
        value = value.values()
    elif not isinstance(value, list | tuple):
        return
    for one in value:
        _refuse_collisions(one)


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


VARIABLE = "LANES_SOURCE"
# AWS: reserved, so a function always has it (Lambda developer guide, "Defined runtime environment variables").
FUNCTION = "AWS_LAMBDA_FUNCTION_NAME"
UNNAMED = "lanes"
"""The source of programs without a file of their own: an interactive session, `python -c`."""


def program_source() -> str:
    """Return LANES_SOURCE, the name of the Lambda function, or the name of the program's file."""
    return os.environ.get(VARIABLE) or os.environ.get(FUNCTION) or _program(sys.argv[0] if sys.argv else "")


def _program(file: str) -> str:
    path = PurePath(file)
    # `python -m package` runs the file __main__.py of the package's folder.
    name = path.parent.name if path.name == "__main__.py" else path.stem
    usable = name.isprintable() and not name.startswith("-")
    return name if name and usable else UNNAMED
