"""Completion of lanes and stages in a shell, from the lanes.toml of the current folder; it calls no AWS."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any


def lanes_here(incomplete: str) -> list[str]:
    """Return the names of lanes that begin like this."""
    lanes = _file().get("lanes", [])
    return _beginning([one.get("name", "") for one in lanes if isinstance(one, dict)], incomplete)


def stages_here(incomplete: str) -> list[str]:
    """Return the names of stages that begin like this."""
    return _beginning(list(_file().get("stages", {})), incomplete)


def _beginning(names: list[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _file() -> dict[str, Any]:
    try:
        return tomllib.loads(Path("lanes.toml").read_text())
    except (OSError, ValueError):
        return {}  # a shell shows no errors of a completion
