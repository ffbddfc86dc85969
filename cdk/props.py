"""Keyword arguments of our constructs: each is known and has its type, as the CDK sees to for its own."""

import functools
import inspect
import reprlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from types import UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import jsii
from aws_cdk import Token

from lanes.config.table import nearest

Method = TypeVar("Method", bound=Callable[..., Any])
PLAIN = (str, bytes, int, float, Mapping, Sequence, PurePath)
"""Types of Python's own values, which are no constructs."""


def checked(method: Method) -> Method:
    """
    Let a method of a construct refuse keyword arguments that it doesn't have, or of another type than it declares.

    The values of a table of props (``**props``) are left to the CDK, which gets them.

    Args:
        method: ``__init__``, or another method with keyword arguments. It raises a TypeError that names the argument
            with its value, and the right type.

    """

    @functools.wraps(method)
    def call(self: object, *arguments: Any, **given: Any) -> Any:
        props = _props_of(method)
        where = method.__qualname__.removesuffix(".__init__")
        for name, value in given.items():
            if name not in props:
                raise TypeError(f"{where} takes no {name!r}{nearest(name, props)}")
            if not _fits(value, props[name]):
                wanted = inspect.formatannotation(props[name]).replace("collections.abc.", "")
                raise TypeError(f"{where}: {name} is {_shown(value)}; it must be {wanted}")
        return method(self, *arguments, **given)

    return cast("Method", call)


@functools.cache
def _props_of(method: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of the keyword arguments by name."""
    hints = get_type_hints(method)
    props: dict[str, Any] = {}
    for name, parameter in inspect.signature(method).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            (table,) = get_args(hints[name])
            props |= dict.fromkeys(table.__optional_keys__, Any)
        elif name != "self":
            props[name] = hints[name]
    return props


def _fits(value: object, wanted: Any) -> bool:
    origin, parts = get_origin(wanted), get_args(wanted)
    if origin in {Union, UnionType}:
        return any(_fits(value, part) for part in parts)
    if origin is not None and issubclass(origin, Mapping):
        key, content = parts
        return isinstance(value, Mapping) and all(
            _fits(one, key) and _fits(other, content) for one, other in value.items()
        )
    if origin is not None and issubclass(origin, Sequence):
        # A text is a sequence of its characters, and was meant as one item.
        is_many = isinstance(value, Sequence) and not isinstance(value, str)
        return is_many and all(_fits(one, parts[0]) for one in cast("Sequence[object]", value))
    if wanted is Any:
        return True
    if wanted is int and isinstance(value, bool):
        return False
    return _implements(value, wanted) if getattr(wanted, "_is_protocol", False) else isinstance(value, wanted)


def _implements(value: object, interface: type) -> bool:
    """Whether a value may be one of an interface of the CDK, whose proxies declare none."""
    if value is None or isinstance(value, PLAIN):
        return False
    members = [name for name in vars(interface) if not name.startswith("_")]
    return not isinstance(type(value), jsii.JSIIMeta) or all(hasattr(type(value), name) for name in members)


def _shown(value: object) -> str:
    if isinstance(value, float) and Token.is_unresolved(value):
        return "a token, whose number is not known before the deployment"
    return (
        reprlib.repr(value) if value is None or isinstance(value, PLAIN) else f"a {type(value).__qualname__}"
    )
