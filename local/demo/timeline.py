"""The timeline: a picture of arrivals, waits and the pace of the backfill, by lane, for each run."""

from collections.abc import Sequence
from pathlib import Path

from lanes.charts.timeline import Panel, Row, draw
from local.demo.evidence import Ending, Evidence
from local.demo.figures import RunFigures
from local.demo.report import Outcome, headline, seconds_words
from local.demo.runs import RunName
from local.demo.waits import Wait, waits

_TITLES = {
    RunName.WITHOUT: "No priority: everything in the last lane",
    RunName.MAPPINGS: "Mappings: a mapping on each lane starts invocations",
    RunName.PULL: "Pull: each invocation receives the most urgent messages itself",
}
EXPLANATION = (
    "A tick is a message that arrives, the area beside it the time until its handler starts; the backfill shows "
    "its messages done over time."
)


def draw_timeline(outcome: Outcome, path: Path) -> str:
    """Draw the picture into an SVG file, and give its content."""
    panels = [
        Panel(
            title=_TITLES[name],
            rows=_rows(evidence, outcome.figures[name]),
            seconds=evidence.drain_seconds,
        )
        for name, evidence in outcome.evidence.items()
    ]
    picture = draw(panels, title="Timeline of the lanes", description=f"{headline(outcome)} {EXPLANATION}")
    path.write_text(picture, encoding="utf-8")
    return picture


def _rows(evidence: Evidence, figures: RunFigures) -> list[Row]:
    found = waits(evidence)
    rows = []
    for lane in evidence.lanes:
        mine = [wait for wait in found if wait.traffic == lane]
        if mine and evidence.sent[mine[0].id].is_live:
            figure = seconds_words(figures.lanes[lane].p99_wait_seconds)
            rows.append(Row(name=lane, waits=_waits(mine, evidence), figure=figure, words="wait, p99"))
        else:
            ends = _ends(mine, evidence)
            figure = seconds_words(max(ends, default=None))
            rows.append(Row(name=lane, ends=ends, figure=figure, words="until all was done"))
    return rows


def _waits(found: Sequence[Wait], evidence: Evidence) -> list[tuple[float, float]]:
    return [(wait.sent_at - evidence.began_at, wait.started_at - evidence.began_at) for wait in found]


def _ends(found: Sequence[Wait], evidence: Evidence) -> list[float]:
    ids = {wait.id for wait in found}
    return [
        effect.last_seen_at - evidence.began_at
        for effect in evidence.effects
        if effect.ending is Ending.FINISHED and effect.id in ids
    ]
