"""Charts of simulations as SVG files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.charts import FAINT, RULE, Drawing, LogAxis, duration, lane_colour, tick_words
from lanes.errors import LanesError

from .comparison import NAMES, by_variant

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .comparison import Run, Variant

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


def draw_waits(runs: Sequence[Run]) -> str:
    """
    Draw the waits of each lane: for each variant a dot at p50 and a bar to p99, on one logarithmic axis.

    Over a range of unknowns the dot is the smallest p50 and the bar ends at the largest p99.
    """
    found = by_variant(runs)
    names = _labels(list(found))
    lanes = [one.lane for one in runs[0].outcome.lanes]
    spans = {
        (lane, variant): (
            min(run.outcome.lane(lane).p50 for run in mine),
            max(run.outcome.lane(lane).p99 for run in mine),
        )
        for lane in lanes
        for variant, mine in found.items()
    }
    ends = [value for span in spans.values() for value in span]
    left = max(WAITS_LEFT, LANE_COLUMN + LETTER * max(map(len, names.values())))
    # Charts of several loads have the same axis, as far as they can.
    axis = LogAxis([*USUAL_WAITS, *ends], start=left, end=left + WAITS_WIDTH)
    width = left + WAITS_WIDTH + WAITS_RIGHT
    drawing = Drawing(
        width,
        title="Waits of the simulated lanes",
        description=" ".join(
            f"{lane}, {names[variant]}: p50 {duration(low)}, p99 {duration(high)}."
            for (lane, variant), (low, high) in spans.items()
        ),
    )
    bottom = HEAD + (LINE * len(found) + LANE_GAP) * len(lanes)
    _ticks(drawing, axis, top=HEAD - 8, bottom=bottom)
    drawing.text(width - MARGIN, HEAD - 16, "p50 to p99", colour=FAINT, size=12, anchor="end")
    drawing.text(MARGIN, HEAD - 16, "wait for a start: dot p50, bar to p99", colour=FAINT, size=12)
    for number, lane in enumerate(lanes):
        top = HEAD + (LINE * len(found) + LANE_GAP) * number
        colour = lane_colour(number)
        drawing.text(MARGIN, top + 17, lane, colour=colour, bold=True)
        for place, variant in enumerate(found):
            low, high = spans[lane, variant]
            y = top + LINE * place + LINE / 2
            words = f"{duration(low)} to {duration(high)}"
            drawing.text(left - 10, y + 5, names[variant], colour=FAINT, size=12, anchor="end")
            drawing.line((axis.place(low), y), (axis.place(high), y), colour=colour, width=8, opacity=0.45)
            drawing.dot(axis.place(low), y, colour=colour, radius=6)
            drawing.text(width - MARGIN, y + 5, words, size=14, anchor="end")
    return drawing.svg(bottom + FOOT)


def _labels(variants: Sequence[Variant]) -> dict[Variant, str]:
    """Return the part of each name in which the variants differ; of a single one, its pattern."""
    if len({one.settings for one in variants}) == 1:
        return {one: NAMES[one.pattern] for one in variants}
    if len({one.pattern for one in variants}) == 1:
        return {one: one.settings.description for one in variants}
    return {one: one.name for one in variants}


def _ticks(drawing: Drawing, axis: LogAxis, *, top: float, bottom: float) -> None:
    for tick in axis.ticks:
        x = axis.place(tick)
        drawing.line((x, top), (x, bottom), colour=RULE)
        drawing.text(x, bottom + 18, tick_words(tick), size=12, colour=FAINT, anchor="middle")
