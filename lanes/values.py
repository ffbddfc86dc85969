"""Values: small records whose fields nobody sets."""

from __future__ import annotations

import dataclasses
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,))
def value_type(cls: type[T]) -> type[T]:
    """
    Make a slotted dataclass, with keywords only, that the type checker takes for a frozen one.

    For what is made for every message: `frozen=True` has each field of each new object set through a call, which makes
    it take five times as long, and came to a quarter of all that the consumer adds to a message.

    Example:
        >>> @value_type
        ... class Point:
        ...     x: int
        ...     y: int = 0
        >>> Point(x=1) == Point(x=1, y=0)
        True
    """
    return dataclasses.dataclass(slots=True, kw_only=True, unsafe_hash=True)(cls)
