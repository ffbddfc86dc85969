"""The form of a message's data on the wire: JSON, also of dataclasses, models, structs, times, decimals and enums."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable  # noqa: TC003 - read when the table below is made
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID


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
