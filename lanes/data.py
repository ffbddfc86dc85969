"""
The data of a message in the type that its handler names, as in `Message[Order]`.

pydantic reads its own types, msgspec all others, or pydantic those that msgspec lacks. Neither is imported for a
handler that names no type.
"""

from __future__ import annotations

import dataclasses
import json
import re
import traceback
import types
from typing import TYPE_CHECKING, Annotated, Any, ForwardRef, TypeAlias, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

DataReader: TypeAlias = "Callable[[Any], tuple[Any, str]]"
"""Takes JSON data; returns it in its type, and the problems as one text: their paths, but never a value."""

MOST_PROBLEMS = 10
"""The reason of a dead letter is an attribute of its message, and a long array has many items."""
HIDDEN = "import its names at the top of the module, not under TYPE_CHECKING"
_FORMS = (Annotated, types.UnionType, object)  # classes in some versions of Python
_VALUE = re.compile(r"(Invalid (?:enum )?value) .*", re.DOTALL)


def reader_of(wanted: Any) -> DataReader:
    """Return the reader of a type; raises `TypeError` for one that nothing can read."""
    parts = _parts(wanted, {})
    if hidden := [one.__forward_arg__ for one in parts if isinstance(one, ForwardRef)]:
        raise TypeError(f"the type {hidden[0]!r} is not defined; {HIDDEN}")
    uses_pydantic = any(_is_pydantic(one) for one in parts)
    # A model says itself whether "7" is an int; in all other types it is not.
    read = (
        _of_pydantic(wanted, is_strict=not _names_model(wanted))
        if uses_pydantic
        else _of_msgspec(wanted, parts)
    )

    def read_safely(data: Any) -> tuple[Any, str]:
        try:
            return read(data)
        except KeyboardInterrupt:  # it ends the process
            raise
        except BaseException as error:  # noqa: BLE001 - the border to user code; or the data is nested too deep
            return None, f"data: {''.join(traceback.format_exception_only(error)).strip()}"

    return read_safely


def _of_msgspec(wanted: Any, parts: Collection[Any]) -> DataReader:
    try:
        import msgspec
        from msgspec.inspect import CustomType, type_info
    except ImportError:
        raise _refusal(wanted, "msgspec is missing", "msgspec") from None
    classes = [one for one in parts if isinstance(one, type) and one not in _FORMS]
    try:
        msgspec.json.Decoder(wanted)
        # It takes any other class, and refuses each message.
        unknown = [_name(one) for one in classes if isinstance(type_info(one), CustomType)]
    except TypeError as error:
        unknown = [str(error)]
    if unknown:
        return _of_pydantic(wanted, is_strict=True, reason=f"msgspec can't read {unknown[0]}")

    def read(data: Any) -> tuple[Any, str]:
        try:
            return msgspec.convert(data, wanted, str_keys=True), ""
        except msgspec.ValidationError as error:
            problem, _, path = str(error).partition(" - at `$")
            return None, f"data{path.rstrip('`')}: " + _VALUE.sub(r"\1", problem)

    return read


def _of_pydantic(wanted: Any, *, is_strict: bool, reason: str = "pydantic is missing") -> DataReader:
    try:
        from pydantic import TypeAdapter, ValidationError
    except ImportError:
        raise _refusal(wanted, reason, "pydantic") from None
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(wanted)
    except Exception as error:
        raise TypeError(f"data can't be read as {_name(wanted)}: {error}") from error
    if not getattr(adapter, "pydantic_complete", True):
        raise TypeError(f"the types of {_name(wanted)} can't be evaluated; {HIDDEN}")

    def read(data: Any) -> tuple[Any, str]:
        try:
            # As JSON, not as a value of Python: a strict model takes the text of a date in JSON only.
            return adapter.validate_json(json.dumps(data), strict=is_strict or None), ""
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            problems = [f"{'.'.join(['data', *map(str, one['loc'])])}: {one['msg']}" for one in found]
            rest = len(problems) - MOST_PROBLEMS
            return None, "; ".join(problems[:MOST_PROBLEMS] + [f"and {rest} more problems"] * (rest > 0))

    return read


def _refusal(wanted: Any, reason: str, package: str) -> TypeError:
    cure = f"add {package} to the requirements of the function"
    return TypeError(f"data can't be read as {_name(wanted)}: {reason}; {cure}")


def _name(wanted: Any) -> str:
    return wanted.__name__ if isinstance(wanted, type) and not get_args(wanted) else str(wanted)


def _parts(wanted: Any, seen: dict[int, Any]) -> Collection[Any]:
    """Return all that a type consists of: arguments, words in `Annotated`, and the fields of its classes."""
    form = get_origin(wanted) or wanted
    inside = [*get_args(wanted), getattr(wanted, "__supertype__", None), getattr(wanted, "__value__", None)]
    if id(form) not in seen:
        seen[id(form)] = form
        inside += _types_of_fields(form)
    for one in inside:
        if one is not None:
            _parts(one, seen)
    return seen.values()


def _types_of_fields(form: Any) -> list[Any]:
    """Return the types of the fields that a class is read by; none for any other type."""
    names = [*getattr(form, "__required_keys__", ()), *getattr(form, "__optional_keys__", ())]
    names += getattr(form, "__struct_fields__", getattr(form, "_fields", ()))
    if dataclasses.is_dataclass(form):
        names = [one.name for one in dataclasses.fields(form) if one.init]
    if not names or _is_pydantic(form) or not isinstance(form, type):
        return []
    try:
        hints = get_type_hints(form, include_extras=True)
    except Exception as error:
        raise TypeError(f"the fields of {_name(form)} can't be evaluated ({error}); {HIDDEN}") from error
    return [hints[name] for name in names]


def _names_model(wanted: Any) -> bool:
    return hasattr(wanted, "__pydantic_validator__") or any(map(_names_model, get_args(wanted)))


def _is_pydantic(part: Any) -> bool:
    """Whether a class is pydantic's, or an annotated word that it alone knows."""
    own = ("__pydantic_validator__", "__get_pydantic_core_schema__")
    package = type(part).__module__.partition(".")[0]
    return any(hasattr(part, one) for one in own) or package in ("pydantic", "annotated_types")
