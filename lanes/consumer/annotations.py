"""
What a handler says of its message: the parameter that takes it, and the type of its data.

Only the annotation of the message is evaluated. All others may be names that a type checker alone imports.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Collection, Iterable, Sequence
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, ForwardRef, TypeVar, Union, get_args, get_origin

from lanes.data import HIDDEN
from lanes.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable

ANY = object()
"""The type of a message's data if the handler names none."""
_NAMES = {"Message": Message, "HandlerContext": None, "Any": Any, "Sequence": Sequence, "Iterable": Iterable}
"""Often imported for the type checker alone, and never needed: they name no type of data."""


def signature_of(function: Callable[..., Any], *, follow_wrapped: bool = True) -> inspect.Signature:
    """Return a signature with its annotations as they were written, where Python 3.14 would evaluate all of them."""
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(function, follow_wrapped=follow_wrapped, annotation_format=Format.FORWARDREF)
    return inspect.signature(function, follow_wrapped=follow_wrapped)


def data_type(handler: Callable[..., Any], *, takes_several: bool = False) -> Any:
    """
    Return the type of the data that a handler names, ANY for none; its message may follow other parameters.

    Args:
        handler: the function; behind a decorator, the decorated one names the type.
        takes_several: whether it takes a list of messages.

    Raises:
        TypeError: an annotation can't be evaluated, or the handler takes something else than it gets.
    """
    unknown: list[TypeError] = []
    parameters = list(signature_of(handler).parameters.values())
    # A decorator may give other parameters before the message.
    is_decorated = inspect.unwrap(handler) is not handler
    for place, parameter in enumerate(parameters if is_decorated else parameters[:1]):
        try:
            annotation = _behind(parameter.annotation, handler)
            item = _behind(_item_of(annotation), handler)
        except TypeError as error:
            if place == 0 or "Message[" in str(parameter.annotation):
                unknown.append(error)
            continue
        one = annotation if item is None else item
        if (get_origin(one) or one) is Message:
            if takes_several is (item is None):
                raise TypeError(_wrong_number(handler, parameter.name, takes_several=takes_several))
            wanted = _evaluated(next(iter(get_args(one)), Any), handler)
            return ANY if wanted is Any or isinstance(wanted, TypeVar) else wanted
        fits = is_decorated or _fits(annotation, list if takes_several else Message, item)
        if _is_message(one) or not fits:
            raise TypeError(_wrong_type(handler, parameter.name, one, takes_several=takes_several))
    if unknown:
        # It may be an alias of a message with a type, whose data would arrive without it.
        raise unknown[0]
    return ANY


def check_takes(function: Callable[..., Any], given: type) -> None:
    """Raise `TypeError` for a function that names another type than it is given, if it names one that is known."""
    parameter = next(iter(signature_of(function).parameters.values()), None)
    try:
        annotation = Any if parameter is None else _behind(parameter.annotation, function)
    except TypeError:
        return
    if parameter and inspect.unwrap(function) is function and not _fits(annotation, given):
        name, shown = _name(function), _name(annotation)
        raise TypeError(
            f"{name} takes {shown} and gets a {given.__name__}; annotate {parameter.name} as {given.__name__}"
        )


def _fits(annotation: Any, given: type, item: Any = None) -> bool:
    """Whether a parameter with this annotation may get such a value; of a list also its items are asked."""
    if annotation in (Any, inspect.Parameter.empty) or isinstance(annotation, TypeVar):
        return True
    if _is_union(annotation):
        return any(_fits(one, given) for one in get_args(annotation))
    if item is not None:
        return given is list and _fits(item, Message)
    is_protocol = getattr(annotation, "_is_protocol", False)
    return isinstance(annotation, type) and (is_protocol or issubclass(given, annotation))


def _is_message(annotation: Any) -> bool:
    form = get_origin(annotation) or annotation
    return isinstance(form, type) and issubclass(form, Message)


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, UnionType)


def _item_of(annotation: Any) -> Any:
    """Return the type of a list's items; None for a type that is not one of a list."""
    is_list = get_origin(annotation) in (list, Sequence, Collection, Iterable)
    return next(iter(get_args(annotation)), None) if is_list else None


def _wrong_number(handler: Any, parameter: str, *, takes_several: bool) -> str:
    if takes_several:
        cure = f"annotate {parameter} as list[Message] or list[Message[...]]"
        return f"{_name(handler)} takes several messages: {cure}"
    cure = "register it with @consumer.batch_handler(kind)"
    return f"{_name(handler)} takes one message, not a list of them; {cure}"


def _wrong_type(handler: Any, parameter: str, annotation: Any, *, takes_several: bool) -> str:
    given, right = (
        ("a list of messages", "list[Message[{}]]") if takes_several else ("a Message", "Message[{}]")
    )
    right = right.format("..." if _is_message(annotation) else _name(annotation))
    data = "" if takes_several else f"; its data is {parameter}.data"
    return (
        f"{_name(handler)} takes {_name(annotation)} and gets {given}: annotate {parameter} as {right}{data}"
    )


def _name(thing: Any) -> str:
    return repr(thing) if get_args(thing) else getattr(thing, "__qualname__", repr(thing))


def _behind(annotation: Any, handler: Any) -> Any:
    """Return the type behind text, a `type` statement, Annotated or `| None`."""
    annotation = _evaluated(annotation, handler)
    if get_origin(annotation) is Annotated:
        return _behind(get_args(annotation)[0], handler)
    if _is_union(annotation):
        members = [one for one in get_args(annotation) if one is not type(None)]
        return _behind(members[0], handler) if len(members) == 1 else annotation
    return annotation


def _evaluated(annotation: Any, handler: Any) -> Any:
    """Return the type that text or the name of a `type` statement stands for, and any other one as it is."""
    function = inspect.unwrap(getattr(handler, "func", handler))
    known = getattr(function, "__globals__", None) or getattr(type(function).__call__, "__globals__", {})
    try:
        while isinstance(annotation, str | ForwardRef):
            if isinstance(annotation, str):
                annotation = eval(annotation, {**_NAMES, **known})  # noqa: S307 - the handler's own source
            elif sys.version_info >= (3, 14):
                annotation = annotation.evaluate(globals={**_NAMES, **known})
            else:
                annotation = annotation.__forward_arg__
        value = getattr(annotation, "__value__", None)
    except Exception as error:
        shown = getattr(annotation, "__forward_arg__", annotation)
        raise TypeError(f"the annotation {str(shown)!r} can't be evaluated ({error}); {HIDDEN}") from error
    return annotation if value is None else _evaluated(value, handler)
