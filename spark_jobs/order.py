"""The order within a group: columns or expressions by which rows are sorted."""

from __future__ import annotations

import re
from dataclasses import dataclass

KEY = re.compile(r"(?P<expression>.+?)(\s+(?P<direction>asc|desc))?", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class OrderKey:
    """A column or expression by which rows are sorted."""

    expression: str
    descends: bool = False

    def __str__(self) -> str:
        """Write the key as `order_keys` reads it."""
        return f"{self.expression} DESC" if self.descends else self.expression


def order_keys(text: str) -> list[OrderKey]:
    """
    Read the keys of an order, divided by commas, each with ASC or DESC if need be.

    Raises:
        ValueError: A key is empty.
    """
    found = [KEY.fullmatch(part.strip()) for part in _parts(text)]
    if not all(found):
        raise ValueError(f"{text!r} has an empty key; give columns such as 'day, seq DESC'")
    return [
        OrderKey(key["expression"], (key["direction"] or "").upper() == "DESC")
        for key in found
        if key is not None
    ]


def _parts(text: str) -> list[str]:
    """Divide a text at its commas outside of brackets and quotes."""
    parts, depth, quoted = [""], 0, ""
    for letter in text:
        if quoted or letter in "'\"`":
            quoted = "" if letter == quoted else quoted or letter
        depth += 0 if quoted else {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not quoted and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
