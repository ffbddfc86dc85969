"""Charts of simulations and plans as SVG files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.charts.svg import FAINT, INK, RULE, Drawing, LogAxis, duration, lane_colour, tick_words
from lanes.errors import LanesError

from .comparison import NAMES
from .settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .comparison import Run
    from .search import Answer, Trial
    from .targets import Target

WIDTH, MARGIN = 720, 16
LINE, LANE_GAP, HEAD, FOOT = 24, 12, 40, 34
WAITS_LEFT, WAITS_RIGHT = 150, 150
PLAN_LEFT, PLAN_RIGHT, PANEL = 76, 40, 240
PLAN_HEAD = 62
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
    Draw the waits of each lane: for each pattern a dot at p50 and a bar to p99, on one logarithmic axis.

    Over a range of unknowns the dot is the smallest p50 and the bar ends at the largest p99.
    """
    patterns = list(dict.fromkeys(run.pattern for run in runs))
    lanes = [one.lane for one in runs[0].outcome.lanes]
    spans = {
        (lane, pattern): (
            min(run.outcome.lane(lane).p50 for run in runs if run.pattern is pattern),
            max(run.outcome.lane(lane).p99 for run in runs if run.pattern is pattern),
        )
        for lane in lanes
        for pattern in patterns
    }
    ends = [value for span in spans.values() for value in span]
    # Charts of several loads have the same axis, as far as they can.
    axis = LogAxis([*USUAL_WAITS, *ends], start=WAITS_LEFT, end=WIDTH - WAITS_RIGHT)
    drawing = Drawing(
        WIDTH,
        title="Waits of the simulated lanes",
        description=" ".join(
            f"{lane}, {NAMES[pattern]}: p50 {duration(low)}, p99 {duration(high)}."
            for (lane, pattern), (low, high) in spans.items()
        ),
    )
    bottom = HEAD + (LINE * len(patterns) + LANE_GAP) * len(lanes)
    _ticks(drawing, axis, top=HEAD - 8, bottom=bottom)
    drawing.text(WIDTH - MARGIN, HEAD - 16, "p50 to p99", colour=FAINT, size=12, anchor="end")
    drawing.text(MARGIN, HEAD - 16, "wait for a start: dot p50, bar to p99", colour=FAINT, size=12)
    for number, lane in enumerate(lanes):
        top = HEAD + (LINE * len(patterns) + LANE_GAP) * number
        colour = lane_colour(number)
        drawing.text(MARGIN, top + 17, lane, colour=colour, bold=True)
        for place, pattern in enumerate(patterns):
            low, high = spans[lane, pattern]
            y = top + LINE * place + LINE / 2
            words = f"{duration(low)} to {duration(high)}"
            drawing.text(WAITS_LEFT - 10, y + 5, NAMES[pattern], colour=FAINT, size=12, anchor="end")
            drawing.line((axis.place(low), y), (axis.place(high), y), colour=colour, width=8, opacity=0.45)
            drawing.dot(axis.place(low), y, colour=colour, radius=6)
            drawing.text(WIDTH - MARGIN, y + 5, words, size=14, anchor="end")
    return drawing.svg(bottom + FOOT)


def draw_plan(answer: Answer) -> str:
    """
    Draw the cost of each setting tried against its figure, a panel for each target, with the chosen one marked.

    At least one setting was tried, or a `ValueError` is raised.

    A setting that missed a target is a ring: it ran up to its first miss, so its figures may be larger still.
    """
    costs = [trial.dollars_a_day for trial in answer.trials]
    low, high = min(costs), max(costs)
    drawing = Drawing(WIDTH, title="Settings tried by the plan", description=_plan_words(answer))
    for number, target in enumerate(answer.targets):
        top = PLAN_HEAD + (PANEL + PLAN_HEAD) * number
        drawing.text(MARGIN, top - 36, str(target), size=16, bold=True)
        drawing.text(
            MARGIN, top - 16, "dot: holds, ring: misses a target, dashed: the target", size=12, colour=FAINT
        )
        _slots_legend(drawing, answer, y=top - 20)
        _plan_panel(drawing, answer, target, top=top, costs=(low, high))
    return drawing.svg((PANEL + PLAN_HEAD) * len(answer.targets) + FOOT)


def _plan_panel(
    drawing: Drawing, answer: Answer, target: Target, *, top: float, costs: tuple[float, float]
) -> None:
    bottom = top + PANEL - 20
    values = [*(trial.worst(target)[0] for trial in answer.trials), target.limit]
    axis = LogAxis(values, start=bottom, end=top)
    right = WIDTH - PLAN_RIGHT
    cheapest, dearest = costs
    span = (dearest - cheapest) or 1.0

    def place(trial: Trial) -> tuple[float, float]:
        share = (trial.dollars_a_day - cheapest) / span if dearest > cheapest else 0.5
        return PLAN_LEFT + 24 + (right - PLAN_LEFT - 48) * share, axis.place(trial.worst(target)[0])

    for tick in axis.ticks:
        drawing.line((PLAN_LEFT, axis.place(tick)), (right, axis.place(tick)), colour=RULE)
        drawing.text(
            PLAN_LEFT - 8, axis.place(tick) + 4, tick_words(tick), size=12, colour=FAINT, anchor="end"
        )
    for share in (0, 0.5, 1) if dearest > cheapest else (0.5,):
        x = PLAN_LEFT + 24 + (right - PLAN_LEFT - 48) * share
        words = f"${cheapest + (dearest - cheapest) * share:.2f}"
        drawing.text(x, bottom + 18, words, size=12, colour=FAINT, anchor="middle")
    drawing.text(right, bottom + 34, "cost a day", size=12, colour=FAINT, anchor="end")
    limit = axis.place(target.limit)
    drawing.line((PLAN_LEFT, limit), (right, limit), colour=INK, width=1.5, dashed=True)
    for trial in answer.trials:
        colour = lane_colour(trial.settings.slots - 1)
        if trial.missed is None:
            drawing.dot(*place(trial), colour=colour, radius=5, opacity=0.8)
        else:
            drawing.ring(*place(trial), colour=colour, radius=5)
    if answer.best is not None:
        x, y = place(answer.best)
        drawing.ring(x, y, colour=INK, radius=10, width=2)
        anchor = "end" if x > WIDTH / 2 else "start"
        drawing.text(
            x + (-16 if anchor == "end" else 16),
            y + 26,
            _chosen(answer.best, target),
            size=14,
            bold=True,
            anchor=anchor,
        )


def _slots_legend(drawing: Drawing, answer: Answer, *, y: float) -> None:
    """Name the colours, from the right."""
    x = float(WIDTH - PLAN_RIGHT)
    for slots in sorted({trial.settings.slots for trial in answer.trials}, reverse=True):
        words = Settings(slots=slots).description
        drawing.text(x, y + 4, words, size=12, colour=FAINT, anchor="end")
        x -= 7.0 * len(words) + 6
        drawing.dot(x, y, colour=lane_colour(slots - 1))
        x -= 14


def _chosen(best: Trial, target: Target) -> str:
    return f"chosen: {duration(best.worst(target)[0])}, ${best.dollars_a_day:.2f} a day"


def _plan_words(answer: Answer) -> str:
    held = sum(trial.missed is None for trial in answer.trials)
    words = f"{len(answer.trials)} settings tried, {held} hold."
    if answer.best is None:
        return words
    chosen = [f"{target}: {_chosen(answer.best, target)}." for target in answer.targets]
    return " ".join([words, *chosen, answer.best.settings.description])


def _ticks(drawing: Drawing, axis: LogAxis, *, top: float, bottom: float) -> None:
    for tick in axis.ticks:
        x = axis.place(tick)
        drawing.line((x, top), (x, bottom), colour=RULE)
        drawing.text(x, bottom + 18, tick_words(tick), size=12, colour=FAINT, anchor="middle")
