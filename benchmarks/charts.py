"""Draw the charts of the benchmarks' page as SVG, for light and dark: see `CHARTS`."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from lanes.charts import FAINT, INK, Drawing, duration, lane_colour, tick_words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

WIDTH, LEFT, RIGHT, ROW, TOP = 860, 240, 150, 26, 56

NAMES = {
    "ideal": "ideal scheduler",
    "pull": "pull",
    "mappings": "mappings",
    "plain": "plain pattern, best batch size",
    "none": "no priority",
}
COLOURS = {kind: lane_colour(number) for kind, number in zip(NAMES, (3, 2, 1, 0, 5), strict=True)}


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
    bottom = TOP + ROW * len(rows)
    described = "; ".join(f"{row.label} {row.text}".strip() for row in rows)
    drawing = Drawing(WIDTH, title=title, description=described)
    drawing.text(20, 30, title, size=15, bold=True)
    for tick, text in axis.ticks.items():
        drawing.line((axis.place(tick), TOP - 8), (axis.place(tick), bottom))
        drawing.text(axis.place(tick), bottom + 18, text, colour=FAINT, size=11, anchor="middle")
    if axis.aim is not None:
        drawing.line((axis.place(axis.aim), TOP - 8), (axis.place(axis.aim), bottom), colour=INK, dashed=True)
    for number, row in enumerate(rows):
        _draw(drawing, row, axis, TOP + ROW * number + 10)
    return drawing.svg(bottom + 34)


def _draw(drawing: Drawing, row: Row, axis: Axis, y: float) -> None:
    if row.value is None:
        drawing.text(20, y + 5, row.label, size=13, bold=True)
        return
    colour = COLOURS[row.kind]
    drawing.text(32, y + 5, row.label, size=13)
    if row.to is not None:
        ends = (axis.place(row.value), y), (axis.place(row.to), y)
        drawing.line(*ends, colour=colour, width=5)
    if axis.is_log:
        drawing.dot(axis.place(row.value), y, colour=colour, radius=5.5)
    drawing.text(WIDTH - RIGHT + 16, y + 5, row.text, size=13)


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
                text=f"{duration(one['p50'])} to {duration(one['p99'])}",
            )
            for kind, one in found.items()
        ]
    ticks = {tick: tick_words(tick) for tick in (0.1, 1.0, 10.0, 60.0, 600.0)}
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
