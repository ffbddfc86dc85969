"""
The data of a message in the type that its handler names, as in `Message[Order]`.

The type is a dataclass, a model with the method `model_validate`, as pydantic's have it, or a type that their fields
may have: see `reader_of`. pydantic itself is never imported.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import traceback
import types
from datetime import date, datetime
from enum import Enum
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NoReturn,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from lanes.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Read: TypeAlias = "Callable[[Any, str, list[str]], Any]"
"""Takes a value, its path such as `data.customer`, and the list for its problems; returns the value in its type."""

JSON_NAMES = {
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
    type(None): "null",
}
MOST_PROBLEMS = 10
"""The reason of a dead letter is an attribute of its message, and a long array has many items."""
SUPPORTED = (
    "a dataclass, a model with model_validate, bool, int, float, str, None, Any, list, dict with str keys, Literal, "
    "Enum, datetime, date, or a union of these"
)


def data_reader(handler: Callable[..., Any]) -> Callable[[Any], tuple[Any, str]] | None:
    """
    Return a function from JSON data to the type that a handler's first parameter names, and to the problems.

    None for a plain `Message`. The problems are one text, empty if the data fits.

    Raises:
        TypeError: the type can't be found or is none of those supported.
    """
    first = next(iter(inspect.signature(handler).parameters.values()), None)
    annotation = None if first is None else first.annotation
    if isinstance(annotation, str):
        annotation = _evaluated(annotation, handler)
    if get_origin(annotation) is not Message:
        return None
    (wanted,) = get_args(annotation)
    if wanted is Any or isinstance(wanted, TypeVar):
        return None
    reader = reader_of(wanted, {})

    def read(data: Any) -> tuple[Any, str]:
        value, problems = None, list[str]()
        try:
            value = reader(data, "data", problems)
        except KeyboardInterrupt:  # it ends the process
            raise
        except BaseException as error:  # noqa: BLE001 - the border to user code; or the data is nested too deep
            problems.append(_printed(error, "data"))
        more = [f"and {len(problems) - MOST_PROBLEMS} more problems"] if len(problems) > MOST_PROBLEMS else []
        return value, "; ".join([*problems[:MOST_PROBLEMS], *more])

    return read


def reader_of(wanted: Any, known: dict[Any, Read]) -> Read:
    """
    Return the reader of a type.

    No value is converted, except to a dataclass, a model, an enum's member, a datetime or a date. Of a union's types
    the first that fits is taken. A problem shows no value, since it may be confidential.

    Args:
        wanted: the type.
        known: readers of the dataclasses on the way to it, which may contain each other.

    Raises:
        TypeError: the type is not supported.
    """
    while hasattr(wanted, "__supertype__"):  # of NewType
        wanted = wanted.__supertype__
    if wanted is Any or wanted is object:
        return lambda value, _where, _problems: value
    if wanted in known:
        return known[wanted]
    return _of_form(wanted, known) or _of_class(wanted, known) or _unsupported(wanted)


def _of_form(wanted: Any, known: dict[Any, Read]) -> Read | None:
    """Return the reader of a type that has arguments, or could have some."""
    origin, arguments = get_origin(wanted) or wanted, get_args(wanted)
    if origin is Literal:
        return _choice({(type(one), one): one for one in arguments})
    if origin in (Union, types.UnionType):
        return _union(arguments, [reader_of(one, known) for one in arguments])
    if origin is list:
        return _array(reader_of(arguments[0] if arguments else Any, known))
    if origin is dict and (not arguments or arguments[0] is str):
        return _object(reader_of(arguments[1] if arguments else Any, known))
    return None


def _of_class(wanted: Any, known: dict[Any, Read]) -> Read | None:
    if wanted is None or wanted in JSON_NAMES:
        return _scalar(wanted or type(None))
    if not isinstance(wanted, type):
        return None
    if wanted in (datetime, date):
        return _time(wanted)
    if callable(getattr(wanted, "model_validate", None)):
        return _model(wanted)
    if issubclass(wanted, Enum):
        return _choice({(type(member.value), member.value): member for member in wanted})
    return _Record(wanted, known) if dataclasses.is_dataclass(wanted) else None


def _unsupported(wanted: Any) -> NoReturn:
    raise TypeError(f"data can't be read as {_name(wanted)}; supported are {SUPPORTED}")


def _scalar(wanted: type) -> Read:
    # JSON has one sort of number, so a whole one is a float as well.
    accepted = (int, float) if wanted is float else (wanted,)

    def read(value: Any, where: str, problems: list[str]) -> Any:
        # Not isinstance: True is an int in Python, and a boolean in JSON.
        return value if type(value) in accepted else _refuse(value, where, problems, JSON_NAMES[wanted])

    return read


def _time(wanted: type[date]) -> Read:
    name = f"an ISO 8601 {'date and time' if wanted is datetime else 'date'}"

    def read(value: Any, where: str, problems: list[str]) -> Any:
        try:
            return wanted.fromisoformat(value)
        except (TypeError, ValueError):
            return _refuse(value, where, problems, name, types=[str])

    return read


def _choice(choices: dict[tuple[type, Any], Any]) -> Read:
    """Return the reader of one of several values; their types count, since True equals 1."""
    types = [kind for kind, _ in choices]
    name = f"one of {', '.join(repr(value) for _, value in choices)}"

    def read(value: Any, where: str, problems: list[str]) -> Any:
        key = (type(value), None if isinstance(value, list | dict) else value)
        return choices[key] if key in choices else _refuse(value, where, problems, name, types=types)

    return read


def _union(arms: tuple[Any, ...], readers: list[Read]) -> Read:
    name = " or ".join(JSON_NAMES.get(arm) or _name(arm) for arm in arms)
    others = [reader for arm, reader in zip(arms, readers, strict=True) if arm is not type(None)]

    def read(value: Any, where: str, problems: list[str]) -> Any:
        found: list[str] = []
        for reader in readers:
            found = []
            result = reader(value, where, found)
            if not found:
                return result
        if len(others) == 1:
            # Of `Customer | None` the problems inside of the customer say more.
            return others[0](value, where, problems)
        return _refuse(value, where, problems, name)

    return read


def _array(item: Read) -> Read:
    def read(value: Any, where: str, problems: list[str]) -> Any:
        if type(value) is not list:
            return _refuse(value, where, problems, JSON_NAMES[list])
        return [item(one, f"{where}[{place}]", problems) for place, one in enumerate(value)]

    return read


def _object(item: Read) -> Read:
    def read(value: Any, where: str, problems: list[str]) -> Any:
        if type(value) is not dict:
            return _refuse(value, where, problems, JSON_NAMES[dict])
        return {key: item(one, f"{where}[{key!r}]", problems) for key, one in value.items()}

    return read


def _model(wanted: Any) -> Read:
    def read(value: Any, where: str, problems: list[str]) -> Any:
        try:
            return wanted.model_validate(value)
        except Exception as error:  # noqa: BLE001 - the border to user code: a validator may raise anything
            problems.extend(_described(error, where))
            return None

    return read


class _Record:
    """Reads a dataclass from an object with exactly its fields; those with a default may be missing."""

    def __init__(self, wanted: type, known: dict[Any, Read]) -> None:
        known[wanted] = self
        self._wanted: Any = wanted
        try:
            hints = get_type_hints(wanted)
        except Exception as error:
            raise TypeError(_hidden(f"the fields of {wanted.__name__}", error)) from error
        fields = [one for one in dataclasses.fields(self._wanted) if one.init]
        self._fields = {one.name: self._reader_of(one.name, hints[one.name], known) for one in fields}
        unset = dataclasses.MISSING
        self._required = [one.name for one in fields if one.default is one.default_factory is unset]

    def _reader_of(self, name: str, hint: Any, known: dict[Any, Read]) -> Read:
        try:
            return reader_of(hint, known)
        except TypeError as error:
            raise TypeError(f"{self._wanted.__name__}.{name}: {error}") from error.__cause__

    def __call__(self, value: Any, where: str, problems: list[str]) -> Any:
        if type(value) is not dict:
            return _refuse(value, where, problems, JSON_NAMES[dict])
        found = [f"{where}.{name} is missing" for name in self._required if name not in value]
        known = ", ".join(self._fields)
        found += [
            f"{where} has the unknown field {name!r}; {self._wanted.__name__} has {known}"
            for name in value
            if name not in self._fields
        ]
        read = {
            name: reader(value[name], f"{where}.{name}", found)
            for name, reader in self._fields.items()
            if name in value
        }
        problems += found
        if found:
            return None
        try:
            return self._wanted(**read)
        except Exception as error:  # noqa: BLE001 - the border to user code, such as __post_init__
            problems.extend(_described(error, where))
            return None


def _described(error: Exception, where: str) -> list[str]:
    """Return the problems of an error of user code, one for each that pydantic found."""
    listed = getattr(error, "errors", None)
    if callable(listed):
        # An error of another library may have another list.
        with contextlib.suppress(Exception):
            return [f"{'.'.join([where, *map(str, one['loc'])])}: {one['msg']}" for one in listed()]
    return [_printed(error, where)]


def _printed(error: BaseException, where: str) -> str:
    # It has an answer for an error that can't be printed, too.
    return f"{where}: {''.join(traceback.format_exception_only(error)).strip()}"


def _refuse(
    value: Any, where: str, problems: list[str], expected: str, *, types: Sequence[type] = ()
) -> None:
    """Add a problem; a value of one of the right types is another one of them."""
    article, _, name = JSON_NAMES[type(value)].rpartition(" ")
    found = f"another {name}" if type(value) in types else f"{article} {name}".strip()
    problems.append(f"{where} must be {expected}, not {found}")


def _name(wanted: Any) -> str:
    return wanted.__name__ if isinstance(wanted, type) and not get_args(wanted) else str(wanted)


def _evaluated(annotation: str, handler: Any) -> Any:
    """Return a postponed annotation's value; None if it can't be evaluated and names no type for the data."""
    function = inspect.unwrap(getattr(handler, "func", handler))
    names = getattr(function, "__globals__", None) or getattr(type(function).__call__, "__globals__", {})
    try:
        return eval(annotation, names)  # noqa: S307 - the handler's own source, as typing.get_type_hints reads it
    except Exception as error:
        if "Message[" not in annotation:
            return None
        raise TypeError(_hidden(f"the annotation {annotation!r}", error)) from error


def _hidden(name: str, error: Exception) -> str:
    return f"{name} can't be evaluated ({error}); import its names at the top of the module, not under TYPE_CHECKING"
