"""
The urgency of a message: named priorities, priority blocks, and rules by kind.

Owns the words priority and priority block. A larger number is more urgent. Any int is a priority; `Priority` names
five of them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from enum import IntEnum
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from lanes.blocks import Opened, begin, end, innermost
from lanes.errors import ConfigurationError, InvalidMessageError

if TYPE_CHECKING:
    from types import TracebackType

    from lanes.message import Message

P = ParamSpec("P")
R = TypeVar("R")

CURRENT_PRIORITY: ContextVar[Opened[int | None] | int | None] = ContextVar("lanes_priority", default=None)


class Priority(IntEnum):
    """The named priorities; you can also use any number between and beyond them."""

    BULK = -100
    """Imports and rebuilds without a deadline."""
    LOW = -50
    """Backfills and other background work."""
    NORMAL = 0
    """Everyday work; the default."""
    HIGH = 50
    """Work that a person waits for."""
    CRITICAL = 100
    """Work that must start before all other work."""


class PriorityBlock:
    """
    A block of code, or a decorated function, in which messages are sent with one priority.

    Created by `processing_priority`. You can use an instance in one `with` at a time; as a decorator it serves any
    number of calls, threads and tasks at once.
    """

    def __init__(self, level: int) -> None:
        self._level = checked_priority(level)
        self._is_open = False

    def __enter__(self) -> int:
        if self._is_open:
            raise RuntimeError(
                "this priority block is already open; call processing_priority() for each `with`"
            )
        self._is_open = True
        begin(CURRENT_PRIORITY, self, self._level)
        return self._level

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_open = False
        end(CURRENT_PRIORITY, self)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Wrap a plain function so that each call runs in its own block."""
        _refuse_deferred(function)

        @functools.wraps(function)
        def inner(*args: P.args, **kwargs: P.kwargs) -> R:
            # A new one for each call: this one is for a single `with`.
            with PriorityBlock(self._level):
                return function(*args, **kwargs)

        return inner


def processing_priority(level: int) -> PriorityBlock:
    """
    Send messages inside a block with this priority, unless you pass an explicit one.

    Blocks nest: the innermost wins, and a block that ends leaves the others, even after an exception.
    Threads start without a block, asyncio tasks with a copy of their creator's. Blocks are isolated between them.

    Args:
        level: the priority, a `Priority` or any int.

    Raises:
        TypeError: the level is not an int, or you decorate a coroutine function or a generator, which would run
            after the block has ended. Open the block inside it instead.

    Example:
        >>> with processing_priority(Priority.LOW):
        ...     current_priority()
        -50
        >>> @processing_priority(Priority.BULK)
        ... def rebuild() -> int | None:
        ...     return current_priority()
        >>> rebuild()
        -100
        >>> current_priority() is None
        True
    """
    return PriorityBlock(level)


def current_priority() -> int | None:
    """Return the priority of the innermost open block, or None outside of blocks."""
    return innermost(CURRENT_PRIORITY)


Rule = Callable[["Message"], "int | None"]


class PriorityRules:
    """
    Priorities by kind: a number, or a function of the message; the largest of a kind's rules applies.

    A function can return None to abstain.

    Example:
        >>> from lanes import Message
        >>> rules = PriorityRules({"payment.captured": 50})
        >>> rules.add("payment.captured", lambda message: 100 if message.data["amount"] > 1000 else None)
        >>> rules.priority_of(Message(kind="payment.captured", data={"amount": 5000}))
        100
    """

    def __init__(self, rules: Mapping[str, int | Rule | Sequence[int | Rule]] | None = None) -> None:
        self._rules: dict[str, tuple[int | Rule, ...]] = {}
        for kind, given in (rules or {}).items():
            for rule in given if isinstance(given, Sequence) else (given,):
                self.add(kind, rule)

    def add(self, kind: str, rule: int | Rule) -> None:
        """
        Add a rule to those of a kind.

        Raises:
            ConfigurationError: the rule is neither an int nor a function.
        """
        if isinstance(rule, bool) or not (isinstance(rule, int) or callable(rule)):
            raise ConfigurationError(
                [f"the rule of kind {kind!r} is {rule!r}; it must be an int or a function of the message"],
                source="priority rules",
            )
        self._rules[kind] = (*self._rules.get(kind, ()), rule)

    def priority_of(self, message: Message) -> int | None:
        """
        Return the largest priority of the rules of the message's kind, or None if no rule applies.

        Raises:
            ConfigurationError: a rule's function returned neither an int nor None.
        """
        found = [_apply(rule, message) for rule in self._rules.get(message.kind, ())]
        return max((priority for priority in found if priority is not None), default=None)


def priority_to_send(message: Message, rules: PriorityRules | None) -> int:
    """
    Return the priority to send a message with.

    The first of: its own, that of the innermost priority block, that of the rules of its kind, NORMAL.

    Raises:
        InvalidMessageError: its own is not an int.
    """
    if message.priority is not None:
        try:
            return checked_priority(message.priority)
        except TypeError as error:
            raise InvalidMessageError([str(error)]) from error
    # Before the rules: a backfill in a block of LOW stays low, even with messages of an urgent kind.
    block = current_priority()
    if block is not None:
        return block
    ruled = rules.priority_of(message) if rules is not None else None
    return int(Priority.NORMAL) if ruled is None else ruled


def checked_priority(level: object) -> int:
    """
    Return the level as a plain int.

    Raises:
        TypeError: the level is not an int, or is a bool.
    """
    if isinstance(level, bool) or not isinstance(level, int):
        hint = "; write @processing_priority(level)" if callable(level) else ""
        raise TypeError(f"a priority must be an int such as Priority.LOW, not {level!r}{hint}")
    return int(level)


def _apply(rule: int | Rule, message: Message) -> int | None:
    priority = rule(message) if callable(rule) else rule
    if priority is None:
        return None
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise ConfigurationError(
            [f"the rule of kind {message.kind!r} returned {priority!r}; it must return an int or None"],
            source="priority rules",
        )
    return int(priority)


def _refuse_deferred(function: object) -> None:
    if inspect.isclass(function) or not callable(function):
        raise TypeError(f"processing_priority can decorate functions only, not {function!r}")
    call = getattr(function, "__call__", None)  # noqa: B004 - an object's own call may be a coroutine function
    for test in (inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction):
        if test(function) or test(call):
            raise TypeError(
                "processing_priority can't decorate a coroutine function or a generator: its body runs after "
                "the decorated call has returned; write `with processing_priority(level):` inside it"
            )
