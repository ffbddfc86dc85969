"""Routes for the page's scripts as JSON: durations in seconds, times in epoch seconds, None for unknown."""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime, timedelta
from typing import Any


def document(value: object) -> bytes:
    """Write a value of dataclasses, mappings and plain values."""
    return json.dumps(value, default=_plain, separators=(",", ":")).encode()


def record(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass by name, unconverted."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value):
        return record(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)
