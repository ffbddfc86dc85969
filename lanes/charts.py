"""
A drawing as one SVG file, with colours for light and dark; and the timeline of lanes as such a drawing.

The timeline shows messages of each lane as they arrive, wait and start, with a panel for each run.
The colours are in a style with a media query, which browsers apply in an image too, so one file suits both schemes.
Programs without media queries show the light one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

LANE_COLOURS = (
    ("#c8415c", "#f0718a"),
    ("#c47a12", "#eba43c"),
    ("#2a78b5", "#62aaf0"),
    ("#2f8a5b", "#5fc48d"),
    ("#7a58a8", "#b193e0"),
    ("#5a6878", "#95a4b5"),
    ("#a8518c", "#e08ac4"),
)
"""Of the lanes from the highest, in light and dark; those of the page of `lanes ui`."""

PAPER, INK, FAINT, RULE = "paper", "ink", "faint", "rule"
_COLOURS: Mapping[str, tuple[str, str]] = {
    PAPER: ("#ffffff", "#16181d"),
    INK: ("#1c1f24", "#e8eaee"),
    FAINT: ("#5b6270", "#a3abb8"),
    RULE: ("#d9dde3", "#353a44"),
    **{f"lane-{number}": pair for number, pair in enumerate(LANE_COLOURS)},
}
# Seconds; a logarithmic axis has those around its values.
_TICKS = (0.001, 0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3_600.0, 36_000.0, 360_000.0)
_MINUTE, _HOUR = 60, 3_600

WIDTH, LEFT, RIGHT = 760, 104, 150
PLOT = WIDTH - LEFT - RIGHT
ROW, TITLE, GAP, FOOT, TOP = 52, 30, 16, 34, 12
BAR = 22
"""Height of a row's marks."""

SLICES = 120
"""Number of slices in which the pace of a backlog is counted."""


def lane_colour(number: int) -> str:
    """Return the colour class of a lane, from 0 for the highest."""
    return f"lane-{number % len(LANE_COLOURS)}"


class Drawing:
    """
    A drawing that grows by marks; all lengths are pixels.

    Args:
        width: its width.
        title: its subject, for screen readers.
        description: its content in sentences, for screen readers.
    """

    def __init__(self, width: float, *, title: str, description: str) -> None:
        self._width = width
        self._title = title
        self._description = description
        self._marks: list[str] = []

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        colour: str = INK,
        size: float = 14,
        anchor: str = "start",
        bold: bool = False,
    ) -> None:
        """Write text with its baseline at `y`; `anchor` is start, middle or end."""
        weight = " font-weight='700'" if bold else ""
        self._marks.append(
            f"<text class='{colour}' x='{x:.1f}' y='{y:.1f}' font-size='{size:g}' text-anchor='{anchor}'{weight}>"
            f"{escape(text)}</text>"
        )

    def line(
        self,
        start: tuple[float, float],
        end: tuple[float, float],
        *,
        colour: str = RULE,
        width: float = 1,
        opacity: float = 1,
        dashed: bool = False,
    ) -> None:
        """Draw a line."""
        dashes = " stroke-dasharray='4 4'" if dashed else ""
        self._marks.append(
            f"<line class='{colour}-line' x1='{start[0]:.1f}' y1='{start[1]:.1f}' x2='{end[0]:.1f}' y2='{end[1]:.1f}'"
            f" stroke-width='{width:g}'{_opacity(opacity)}{dashes}/>"
        )

    def dot(self, x: float, y: float, *, colour: str, radius: float) -> None:
        """Draw a filled circle."""
        self._marks.append(f"<circle class='{colour}' cx='{x:.1f}' cy='{y:.1f}' r='{radius:g}'/>")

    def area(self, points: Iterable[tuple[float, float]], *, colour: str, opacity: float) -> None:
        """Fill the area inside points."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._marks.append(f"<polygon class='{colour}' points='{path}'{_opacity(opacity)}/>")

    def svg(self, height: float) -> str:
        """Return the file."""
        light, dark = (
            "".join(
                f".{name}{{fill:{pair[place]}}}.{name}-line{{stroke:{pair[place]};fill:none}}"
                for name, pair in _COLOURS.items()
            )
            for place in (0, 1)
        )
        size = f"{self._width:g} {height:g}"
        marks = "\n".join(self._marks)
        return (
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {size}' role='img' aria-labelledby='t d' "
            f"font-family='system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif'>\n"
            f"<title id='t'>{escape(self._title)}</title>\n<desc id='d'>{escape(self._description)}</desc>\n"
            f"<style>{light}\n@media (prefers-color-scheme: dark){{{dark}}}</style>\n"
            f"<rect class='{PAPER}' width='100%' height='100%' rx='8'/>\n{marks}\n</svg>\n"
        )


class LogAxis:
    """
    A logarithmic axis of seconds with ticks at 0.1 s, 1 s, 10 s, 1 min and so on, as far as the values need.

    Args:
        values: the values to be placed, at least one of them positive and finite.
        start: place of its lower end.
        end: place of its upper end.
    """

    def __init__(self, values: Sequence[float], *, start: float, end: float) -> None:
        known = [value for value in values if 0 < value < math.inf]
        first = max((number for number, tick in enumerate(_TICKS) if tick <= min(known)), default=0)
        last = min(
            (number for number, tick in enumerate(_TICKS) if tick >= max(known)), default=len(_TICKS) - 1
        )
        # An axis has two ends, even where all values are at one tick.
        first, last = min(first, last - 1), max(last, 1)
        self.ticks = _TICKS[first : last + 1]
        self._start = start
        self._end = end

    def place(self, value: float) -> float:
        """Return the place of a value; one beyond an end is at the end."""
        low, high = math.log10(self.ticks[0]), math.log10(self.ticks[-1])
        share = (math.log10(max(value, self.ticks[0])) - low) / (high - low)
        return self._start + (self._end - self._start) * min(share, 1.0)


def duration(value: float) -> str:
    """Write a duration in seconds: 43 ms, 0.5 s, 6.4 s, 45 s, 3 min, 1.5 h."""
    if value < 0.0995:  # noqa: PLR2004 - shorter than 0.1 s as written
        return f"{value * 1000:.0f} ms"
    for below, unit, seconds in ((9.95, "s", 1), (99.5, "s", 1), (_HOUR, "min", _MINUTE)):
        if value < below:
            figure = value / seconds
            return f"{figure:.1f} {unit}" if value < 9.95 else f"{figure:.0f} {unit}"  # noqa: PLR2004 - two digits
    return f"{value / _HOUR:.1f} h"


def tick_words(value: float) -> str:
    """Write a tick of a logarithmic axis: 10 ms, 0.1 s, 1 s, 10 s, 1 min, 1 h."""
    for unit, seconds in (("h", _HOUR), ("min", _MINUTE), ("s", 0.1)):
        if value >= seconds:
            return f"{value / max(seconds, 1):g} {unit}"
    return f"{value * 1000:g} ms"


def _opacity(opacity: float) -> str:
    return "" if opacity == 1 else f" opacity='{opacity:g}'"


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
