"""Handlers by kind, and the one for raw bodies: registration, checked at once, and the call."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from typing import TYPE_CHECKING, Any, TypeAlias

from lanes.errors import DuplicateHandlerError, UnknownKindError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.consumer.context import HandlerContext


Around: TypeAlias = "Callable[[Callable[[Any, HandlerContext], Any], Any, HandlerContext], Any]"
"""Called in place of each handler, with the handler, its message or raw record, and its context."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """
    A handler as it was registered.

    Attributes:
        function: takes the message or raw record, and the context if it asked for one.
        takes_context: whether it did; for one that didn't none has to be made.

    """

    function: Callable[..., Any]
    takes_context: bool

    def __call__(self, argument: Any, context: HandlerContext) -> Any:
        """Call it with what it takes of the two."""
        return self.function(argument, context) if self.takes_context else self.function(argument)


class Handlers:
    """The handlers of one consumer."""

    def __init__(self) -> None:
        self._by_kind: dict[str, Registered] = {}
        self._raw: Registered | None = None

    def add(self, kind: str, handler: Callable[..., Any]) -> None:
        """Register a handler for a kind."""
        if kind in self._by_kind:
            raise DuplicateHandlerError(kind=kind)
        self._by_kind[kind] = registered(handler)

    def add_raw(self, handler: Callable[..., Any]) -> None:
        """Register the handler of raw bodies."""
        if self._raw is not None:
            raise DuplicateHandlerError(kind="raw bodies")
        self._raw = registered(handler)

    @property
    def raw(self) -> Registered | None:
        """The handler of raw bodies, if there is one."""
        return self._raw

    def within(self, around: Around) -> Handlers:
        """Return the same handlers, each called through `around`."""
        other = Handlers()
        other._by_kind = {kind: _through(around, handler) for kind, handler in self._by_kind.items()}
        other._raw = None if self._raw is None else _through(around, self._raw)
        return other

    def for_kind(self, kind: str) -> Registered:
        """Return the handler of a kind or raise `UnknownKindError`, which lists the known ones."""
        try:
            return self._by_kind[kind]
        except KeyError:
            raise UnknownKindError(kind=kind, known=sorted(self._by_kind)) from None


def registered(handler: Callable[..., Any]) -> Registered:
    """
    Return the handler, with whether it asks for the context.

    Raises:
        TypeError: the handler would not run when called, or takes neither one nor two positional arguments.

    """
    name = getattr(handler, "__qualname__", repr(handler))
    if _runs_later(handler):
        raise TypeError(
            f"{name} is a coroutine function or a generator, which does nothing when called; handlers are plain "
            f"functions (use asyncio.run inside one)"
        )
    signature = inspect.signature(handler)
    if not _accepts(signature, 1) and not _accepts(signature, 2):
        raise TypeError(f"{name}{signature} must take (message) or (message, context)")
    return Registered(function=handler, takes_context=_wants_context(signature))


def _through(around: Around, handler: Registered) -> Registered:
    return Registered(
        function=lambda argument, context: around(handler, argument, context), takes_context=True
    )


def check_ran(result: Any) -> None:
    """
    Check what a handler returned: a coroutine or a generator means that its work has not been done.

    Raises:
        TypeError: it is one.

    """
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError("the handler returned a coroutine that nobody awaits; use asyncio.run inside it")
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise TypeError("the handler returned a generator that nobody runs; do its work before returning")


def _runs_later(handler: Any) -> bool:
    while isinstance(handler, functools.partial):
        handler = handler.func
    return any(
        check(function)
        for check in (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
        for function in (handler, getattr(handler, "__call__", None))  # noqa: B004 - the method itself is looked at
    )


def _wants_context(signature: inspect.Signature) -> bool:
    """A second parameter with a default of its own is the user's business, unless it is called context."""
    if not _accepts(signature, 2):
        return False
    return not _accepts(signature, 1) or "context" in signature.parameters


def _accepts(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True
