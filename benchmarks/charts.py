"""Draw the charts of the benchmarks' page as SVG, for light and dark: see `CHARTS`."""

from __future__ import annotations

import dataclasses
import math
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

WIDTH, LEFT, RIGHT, ROW, TOP = 860, 240, 150, 26, 56

STYLE = """
    .paper { fill: #ffffff } text { font: 13px system-ui, sans-serif; fill: #24292f }
    .title { font-size: 15px; font-weight: 600 } .head { font-weight: 600 } .tick { fill: #57606a; font-size: 11px }
    .grid { stroke: #d0d7de } .aim { stroke: #24292f; stroke-dasharray: 4 3 }
    .pull { fill: #1f5f99; stroke: #1f5f99 } .mappings { fill: #b06a00; stroke: #b06a00 }
    .plain { fill: #b3261e; stroke: #b3261e } .none { fill: #6e7781; stroke: #6e7781 }
    .ideal { fill: #1a7f37; stroke: #1a7f37 }
    @media (prefers-color-scheme: dark) {
      .paper { fill: #0d1117 } text { fill: #e6edf3 } .tick { fill: #9198a1 }
      .grid { stroke: #30363d } .aim { stroke: #e6edf3 }
      .pull { fill: #58a6ff; stroke: #58a6ff } .mappings { fill: #e3a04f; stroke: #e3a04f }
      .plain { fill: #ff7b72; stroke: #ff7b72 } .none { fill: #8b949e; stroke: #8b949e }
      .ideal { fill: #56d364; stroke: #56d364 }
    }"""

NAMES = {
    "ideal": "ideal scheduler",
    "pull": "pull",
    "mappings": "mappings",
    "plain": "plain pattern, better batch size",
    "none": "no priority",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of a chart: a head without values, or a dot and a bar to a second value; `kind` is its colour."""

    label: str
    kind: str = ""
    value: float | None = None
    to: float | None = None
    text: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """The ends of an axis, its ticks with their texts, and a value to aim at."""

    low: float
    high: float
    ticks: Mapping[float, str]
    is_log: bool = True
    aim: float | None = None

    def place(self, value: float) -> float:
        """Return the horizontal place of a value; one beyond an end is at that end."""
        inside = min(max(value, self.low), self.high)
        if self.is_log:
            share = math.log(inside / self.low) / math.log(self.high / self.low)
        else:
            share = (inside - self.low) / (self.high - self.low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)


def chart(title: str, rows: Sequence[Row], axis: Axis) -> str:
    """Return the SVG of a chart."""
    height, bottom = TOP + ROW * len(rows) + 34, TOP + ROW * len(rows)
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
            f'aria-labelledby="title">'
        ),
        f'  <title id="title">{escape(title)}</title>',
        f"  <style>{STYLE}\n  </style>",
        f'  <rect class="paper" width="{WIDTH}" height="{height}" rx="8"/>',
        f'  <text class="title" x="20" y="30">{escape(title)}</text>',
    ]
    for tick, text in axis.ticks.items():
        x = axis.place(tick)
        parts.append(f'  <path class="grid" d="M{x:.1f} {TOP - 8}V{bottom}"/>')
        parts.append(f'  <text class="tick" x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{text}</text>')
    if axis.aim is not None:
        parts.append(f'  <path class="aim" d="M{axis.place(axis.aim):.1f} {TOP - 8}V{bottom}"/>')
    for number, row in enumerate(rows):
        parts += _row(row, axis, TOP + ROW * number + 10)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _row(row: Row, axis: Axis, y: float) -> list[str]:
    if row.value is None:
        return [f'  <text class="head" x="20" y="{y + 5}">{escape(row.label)}</text>']
    x = axis.place(row.value)
    drawn = [f'  <text x="32" y="{y + 5}">{escape(row.label)}</text>']
    if row.to is not None:
        drawn.append(
            f'  <path class="{row.kind}" d="M{x:.1f} {y}H{axis.place(row.to):.1f}" stroke-width="5"/>'
        )
    if axis.is_log:
        drawn.append(f'  <circle class="{row.kind}" cx="{x:.1f}" cy="{y}" r="5.5"/>')
    drawn.append(f'  <text x="{WIDTH - RIGHT + 16}" y="{y + 5}">{escape(row.text)}</text>')
    return drawn


def waits_chart(results: Mapping[str, Any]) -> str:
    """Draw HIGH's waits by slots and pattern."""
    rows = []
    for slots, found in _by_slots(results).items():
        rows.append(Row(label=_slots(slots)))
        rows += [
            Row(
                label=NAMES[kind],
                kind=kind,
                value=one["p50"],
                to=one["p99"],
                text=f"{_long(one['p50'])} to {_long(one['p99'])} s",
            )
            for kind, one in found.items()
        ]
    ticks = {0.1: "0.1 s", 1.0: "1 s", 10.0: "10 s", 60.0: "1 min", 600.0: "10 min"}
    return chart("HIGH's wait, p50 to p99", rows, Axis(low=0.1, high=1_000.0, ticks=ticks))


def work_chart(results: Mapping[str, Any]) -> str:
    """Draw the share of slot time at work by slots and pattern."""
    rows = []
    for slots, found in _by_slots(results).items():
        rows.append(Row(label=_slots(slots)))
        rows += [
            Row(label=NAMES[kind], kind=kind, value=0.0, to=one["work"], text=f"{one['work']:.1%}")
            for kind, one in found.items()
        ]
    ticks = {share / 100: f"{share} %" for share in (0, 25, 50, 75, 100)}
    return chart(
        "Slot time at work while messages wait", rows, Axis(low=0, high=1, ticks=ticks, is_log=False)
    )


def range_chart(results: Mapping[str, Any]) -> str:
    """Draw HIGH's p99 over that of the ideal scheduler by undocumented behaviour and engine."""
    rows = []
    for behaviour in results["wait-pull"]["range"]:
        rows.append(Row(label=behaviour))
        for kind, label in (("pull", "wait-pull"), ("mappings", "wait")):
            value = results[label]["range"][behaviour]["p99_over_ideal"]
            rows.append(Row(label=NAMES[kind], kind=kind, value=value, text=f"{value:.3g} times"))
    ticks = {1.0: "1", 3.0: "3", 10.0: "10", 30.0: "30", 100.0: "100"}
    title = "HIGH's p99 over the ideal, by AWS behaviour that is not documented"
    return chart(title, rows, Axis(low=0.8, high=100.0, ticks=ticks, aim=1.1))


CHARTS: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], str]]] = {
    "benchmark-waits.svg": (
        (
            "HIGH's wait at 1, 3 and 10 slots: close to the ideal with the pull engine, with mappings two to three "
            "times that, without priority minutes"
        ),
        waits_chart,
    ),
    "benchmark-work.svg": (
        (
            "Share of slot time at work: nearly all with the pull engine, about three quarters with mappings, half "
            "with the plain pattern"
        ),
        work_chart,
    ),
    "benchmark-range.svg": (
        (
            "HIGH's p99 over the ideal under eight assumptions about AWS: the mapped engine depends on the return of "
            "throttled batches, the pull engine on short polls that miss"
        ),
        range_chart,
    ),
}
"""By name of the file: its description, and its drawing from the results by label."""


def _by_slots(results: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    found = {}
    for slots, ours in results["wait-pull"]["waits"].items():
        plains = [one for name, one in ours.items() if name.startswith("plain")]
        found[slots] = {
            "ideal": ours["ideal"],
            "pull": ours["ours"],
            "mappings": results["wait"]["waits"][slots]["ours"],
            "plain": min(plains, key=lambda one: float(one["p99"])),
            "none": ours["none"],
        }
    return found


def _slots(number: str) -> str:
    return f"{number} slot{'s' if number != '1' else ''}"


def _long(seconds: float) -> str:
    return f"{seconds:.2g}" if seconds < 100 else f"{seconds:.0f}"  # noqa: PLR2004 - two digits are enough
