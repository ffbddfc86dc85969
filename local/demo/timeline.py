"""The timeline: a picture of arrivals and running records, by lane, for each run."""

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from local.demo.evidence import Ending, Evidence
from local.demo.report import Outcome, seconds_words
from local.demo.runs import RunName
from local.demo.waits import Wait, waits

LANE_COLOURS = ("#b3261e", "#b26a00", "#1f5f99", "#6a4c93", "#2e7d4f", "#5b5b5b", "#8c4a6b")
_BACKGROUND, _INK, _FAINT = "#ffffff", "#222222", "#d9d9d9"
_WIDTH_INCHES, _PANEL_INCHES, _DOTS_AN_INCH = 11.0, 2.9, 110
_SLICES = 160
_ROW_GAP = 0.25
_TITLES = {
    RunName.WITHOUT: "No priority: everything in the last lane",
    RunName.MAPPINGS: "Mappings: a mapping on each lane starts invocations",
    RunName.PULL: "Pull: each invocation receives the most urgent messages itself",
}


def draw_timeline(outcome: Outcome, path: Path) -> bytes:
    """Draw the picture into a PNG file, and give its bytes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    runs = [(_TITLES[name], evidence) for name, evidence in outcome.evidence.items()]
    figure = Figure(figsize=(_WIDTH_INCHES, 0.9 + _PANEL_INCHES * len(runs)), facecolor=_BACKGROUND)
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(runs), 1, sharex=True, squeeze=False)[:, 0]
    longest = max(evidence.drain_seconds for _, evidence in runs)
    for panel, (title, evidence) in zip(panels, runs, strict=True):
        _draw_run(panel, title, evidence, seconds=longest)
    panels[-1].set_xlabel("seconds since the mappings were switched on", color=_INK)
    _explain(figure)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.42 / figure.get_figheight()))
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=_DOTS_AN_INCH, facecolor=_BACKGROUND)
    path.write_bytes(picture.getvalue())
    return picture.getvalue()


def _draw_run(panel: Any, title: str, evidence: Evidence, *, seconds: float) -> None:
    found = waits(evidence)
    lanes = evidence.lanes
    for number, lane in enumerate(lanes):
        colour, base = LANE_COLOURS[number % len(LANE_COLOURS)], float(len(lanes) - 1 - number)
        mine = sorted((wait for wait in found if wait.traffic == lane), key=lambda wait: wait.sent_at)
        if mine and evidence.sent[mine[0].id].is_live:
            _draw_waits(panel, mine, evidence, base=base, colour=colour)
        else:
            _draw_pace(panel, mine, evidence, base=base, colour=colour, seconds=seconds)
    panel.set_title(title, loc="left", fontsize=11, fontweight="bold", color=_INK)
    panel.set_xlim(0, seconds * 1.02)
    panel.set_ylim(-_ROW_GAP, len(lanes))
    panel.set_yticks([len(lanes) - 1 - number + (1 - _ROW_GAP) / 2 for number in range(len(lanes))])
    panel.set_yticklabels(lanes, fontsize=10, fontweight="bold")
    for number, label in enumerate(panel.get_yticklabels()):
        label.set_color(LANE_COLOURS[number % len(LANE_COLOURS)])
    panel.tick_params(length=0)
    panel.grid(visible=True, axis="x", color=_FAINT, linewidth=0.6)
    panel.set_axisbelow(True)
    for side in panel.spines.values():
        side.set_visible(False)
    panel.axvline(evidence.drain_seconds, color=_INK, linewidth=1, linestyle=":")
    panel.annotate(
        f"all done {seconds_words(evidence.drain_seconds)}",
        (evidence.drain_seconds, len(lanes) - _ROW_GAP / 2),
        xytext=(-4, 0),
        textcoords="offset points",
        ha="right",
        va="center",
        fontsize=8,
        color=_INK,
    )


def _draw_waits(panel: Any, found: Sequence[Wait], evidence: Evidence, *, base: float, colour: str) -> None:
    """One line a message, from its arrival to its first start; they fan out over the height of the row."""
    height = 1 - _ROW_GAP
    step = height / max(1, len(found) - 1)
    heights = [base + height - step * number for number in range(len(found))]
    arrived = [wait.sent_at - evidence.began_at for wait in found]
    started = [
        (evidence.ended_at if math.isinf(wait.started_at) else wait.started_at) - evidence.began_at
        for wait in found
    ]
    panel.hlines(heights, arrived, started, color=colour, linewidth=1.2, alpha=0.75)
    panel.plot(arrived, heights, linestyle="", marker="|", markersize=6, color=_INK, markeredgewidth=0.9)
    panel.plot(started, heights, linestyle="", marker="o", markersize=3, color=colour)


def _draw_pace(
    panel: Any, found: Sequence[Wait], evidence: Evidence, *, base: float, colour: str, seconds: float
) -> None:
    """Records done in each slice of time, as an area that fills the row where the lane ran at full pace."""
    ids = {wait.id for wait in found}
    width = max(seconds, 0.001) / _SLICES
    counts = [0] * (_SLICES + 1)
    for effect in evidence.effects:
        if effect.ending is Ending.FINISHED and effect.id in ids:
            counts[min(_SLICES, int((effect.last_seen_at - evidence.began_at) / width))] += 1
    most = max(counts) or 1
    edges = [width * number for number in range(len(counts))]
    tops = [base + (1 - _ROW_GAP) * count / most for count in counts]
    panel.fill_between(edges, base, tops, step="post", color=colour, alpha=0.55, linewidth=0)
    panel.annotate(
        f"height: records done, at most {most / width:.0f} a second",
        (0, base),
        xytext=(0, -3),
        textcoords="offset points",
        va="top",
        fontsize=8,
        color=_INK,
    )


def _explain(figure: Any) -> None:
    figure.text(
        0.01,
        1 - 0.14 / figure.get_figheight(),
        "Live messages: a tick when one arrives, a dot when its handler starts, a line while it waits.",
        fontsize=9,
        color=_INK,
        va="top",
    )
