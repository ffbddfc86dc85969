"""Play a load on simulated lanes and compare the runs: a table for people, data for programs, and a chart."""

from __future__ import annotations

import dataclasses
import math
from random import Random
from typing import TYPE_CHECKING, Any

from lanes.charts import FAINT, RULE, Drawing, LogAxis, duration, lane_colour, tick_words
from lanes.errors import LanesError

from .outcome import Outcome, outcome_of
from .scenario import Settings
from .simulated_lanes import Pattern, SimulatedLanes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from lanes.config import LanesConfig

    from .outcome import Prices
    from .parameters import Unknowns
    from .scenario import Arrivals, Scenario


SETTLED_EVERY = 1.0
"""Seconds between two checks for the end, after the last arrival."""


def play(
    scenario: Scenario,
    config: LanesConfig,
    *,
    pattern: Pattern = Pattern.LANES,
    unknowns: Unknowns | None = None,
) -> SimulatedLanes:
    """
    Return the lanes when no message is left, or when the time is over.

    Arrivals are the same for all patterns and unknowns, so you can compare runs message by message.
    """
    lanes = SimulatedLanes(
        config,
        pattern=pattern,
        unknowns=unknowns or scenario.unknowns,
        faults=scenario.faults,
        seed=scenario.seed,
    )
    lanes.away = scenario.is_away
    ends_at = lanes.scheduler.now + scenario.duration.total_seconds()
    for lane, arrivals in scenario.arrivals.items():
        Source(lanes, lane, arrivals, chance=Random(f"{lane} {scenario.seed}"), ends_at=ends_at).start()  # noqa: S311
    lanes.run(seconds=scenario.duration.total_seconds())
    for _ in range(math.ceil(scenario.drain.total_seconds() / SETTLED_EVERY)):
        if lanes.done + lanes.dead >= lanes.sent and not lanes.left:
            break
        lanes.run(seconds=SETTLED_EVERY)
    return lanes


class Source:
    """The producers of one lane."""

    def __init__(
        self, lanes: SimulatedLanes, lane: str, arrivals: Arrivals, *, chance: Random, ends_at: float
    ) -> None:
        self._lanes = lanes
        self._lane = lane
        self._arrivals = arrivals
        self._chance = chance
        self._ends_at = ends_at
        self._sent = 0

    def start(self) -> None:
        """Send the backlog and let the rest arrive."""
        for _ in range(self._arrivals.backlog):
            self._send()
        self._next()

    def _next(self) -> None:
        """One event at a time, so that a million arrivals need no memory before they happen."""
        if not self._arrivals.rate:
            return
        wait = self._chance.expovariate(self._arrivals.rate / self._arrivals.burst)
        if self._lanes.scheduler.now + wait <= self._ends_at:
            self._lanes.scheduler.after(wait, self._arrive)

    def _arrive(self) -> None:
        for _ in range(self._arrivals.burst):
            self._send()
        self._next()

    def _send(self) -> None:
        arrivals, chance = self._arrivals, self._chance
        self._sent += 1
        group = chance.randrange(arrivals.groups) if arrivals.groups else self._sent
        seconds = arrivals.service.total_seconds()
        if arrivals.spread:
            seconds *= chance.lognormvariate(0.0, arrivals.spread)
        fate = chance.random()
        fault = ""
        if fate < arrivals.failing + arrivals.flaky:
            fault = "always" if fate < arrivals.failing else "once"
        self._lanes.send(self._lane, group=f"{self._lane}-{group}", seconds=seconds, fault=fault)


NAMES = {Pattern.LANES: "ours", Pattern.PULL: "pull", Pattern.PLAIN: "plain", Pattern.NONE: "none"}
"""
Printed names: this product, its pull engine, the plain pattern (check each record, leave visibility alone), and no
priority.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """The figures of one combination of settings with one pattern."""

    settings: Settings
    pattern: Pattern
    outcome: Outcome

    @property
    def name(self) -> str:
        """Its name with its settings."""
        return ", ".join(filter(None, (self.settings.description, NAMES[self.pattern])))

    def plain(self) -> dict[str, Any]:
        """Return all figures as JSON-able data: seconds and shares as numbers."""
        return {
            "settings": self.settings.plain(),
            "pattern": NAMES[self.pattern],
            "lanes": [dataclasses.asdict(lane) for lane in self.outcome.lanes],
            "totals": dataclasses.asdict(self.outcome.totals),
        }


def compare(
    scenario: Scenario,
    config: LanesConfig,
    *,
    patterns: Sequence[Pattern],
    prices: Prices,
    settings: Sequence[Settings] = (Settings(),),
    report: Callable[[str], None] = lambda _text: None,
) -> list[Run]:
    """Play the scenario for all settings and patterns."""
    runs = []
    for one in settings:
        for pattern in patterns:
            lanes = play(scenario, one.apply(config), pattern=pattern)
            runs.append(Run(one, pattern, outcome_of(lanes, scenario, prices)))
            report(runs[-1].name)
    return runs


def rows(runs: Sequence[Run]) -> list[dict[str, str]]:
    """
    Return a row for each run, with the waits of all lanes that had messages.

    Settings and pattern are left out where all rows have the same, and refused calls and yields where there were none.
    """
    lanes = [lane.lane for lane in runs[0].outcome.lanes if lane.sent]
    settings, patterns = len({run.settings for run in runs}) > 1, len({run.pattern for run in runs}) > 1
    totals = [run.outcome.totals for run in runs]
    found = []
    for run in runs:
        all_lanes, total = run.outcome.lanes, run.outcome.totals
        row = {"settings": run.settings.description} if settings else {}
        row |= {"pattern": NAMES[run.pattern]} if patterns else {}
        for lane in map(run.outcome.lane, lanes):
            row[f"{lane.lane} p50, p99"] = f"{duration(lane.p50)}, {duration(lane.p99)}"
        row |= {name: str(sum(getattr(lane, name) for lane in all_lanes)) for name in ("dead", "left")}
        row["drained"] = "never" if total.drained is None else duration(total.drained)
        row |= {"busy": f"{total.busy:.1%}", "idle": f"{total.idle:.1%}"}
        if any(one.refused for one in totals):
            row["refused"] = str(total.refused)
        if any(lane.yields for one in runs for lane in one.outcome.lanes):
            row["yields"] = str(sum(lane.yields for lane in all_lanes))
        found.append({**row, "$ a day": f"{total.dollars_a_day:.2f}"})
    return found


def chart(runs: Sequence[Run]) -> str:
    """Draw the waits of each lane by run."""
    one_setting = len({run.settings for run in runs}) == 1
    one_pattern = len({run.pattern for run in runs}) == 1

    def label(run: Run) -> str:
        """Return the part of its name in which the runs differ; of a single one, its pattern."""
        if one_setting:
            return NAMES[run.pattern]
        return run.settings.description if one_pattern else run.name

    groups = {}
    for lane in (one.lane for one in runs[0].outcome.lanes):
        figures = {label(run): run.outcome.lane(lane) for run in runs}
        groups[lane] = {name: (one.p50, one.p99) for name, one in figures.items()}
    return draw_spans("Waits of the simulated lanes", groups)


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
