"""Compare runs of one load: patterns and settings, as a table for people, data for programs, and a chart."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from lanes.charts import duration

from .load import play
from .outcome import Outcome, outcome_of
from .plots import draw_spans
from .settings import Settings
from .simulated_lanes import Pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.config import LanesConfig

    from .prices import Prices
    from .scenario import Scenario

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
