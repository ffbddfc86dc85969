"""Present outcomes as tables and a picture for people, and as JSON for programs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lanes.errors import LanesError

from .comparison import NAMES, Range, lane_rows, total_rows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .comparison import Run

FINE_BELOW, HOUR = 100, 3_600
SECONDS = frozenset({"p50", "p90", "p99", "longest", "standstill", "drained"})
SHARES = frozenset({"busy", "idle"})
OF_ONE_ENGINE = ("yields", "throttles", "rings")
HEADINGS = {
    "p50": "wait p50",
    "p90": "p90",
    "p99": "p99",
    "dollars_a_day": "$ a day",
}


class PlotError(LanesError):
    """The picture cannot be drawn."""


def readable(rows: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    """
    Return rows for people: waits in fitting units, shares in percent, ranges with both ends.

    Columns of one engine are left out if they are 0 throughout: yields and throttles, or rings.
    """
    hidden = {key for key in OF_ONE_ENGINE if not any(row.get(key) for row in rows)}
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


def draw(runs: Sequence[Run], path: Path) -> None:
    """
    Draw the cumulative distribution of waits by lane, a panel for each pattern.

    Raises:
        PlotError: matplotlib is not installed, or the file cannot be written.

    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise PlotError("the picture needs matplotlib: pip install matplotlib") from error
    patterns = list(dict.fromkeys(run.pattern for run in runs))
    figure = Figure(figsize=(5.2 * len(patterns), 4), layout="constrained")
    for panel, pattern in zip(figure.subplots(1, len(patterns), squeeze=False)[0], patterns, strict=True):
        _draw_waits(panel, [run for run in runs if run.pattern is pattern])
        panel.set_title(NAMES[pattern])
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:
        raise PlotError(f"{path} cannot be written: {error}") from error


def _draw_waits(panel: Any, runs: Sequence[Run]) -> None:
    """Draw the curves of one pattern, with thin ones of the same colour for other unknowns."""
    for place, lane in enumerate(runs[0].waits):
        for run in runs:
            waits = run.waits[lane]
            if waits:
                shares = [(position + 1) / len(waits) for position in range(len(waits))]
                first = run is runs[0]
                panel.plot(
                    [max(wait, 0.001) for wait in waits],
                    shares,
                    color=f"C{place}",
                    linewidth=1.8 if first else 0.5,
                    label=lane if first else None,
                )
    panel.set_xscale("log")
    panel.set_xlabel("wait in seconds")
    panel.set_ylabel("share of messages")
    panel.grid(alpha=0.3)
    panel.legend(loc="lower right")


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
    if value is None:
        return "never"
    if key in SECONDS:
        return seconds(value)
    if key in SHARES:
        return f"{value:.1%}"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _jsonable(row: dict[str, Any]) -> dict[str, Any]:
    return {key: _both_ends(value) if isinstance(value, Range) else value for key, value in row.items()}


def _both_ends(value: Range) -> list[float | None]:
    return [value.low, None if math.isinf(value.high) else value.high]
