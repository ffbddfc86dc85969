"""Present outcomes as tables for people, and as JSON for programs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .comparison import Range, lane_rows, total_rows
from .settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .comparison import Run

FINE_BELOW, HOUR = 100, 3_600
SECONDS = frozenset({"p50", "p90", "p99", "longest", "standstill", "drained"})
SHARES = frozenset({"busy", "idle"})
HIDDEN_IF_ZERO = ("yields", "throttles", "rings", "refused")
HEADINGS = {
    "p50": "wait p50",
    "p90": "p90",
    "p99": "p99",
    "dollars_a_day": "$ a day",
}


def readable(rows: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    """
    Return rows for people: waits in fitting units, shares in percent, ranges with both ends.

    Columns of one engine are left out if they are 0 throughout: yields and throttles, or rings; so are the calls that
    were refused if the resource was never away, and the settings if they are the same throughout.
    """
    hidden = {key for key in HIDDEN_IF_ZERO if not any(row.get(key) for row in rows)}
    if len({row["settings"] for row in rows}) == 1:
        hidden.add("settings")
    return [
        {HEADINGS.get(key, key): _figure(key, value) for key, value in row.items() if key not in hidden}
        for row in rows
    ]


def plain(runs: Sequence[Run]) -> dict[str, Any]:
    """Return all figures as JSON-able data: seconds and shares as numbers, ranges as [low, high]."""
    return {
        "lanes": [_jsonable(row) for row in lane_rows(runs)],
        "totals": [_jsonable(row) for row in total_rows(runs)],
        "unknowns": list(dict.fromkeys(run.unknowns for run in runs)),
    }


def seconds(value: float) -> str:
    """Write a wait with two or three significant digits."""
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < FINE_BELOW:
        return f"{value:.1f} s"
    return f"{value:.0f} s" if value < HOUR else f"{value / HOUR:.1f} h"


def _figure(key: str, value: Any) -> str:
    if isinstance(value, Range):
        high = "never" if math.isinf(value.high) else _figure(key, value.high)
        return f"{_figure(key, value.low)} .. {high}"
    if isinstance(value, Settings):
        return value.description
    if value is None:
        return "never"
    if key.rpartition(" ")[2] in SECONDS:
        return seconds(value)
    if key in SHARES:
        return f"{value:.1%}"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _jsonable(row: dict[str, Any]) -> dict[str, Any]:
    return {key: _plain(value) for key, value in row.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Settings):
        return value.plain()
    if isinstance(value, Range):
        return [value.low, None if math.isinf(value.high) else value.high]
    return value
