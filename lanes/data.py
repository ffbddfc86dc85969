"""
The data of a message in the type that its handler names, as in `Message[Order]`.

Dataclasses, enums, times and the types of JSON are read here, by their fields. Structs are left to msgspec and all
other types to pydantic, which are imported only for them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import json
import re
import traceback
import types
from collections.abc import Collection, Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ForwardRef,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)
from uuid import UUID

from lanes.encoding import encoded
from lanes.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DataReader: TypeAlias = "Callable[[Any], tuple[Any, str, int]]"
"""Takes JSON data; returns it in its type, the problems as one text, and the number of ignored fields."""

JSON_NAMES = {
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
    type(None): "null",
}


def _finite(text: str) -> Decimal:
    """Read a decimal; one that is not finite can't be sent either."""
    number = Decimal(text)
    if not number.is_finite():
        raise ValueError(text)
    return number


TEXT_FORMS: dict[Any, tuple[Callable[[str], Any], str]] = {
    datetime: (datetime.fromisoformat, "an ISO 8601 date and time"),
    date: (date.fromisoformat, "an ISO 8601 date"),
    UUID: (UUID, "a UUID"),
    Decimal: (_finite, "a decimal number in a string"),
}
"""Types that are written as text: how it is read, and its name."""
MOST_PROBLEMS = 10
"""The reason of a dead letter is an attribute of its message, and a long array has many items."""
_VALUE = re.compile(r"(Invalid (?:enum )?value) .*", re.DOTALL)
PYDANTIC = "pydantic reads more types: add it to the requirements of the function"


class Findings(list[str]):
    """
    The problems of one reading, and the number of fields that its types lack; if `strict`, each is a problem.

    `unions` has the outcome of each union for each object and array. The types of a union are tried in turn, so without
    it the time to read a type that contains itself would double with each level of the data.
    """

    def __init__(self, *, strict: bool, unions: dict[Any, tuple[Any, Findings]] | None = None) -> None:
        super().__init__()
        self.strict = strict
        self.ignored = 0
        self.unions = {} if unions is None else unions

    def add(self, more: Findings) -> None:
        """Add the findings of a part."""
        self += more
        self.ignored += more.ignored


Read: TypeAlias = "Callable[[Any, str, Findings], Any]"
"""Takes a value, its path such as `data.customer`, and the findings so far; returns the value in its type."""


def data_reader(
    handler: Callable[..., Any], *, strict: bool = False, takes_several: bool = False
) -> DataReader | None:
    """
    Return a function that reads JSON data in the type of the `Message` that a handler takes; None for a plain one.

    Args:
        handler: the function; behind a decorator, the decorated one names the type.
        strict: whether a field that the type lacks is a problem.
        takes_several: whether it takes a list of messages.

    Raises:
        TypeError: the type can't be found or can't be read, or one message is taken for several.
    """
    wanted = _wanted_by(handler, takes_several=takes_several)
    if wanted is None or wanted is Any or isinstance(wanted, TypeVar):
        return None
    reader = reader_of(wanted, {})

    def read(data: Any) -> tuple[Any, str, int]:
        value, problems = None, Findings(strict=strict)
        try:
            value = reader(data, "data", problems)
        except KeyboardInterrupt:  # it ends the process
            raise
        except BaseException as error:  # noqa: BLE001 - the border to user code; or the data is nested too deep
            problems.append(_printed(error, "data"))
        more = [f"and {len(problems) - MOST_PROBLEMS} more problems"] if len(problems) > MOST_PROBLEMS else []
        return value, "; ".join([*problems[:MOST_PROBLEMS], *more]), problems.ignored

    return read


def _wanted_by(handler: Callable[..., Any], *, takes_several: bool) -> Any:
    """Return the type of the data that a handler names, None for any; its message may follow other parameters."""
    unknown: list[TypeError] = []
    for place, parameter in enumerate(inspect.signature(handler).parameters.values()):
        try:
            annotation = _meant(parameter.annotation, handler)
            item = _meant(_item_of(annotation), handler)
        except TypeError as error:
            if place == 0 or "Message[" in str(parameter.annotation):
                unknown.append(error)
            continue
        one = annotation if item is None else item
        form = get_origin(one) or one
        if isinstance(form, type) and issubclass(form, Message) and form is not Message:
            name = getattr(handler, "__qualname__", repr(handler))
            raise TypeError(
                f"{name} takes {form.__name__}, a class of its own, and gets a Message; annotate {parameter.name} as "
                "Message[...], with the type of its data"
            )
        if form is Message:
            if takes_several is (item is None):
                raise TypeError(_wrong_number(handler, parameter.name, takes_several=takes_several))
            return _meant(next(iter(get_args(one)), None), handler, is_data=True)
    if unknown:
        # It may be an alias of a message with a type, whose data would arrive without it.
        raise unknown[0]
    return None


def _item_of(annotation: Any) -> Any:
    """Return the type of a list's items; None for a type that is not one of a list."""
    is_list = get_origin(annotation) in (list, Sequence, Collection, Iterable)
    return next(iter(get_args(annotation)), None) if is_list else None


def _wrong_number(handler: Any, name: str, *, takes_several: bool) -> str:
    handler_name = getattr(handler, "__qualname__", repr(handler))
    if takes_several:
        return (
            f"{handler_name} takes several messages: annotate {name} as list[Message] or list[Message[...]]"
        )
    return f"{handler_name} takes one message, not a list of them; register it with @consumer.batch_handler(kind)"


def reader_of(wanted: Any, known: dict[Any, Read]) -> Read:
    """
    Return the reader of a type.

    No value is converted, except to a dataclass, an enum's member, or a type that is written as text. Of a union's
    types the first that fits is taken, at best without ignoring a field. A problem shows no value, since it may be
    confidential.

    Args:
        wanted: the type.
        known: readers of the dataclasses on the way to it, which may contain each other.

    Raises:
        TypeError: the type can't be read.
    """
    while (plain := _behind_name(wanted)) is not None:
        wanted = plain
    if wanted is Any or wanted is object:
        return lambda value, _where, _problems: value
    try:
        if wanted in known:
            return known[wanted]
    except TypeError:  # it can't be hashed
        return _of_pydantic(wanted)
    return _of_form(wanted, known) or _of_class(wanted, known) or _of_pydantic(wanted)


def _behind_name(wanted: Any) -> Any:
    """Return the type behind a `NewType`, a variable, or words that are annotated to it; None for another type."""
    if get_origin(wanted) is Annotated and all(isinstance(one, str) for one in wanted.__metadata__):
        return get_args(wanted)[0]
    if isinstance(wanted, TypeVar):
        # As type checkers take a generic class without its arguments.
        constraints = wanted.__constraints__
        return Union[constraints] if constraints else Any if wanted.__bound__ is None else wanted.__bound__  # noqa: UP007
    return getattr(wanted, "__supertype__", None)


def _of_form(wanted: Any, known: dict[Any, Read]) -> Read | None:
    """Return the reader of a type that has arguments, or could have some."""
    origin, arguments = get_origin(wanted) or wanted, get_args(wanted)
    if origin is Literal:
        return _choice([(one, one) for one in arguments])
    if origin in (Union, types.UnionType):
        return _union(arguments, [reader_of(one, known) for one in arguments])
    if origin is list:
        return _array(reader_of(arguments[0] if arguments else Any, known))
    if origin is dict and (not arguments or arguments[0] is str):
        return _object(reader_of(arguments[1] if arguments else Any, known))
    if arguments and _is_plain_dataclass(origin):
        return _Record(wanted, known)
    return None


def _of_class(wanted: Any, known: dict[Any, Read]) -> Read | None:
    if wanted is None or wanted in JSON_NAMES:
        return _scalar(wanted or type(None))
    if wanted in TEXT_FORMS:
        return _text(*TEXT_FORMS[wanted])
    if not isinstance(wanted, type) or hasattr(wanted, "__pydantic_validator__"):
        return None
    if hasattr(wanted, "__struct_fields__"):
        return _of_msgspec(wanted)
    if issubclass(wanted, Enum):
        return _choice([(member.value, member) for member in wanted], others=wanted)
    return _Record(wanted, known) if _is_plain_dataclass(wanted) else None


def _is_plain_dataclass(wanted: Any) -> bool:
    return dataclasses.is_dataclass(wanted) and not hasattr(wanted, "__pydantic_validator__")


def _of_msgspec(wanted: Any) -> Read:
    """Return the reader of a struct."""
    import msgspec

    try:
        decoder: Any = msgspec.json.Decoder(wanted)
    except Exception as error:
        raise TypeError(f"data can't be read as {_name(wanted)}: {_printed(error, 'msgspec')}") from error

    def read(value: Any, where: str, problems: Findings) -> Any:
        try:
            result = decoder.decode(json.dumps(value))
        except Exception as error:  # noqa: BLE001 - the border to user code, such as __post_init__
            is_ours = isinstance(error, msgspec.ValidationError)
            problems.append(_of_struct(str(error), where) if is_ours else _printed(error, where))
            return None
        unknown = list(_unknown_in(result, value, where))
        if unknown and problems.strict:
            problems += unknown
            return None
        problems.ignored += len(unknown)
        return result

    return read


def _unknown_in(result: Any, value: Any, where: str) -> Iterator[str]:
    """Yield a problem for each field of JSON data that the structs which were read from them lack."""
    if isinstance(value, dict) and hasattr(result, "__struct_encode_fields__"):
        names, fields = result.__struct_encode_fields__, result.__struct_fields__
        # A struct that forbids unknown fields has none here.
        known = {*names, result.__struct_config__.tag_field}
        for name in (one for one in value if one not in known):
            yield f"{where} has the unknown field {name!r}; {_name(type(result))} has {', '.join(names)}"
        parts = [
            (f".{name}", value[name], getattr(result, field))
            for name, field in zip(names, fields, strict=True)
            if name in value
        ]
    elif isinstance(value, dict) and isinstance(result, dict):
        parts = [
            (f"[{key!r}]", one, read)
            for (key, one), read in zip(value.items(), result.values(), strict=False)
        ]
    elif isinstance(value, list) and isinstance(result, list | tuple):
        parts = [
            (f"[{place}]", one, read) for place, (one, read) in enumerate(zip(value, result, strict=False))
        ]
    else:
        return
    for path, one, read in parts:
        yield from _unknown_in(read, one, where + path)


def _of_pydantic(wanted: Any) -> Read:
    """Return the reader of a model, or of a type that JSON has no form for: pydantic knows one."""
    try:
        from pydantic import TypeAdapter
    except ImportError:
        raise TypeError(f"data can't be read as {_name(wanted)}; {PYDANTIC}") from None
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(wanted)
    except Exception as error:
        raise TypeError(f"data can't be read as {_name(wanted)}: {_printed(error, 'pydantic')}") from error
    if not getattr(adapter, "pydantic_complete", True):
        # It names types that can't be found, which pydantic would say at the first message.
        raise TypeError(_hidden(f"data can't be read as {_name(wanted)}: its types", None))
    known = _fields_of(wanted)

    def read(value: Any, where: str, problems: Findings) -> Any:
        more: Any = {"extra": "forbid"} if problems.strict else {}
        try:
            # As JSON, not as a value of Python: a strict model takes the text of a date in JSON only.
            result = adapter.validate_json(json.dumps(value), **more)
        except Exception as error:  # noqa: BLE001 - the border to user code: a validator may raise anything
            problems.extend(_described(error, where))
            return None
        if known and isinstance(value, dict):
            problems.ignored += len(value.keys() - known)
        return result

    return read


def _fields_of(wanted: Any) -> set[Any]:
    """Return the names of a model's fields in JSON; none if it takes others, or is not a model."""
    if getattr(wanted, "model_config", {}).get("extra", "ignore") != "ignore":
        return set()
    names: set[Any] = set()
    for name, field in getattr(wanted, "model_fields", {}).items():
        choices = getattr(field.validation_alias, "choices", [field.validation_alias])
        names |= {name, *(getattr(one, "path", [one])[0] for one in choices)}
    return names


def _scalar(wanted: type) -> Read:
    # JSON has one sort of number, so a whole one is a float as well.
    accepted = (int, float) if wanted is float else (wanted,)

    def read(value: Any, where: str, problems: Findings) -> Any:
        # Not isinstance: True is an int in Python, and a boolean in JSON.
        return value if type(value) in accepted else _refuse(value, where, problems, JSON_NAMES[wanted])

    return read


def _text(convert: Callable[[str], Any], name: str) -> Read:
    def read(value: Any, where: str, problems: Findings) -> Any:
        try:
            return convert(value) if type(value) is str else _refuse(value, where, problems, name)
        except (ValueError, ArithmeticError):
            return _refuse(value, where, problems, name, types=[str])

    return read


def _choice(meanings: Sequence[tuple[Any, Any]], *, others: Callable[[Any], Any] | None = None) -> Read:
    """
    Return the reader of one of several values, by their form in JSON; types count, since True equals 1.

    `others` returns the meaning of another value, such as two members of a flag, or raises `ValueError`.
    """
    forms = [(json.loads(encoded(value)), meant) for value, meant in meanings]
    choices = {_key(form): meant for form, meant in forms}
    types = [type(form) for form, _ in forms]
    if float in types:
        # JSON has one sort of number.
        types.append(int)
    name = f"one of {', '.join(repr(form) for form, _ in forms)}"

    def read(value: Any, where: str, problems: Findings) -> Any:
        key = _key(value)
        if key in choices:
            return choices[key]
        if others is not None and type(value) in types:
            with contextlib.suppress(ValueError):
                return others(value)
        return _refuse(value, where, problems, name, types=types)

    return read


def _union(arms: tuple[Any, ...], readers: list[Read]) -> Read:
    name = " or ".join(JSON_NAMES.get(arm) or _name(arm) for arm in arms)
    others = [reader for arm, reader in zip(arms, readers, strict=True) if arm is not type(None)]

    tries = [(strict, reader) for strict in (True, False) for reader in readers]

    # In one function: data of a type that contains itself may be as deep as the stack allows.
    def read(value: Any, where: str, problems: Findings) -> Any:
        # The data own their values until the end of the reading, so no other one has this id.
        key = (id(readers), id(value), problems.strict) if isinstance(value, list | dict) else None
        if key in problems.unions:
            result, found = problems.unions[key]
        else:
            for strict, reader in tries[: len(readers)] if problems.strict else tries:
                found = Findings(strict=strict, unions=problems.unions)
                result = reader(value, where, found)
                if not found:
                    break
            else:
                found = Findings(strict=problems.strict, unions=problems.unions)
                if len(others) == 1:
                    # Of `Customer | None` the problems inside of the customer say more.
                    result = others[0](value, where, found)
                else:
                    result = None
                    _refuse(value, where, found, name)
            if key is not None:
                problems.unions[key] = result, found
        problems.add(found)
        return result

    return read


def _key(value: Any) -> tuple[type, Any]:
    return type(value), json.dumps(value, sort_keys=True) if isinstance(value, list | dict) else value


def _array(item: Read) -> Read:
    def read(value: Any, where: str, problems: Findings) -> Any:
        if type(value) is not list:
            return _refuse(value, where, problems, JSON_NAMES[list])
        return [item(one, f"{where}[{place}]", problems) for place, one in enumerate(value)]

    return read


def _object(item: Read) -> Read:
    def read(value: Any, where: str, problems: Findings) -> Any:
        if type(value) is not dict:
            return _refuse(value, where, problems, JSON_NAMES[dict])
        return {key: item(one, f"{where}[{key!r}]", problems) for key, one in value.items()}

    return read


class _Record:
    """Reads a dataclass from an object with its fields; those with a default may be missing."""

    def __init__(self, wanted: Any, known: dict[Any, Read]) -> None:
        known[wanted] = self
        self._wanted: Any = get_origin(wanted) or wanted
        try:
            hints = _hints_of(wanted)
        except Exception as error:
            raise TypeError(_hidden(f"the fields of {self._wanted.__name__}", error)) from error
        fields = [one for one in dataclasses.fields(self._wanted) if one.init]
        # Arguments of the constructor too, which `fields` leaves out.
        more = {name: hint.type for name, hint in hints.items() if isinstance(hint, dataclasses.InitVar)}
        hints |= more
        fields += [self._wanted.__dataclass_fields__[name] for name in more]
        self._fields = {one.name: self._reader_of(one.name, hints[one.name], known) for one in fields}
        unset = dataclasses.MISSING
        self._required = [one.name for one in fields if one.default is one.default_factory is unset]

    def _reader_of(self, name: str, hint: Any, known: dict[Any, Read]) -> Read:
        try:
            return reader_of(hint, known)
        except TypeError as error:
            raise TypeError(f"{self._wanted.__name__}.{name}: {error}") from error.__cause__

    def __call__(self, value: Any, where: str, problems: Findings) -> Any:
        if type(value) is not dict:
            return _refuse(value, where, problems, JSON_NAMES[dict])
        found = Findings(strict=problems.strict, unions=problems.unions)
        found += [f"{where}.{name} is missing" for name in self._required if name not in value]
        unknown = [name for name in value if name not in self._fields]
        if problems.strict:
            known = ", ".join(self._fields)
            found += [
                f"{where} has the unknown field {name!r}; {self._wanted.__name__} has {known}"
                for name in unknown
            ]
        read = {
            name: reader(value[name], f"{where}.{name}", found)
            for name, reader in self._fields.items()
            if name in value
        }
        problems.ignored += len(unknown) + found.ignored
        problems += found
        if found:
            return None
        try:
            return self._wanted(**read)
        except Exception as error:  # noqa: BLE001 - the border to user code, such as __post_init__
            problems.append(_printed(error, where))
            return None


def _hints_of(wanted: Any) -> dict[str, Any]:
    """Return the types of a dataclass's fields; those of a generic one with its arguments, as in `Page[Order]`."""
    form = get_origin(wanted) or wanted
    hints = get_type_hints(form, include_extras=True)
    meant = dict(zip(getattr(form, "__parameters__", ()), get_args(wanted), strict=False))
    for base in getattr(form, "__orig_bases__", ()):
        if dataclasses.is_dataclass(get_origin(base)):
            own = inspect.get_annotations(form)
            inherited = _hints_of(_with_arguments(base, meant))
            hints |= {name: hint for name, hint in inherited.items() if name not in own}
    return {name: _with_arguments(hint, meant) for name, hint in hints.items()}


def _with_arguments(hint: Any, meant: dict[Any, Any]) -> Any:
    """Return a type with other types in place of its variables."""
    if isinstance(hint, TypeVar):
        return meant.get(hint, hint)
    names = getattr(hint, "__parameters__", ()) if get_origin(hint) else ()
    return hint[tuple(meant.get(one, one) for one in names)] if names else hint


def _described(error: Exception, where: str) -> list[str]:
    """Return the problems of an error of user code, one for each that pydantic found."""
    from pydantic import ValidationError

    if isinstance(error, ValidationError):
        found = error.errors(include_url=False, include_context=False, include_input=False)
        return [f"{'.'.join([where, *map(str, one['loc'])])}: {one['msg']}" for one in found]
    return [_printed(error, where)]


def _of_struct(text: str, where: str) -> str:
    """Return a problem that msgspec found, such as "Expected `int`, got `str` - at `$.total`", without a value."""
    problem, _, path = text.partition(" - at `$")
    shown = _VALUE.sub(r"\1", problem)
    return f"{where}{path.rstrip('`')}: {shown}"


def _printed(error: BaseException, where: str) -> str:
    # It has an answer for an error that can't be printed, too.
    return f"{where}: {''.join(traceback.format_exception_only(error)).strip()}"


def _refuse(value: Any, where: str, problems: Findings, expected: str, *, types: Sequence[type] = ()) -> None:
    """Add a problem; a value of one of the right types is another one of them."""
    article, _, name = JSON_NAMES[type(value)].rpartition(" ")
    found = f"another {name}" if type(value) in types else f"{article} {name}".strip()
    problems.append(f"{where} must be {expected}, not {found}")


def _name(wanted: Any) -> str:
    return wanted.__name__ if isinstance(wanted, type) and not get_args(wanted) else str(wanted)


def _meant(annotation: Any, handler: Any, *, is_data: bool = False) -> Any:
    """
    Return the type that an annotation stands for: behind text, an alias, Annotated or `| None`.

    The type of data keeps the last two: they say which data fit.
    """
    while True:
        if isinstance(annotation, ForwardRef):
            annotation = annotation.__forward_arg__
        if isinstance(annotation, str):
            annotation = _evaluated(annotation, handler)
        elif (value := _value_of(annotation)) is not None:
            annotation = value
        elif is_data:
            return annotation
        elif get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif get_origin(annotation) in (Union, types.UnionType) and _is_optional_message(annotation, handler):
            annotation = next(one for one in get_args(annotation) if one is not type(None))
        else:
            return annotation


def _value_of(alias: Any) -> Any:
    """Return the type behind a `type` statement, which evaluates it here; None for another type."""
    try:
        return getattr(alias, "__value__", None)
    except NameError as error:
        raise TypeError(_hidden(f"the type {alias}", error)) from error


def _is_optional_message(union: Any, handler: Any) -> bool:
    members = [_meant(one, handler) for one in get_args(union) if one is not type(None)]
    return len(members) == 1 and (members[0] is Message or get_origin(members[0]) is Message)


def _evaluated(annotation: str, handler: Any) -> Any:
    """Return a postponed annotation's value."""
    function = inspect.unwrap(getattr(handler, "func", handler))
    names = getattr(function, "__globals__", None) or getattr(type(function).__call__, "__globals__", {})
    # Often imported for the type checker only, and never needed: an annotation of these names no type for the data.
    ours = {
        "Message": Message,
        "HandlerContext": None,
        "Any": Any,
        "Sequence": Sequence,
        "Iterable": Iterable,
    }
    try:
        return eval(annotation, {**ours, **names})  # noqa: S307 - the handler's own source, as typing.get_type_hints
    except Exception as error:
        raise TypeError(_hidden(f"the annotation {annotation!r}", error)) from error


def _hidden(name: str, error: Exception | None) -> str:
    reason = f" ({error})" if error else ""
    return f"{name} can't be evaluated{reason}; import its names at the top of the module, not under TYPE_CHECKING"
