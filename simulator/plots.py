"""Charts of simulations as SVG files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.charts import FAINT, RULE, Drawing, LogAxis, duration, lane_colour, tick_words
from lanes.errors import LanesError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MARGIN = 16
LINE, LANE_GAP, HEAD, FOOT = 24, 12, 40, 34
WAITS_LEFT, WAITS_WIDTH, WAITS_RIGHT = 150, 420, 150
LANE_COLUMN, LETTER = 96, 6.5
USUAL_WAITS = (0.1, 60.0)


class PlotError(LanesError):
    """The picture cannot be written."""


def write(picture: str, path: Path) -> None:
    """
    Write a picture into a file.

    Raises:
        PlotError: The file cannot be written.

    """
    try:
        path.write_text(picture, encoding="utf-8")
    except OSError as error:
        raise PlotError(f"{path} cannot be written: {error.strerror or error}") from error


def draw_spans(title: str, groups: Mapping[str, Mapping[str, tuple[float, float]]]) -> str:
    """Draw groups of waits, each a dot at p50 and a bar to p99 in seconds, on one logarithmic axis."""
    names = [name for spans in groups.values() for name in spans]
    ends = [value for spans in groups.values() for span in spans.values() for value in span]
    left = max(WAITS_LEFT, LANE_COLUMN + LETTER * max(map(len, names)))
    # Charts of several loads have the same axis, as far as they can.
    axis = LogAxis([*USUAL_WAITS, *ends], start=left, end=left + WAITS_WIDTH)
    width = left + WAITS_WIDTH + WAITS_RIGHT
    drawing = Drawing(
        width,
        title=title,
        description=" ".join(
            f"{group}, {name}: p50 {duration(low)}, p99 {duration(high)}."
            for group, spans in groups.items()
            for name, (low, high) in spans.items()
        ),
    )
    bottom = HEAD + LINE * len(names) + LANE_GAP * len(groups)
    for tick in axis.ticks:
        x = axis.place(tick)
        drawing.line((x, HEAD - 8), (x, bottom), colour=RULE)
        drawing.text(x, bottom + 18, tick_words(tick), size=12, colour=FAINT, anchor="middle")
    drawing.text(width - MARGIN, HEAD - 16, "p50 to p99", colour=FAINT, size=12, anchor="end")
    drawing.text(MARGIN, HEAD - 16, "wait for a start: dot p50, bar to p99", colour=FAINT, size=12)
    top = float(HEAD)
    for number, (group, spans) in enumerate(groups.items()):
        colour = lane_colour(number)
        drawing.text(MARGIN, top + 17, group, colour=colour, bold=True)
        for place, (name, (low, high)) in enumerate(spans.items()):
            y = top + LINE * place + LINE / 2
            drawing.text(left - 10, y + 5, name, colour=FAINT, size=12, anchor="end")
            drawing.line((axis.place(low), y), (axis.place(high), y), colour=colour, width=8, opacity=0.45)
            drawing.dot(axis.place(low), y, colour=colour, radius=6)
            words = f"{duration(low)} to {duration(high)}"
            drawing.text(width - MARGIN, y + 5, words, size=14, anchor="end")
        top += LINE * len(spans) + LANE_GAP
    return drawing.svg(bottom + FOOT)
