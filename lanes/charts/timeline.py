"""The timeline: messages of each lane as they arrive, wait and start, a panel for each run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lanes.charts.svg import FAINT, INK, RULE, Drawing, duration, lane_colour

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH, LEFT, RIGHT = 760, 104, 150
PLOT = WIDTH - LEFT - RIGHT
ROW, TITLE, GAP, FOOT, TOP = 52, 30, 16, 34, 12
BAR = 22
"""Height of a row's marks."""

SLICES = 120
"""Number of slices in which the pace of a backlog is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """
    The messages of one lane in one run; times are seconds from the start of the run.

    Attributes:
        name: its label.
        waits: of single messages, when each arrived and when its handler started; empty for a backlog.
        ends: of a backlog, when each message was done; empty otherwise.
        figure: the number at its right.
        words: the meaning of that number.

    """

    name: str
    waits: Sequence[tuple[float, float]] = ()
    ends: Sequence[float] = ()
    figure: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A run: its title, its rows from the highest lane, and from when to when its resource was away."""

    title: str
    rows: Sequence[Row]
    seconds: float
    away: tuple[float, float] | None = None


def draw(panels: Sequence[Panel], *, title: str, description: str) -> str:
    """Draw the panels below each other on one axis of time, as an SVG file."""
    drawing = Drawing(WIDTH, title=title, description=description)
    longest = max(panel.seconds for panel in panels)
    step = _step(longest)
    heights = [TITLE + ROW * len(panel.rows) for panel in panels]
    bottom = TOP + sum(heights) + GAP * (len(panels) - 1)
    ticks = [number * step for number in range(int(longest / step) + 1)]
    top = float(TOP)
    for panel, height in zip(panels, heights, strict=True):
        for tick in ticks:
            x = _place(tick, longest)
            drawing.line((x, top + TITLE), (x, top + height - 10), colour=RULE)
        if panel.away:
            start, end = (_place(at, longest) for at in panel.away)
            above, below = top + TITLE, top + height - 10
            corners = [(start, above), (end, above), (end, below), (start, below)]
            drawing.area(corners, colour=FAINT, opacity=0.2)
            drawing.text(
                (start + end) / 2, (above + below) / 2, "away", colour=FAINT, size=12, anchor="middle"
            )
        _draw_panel(drawing, panel, top=top, longest=longest)
        top += height + GAP
    for tick in ticks:
        words = duration(tick) if tick else "0"
        drawing.text(_place(tick, longest), bottom + 12, words, colour=FAINT, anchor="middle")
    return drawing.svg(bottom + FOOT)


def _draw_panel(drawing: Drawing, panel: Panel, *, top: float, longest: float) -> None:
    drawing.text(14, top + 18, panel.title, size=16, bold=True)
    for number, row in enumerate(panel.rows):
        base = top + TITLE + ROW * number + 38
        colour = lane_colour(number)
        drawing.text(14, base - 6, row.name, size=16, colour=colour, bold=True)
        drawing.line((LEFT, base), (LEFT + PLOT, base), colour=RULE)
        if row.ends:
            _draw_pace(drawing, row, base=base, colour=colour, longest=longest)
        for arrived, started in row.waits:
            _draw_wait(drawing, arrived, started, base=base, colour=colour, longest=longest)
        for arrived in sorted({arrived for arrived, _ in row.waits}):
            x = _place(arrived, longest)
            drawing.line((x, base - BAR - 4), (x, base), colour=INK, width=1.2)
        right = WIDTH - 14
        drawing.text(right, base - 10, row.figure, size=26, colour=colour, anchor="end", bold=True)
        drawing.text(right, base + 6, row.words, size=12, colour=FAINT, anchor="end")


def _draw_wait(
    drawing: Drawing, arrived: float, started: float, *, base: float, colour: str, longest: float
) -> None:
    """Draw an area from its arrival to its start; those of a wave lie on each other."""
    start, end = _place(arrived, longest), _place(min(started, longest), longest)
    corners = [
        (start, base - BAR),
        (max(end, start + 1), base - BAR),
        (max(end, start + 1), base),
        (start, base),
    ]
    drawing.area(corners, colour=colour, opacity=0.16)


def _draw_pace(drawing: Drawing, row: Row, *, base: float, colour: str, longest: float) -> None:
    """Draw the number of messages done in each slice of time; full height is the fastest slice of the row."""
    counts = [0] * SLICES
    for end in row.ends:
        counts[min(SLICES - 1, int(end / longest * SLICES))] += 1
    most = max(counts)
    points = [(float(LEFT), base)]
    for number, count in enumerate(counts):
        height = base - (BAR + 4) * count / most
        points += [(_place(longest * place / SLICES, longest), height) for place in (number, number + 1)]
    drawing.area([*points, (LEFT + PLOT, base)], colour=colour, opacity=0.6)


def _place(seconds: float, longest: float) -> float:
    return LEFT + PLOT * seconds / longest


def _step(longest: float) -> float:
    """Return the distance of two ticks: at most seven in all."""
    power = 10.0 ** math.floor(math.log10(longest / 7))
    return next(power * times for times in (1, 2, 5, 10) if longest / (power * times) <= 7)  # noqa: PLR2004 - above
