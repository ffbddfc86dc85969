"""Completion of lanes, stages and kinds in a shell, from the files of the current folder; it calls no AWS."""

from __future__ import annotations

import os
import re
import tomllib
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

HANDLER = re.compile(r"""\.handler\(\s*["']([^"']+)["']""")
BY_KIND = ("max_rates", "on_dead_letter")
"""Tables of `[consumer]` with a key for each kind."""
MOST_FOLDERS = 200
"""A shell waits for the answer, and the current folder may be a large one."""
NO_SOURCES = ("build", "node_modules", "venv")


def lanes_here(incomplete: str) -> list[str]:
    """Return the names of lanes that begin like this."""
    lanes = _file().get("lanes", [])
    return _beginning([one.get("name", "") for one in lanes if isinstance(one, dict)], incomplete)


def stages_here(incomplete: str) -> list[str]:
    """Return the names of stages that begin like this."""
    return _beginning(list(_file().get("stages", {})), incomplete)


def kinds_here(incomplete: str) -> list[str]:
    """Return the kinds that begin like this, of handlers in a Python file here and of the tables by kind here."""
    kinds = {kind for path in _sources() for kind in HANDLER.findall(_text(path))}
    return _beginning(sorted(kinds | _kinds_of(_file())), incomplete)


def _kinds_of(file: dict[str, Any]) -> set[str]:
    """Return the kinds of a lanes.toml; patterns of several kinds are left out."""
    consumer = file.get("consumer")
    tables = [consumer.get(name) for name in BY_KIND] if isinstance(consumer, dict) else []
    return {
        kind for table in tables if isinstance(table, dict) for kind in table if not set(kind) & set("*?[")
    }


def _sources() -> Iterator[Path]:
    """Yield the Python files here but for those in hidden folders, and of packages that are installed here."""
    for folder, folders, files in islice(os.walk("."), MOST_FOLDERS):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in NO_SOURCES]
        yield from (Path(folder, name) for name in files if name.endswith(".py"))


def _beginning(names: list[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _file() -> dict[str, Any]:
    try:
        return tomllib.loads(_text(Path("lanes.toml")))
    except ValueError:
        return {}  # a shell shows no errors of a completion


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""
