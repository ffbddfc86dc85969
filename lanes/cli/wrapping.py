"""Wrap messages at the width of a terminal."""

from __future__ import annotations

import re

from rich.cells import cell_len

# A command is there to be pasted, so its line may be too long instead.
_WORD = re.compile(r"(?:`[^`]*`|\S)+")
_ITEM = re.compile(r"\s*(?:- )?")


def wrapped(text: str, width: int) -> str:
    """Wrap each line between words, except in a command between backticks; an item of a list keeps its indent."""
    return "\n".join(_wrapped(line, width) for line in text.split("\n"))


def _wrapped(line: str, width: int) -> str:
    if cell_len(line) <= width:
        return line
    begin = _ITEM.match(line)[0]  # type: ignore[index]  # it matches the empty text
    lines: list[str] = []
    for word in _WORD.findall(line[len(begin) :]):
        if lines and cell_len(f"{lines[-1]} {word}") <= width - len(begin):
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return begin + f"\n{' ' * len(begin)}".join(lines)
