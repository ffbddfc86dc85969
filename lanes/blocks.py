"""
Values that hold in a `with` block, such as a priority, one context variable for each.

A block that ends takes away its own value and no other. It may end after one that was opened later, or in another
context than it was opened in: so do blocks in generators that are left before their end, and in dependencies of web
frameworks, which begin and end in different threads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar, cast

if TYPE_CHECKING:
    from contextvars import ContextVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Opened(Generic[T]):
    """The value of an open block, the block, and the value or block that was current before it."""

    value: T
    block: object
    outer: Opened[T] | T


def innermost(variable: ContextVar[Opened[T] | T]) -> T:
    """Return the value of the innermost open block, or the one that was set outside of blocks."""
    current = variable.get()
    return cast("T", current.value if isinstance(current, Opened) else current)


def begin(variable: ContextVar[Opened[T] | T], block: object, value: T) -> None:
    """Let a value hold until the end of a block."""
    variable.set(Opened(value, block, variable.get()))


def end(variable: ContextVar[Opened[T] | T], block: object) -> None:
    """Take away the value of a block, if it holds in this context."""
    current = variable.get()
    if (left := _without(current, block)) is not current:
        variable.set(left)


def _without(current: Opened[T] | T, block: object) -> Opened[T] | T:
    if not isinstance(current, Opened):
        return current
    if current.block is block:
        return cast("Opened[T] | T", current.outer)
    outer = _without(current.outer, block)
    return current if outer is current.outer else replace(current, outer=outer)
