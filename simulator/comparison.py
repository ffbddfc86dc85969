"""Compare runs: the patterns, and for each the range of its figures over undocumented AWS behaviour."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from .load import play
from .outcome import LaneOutcome, Outcome, Totals, outcome_of, waits_by_lane
from .simulated_lanes import Pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.config import LanesConfig

    from .parameters import Unknowns
    from .prices import Prices
    from .scenario import Scenario

NAMES = {Pattern.LANES: "ours", Pattern.PULL: "pull", Pattern.PLAIN: "plain", Pattern.NONE: "none"}
"""
Printed names: this product, its pull engine, the plain pattern (check each record, leave visibility alone), and no
priority.
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """
    One run.

    Attributes:
        pattern: the consumer.
        unknowns: name of its variant.
        outcome: its figures.
        waits: of each message by lane, shortest first.
        events: number of simulated events.

    """

    pattern: Pattern
    unknowns: str
    outcome: Outcome
    waits: Mapping[str, Sequence[float]]
    events: int


@dataclasses.dataclass(frozen=True, slots=True)
class Range:
    """Lowest and highest value of a figure."""

    low: float
    high: float


def compare(
    scenario: Scenario,
    config: LanesConfig,
    *,
    patterns: Sequence[Pattern],
    prices: Prices,
    all_unknowns: bool = False,
    report: Callable[[str], None] = lambda _text: None,
) -> list[Run]:
    """Play the scenario for each pattern, with the unknowns as given or over their whole range."""
    range_of: Mapping[str, Unknowns] = scenario.variants
    if not all_unknowns:
        range_of = {"as given": scenario.unknowns}
    runs = []
    for pattern in patterns:
        for name, unknowns in range_of.items():
            report(f"{NAMES[pattern]}: {name}")
            lanes = play(scenario, config, pattern=pattern, unknowns=unknowns)
            runs.append(
                Run(
                    pattern=pattern,
                    unknowns=name,
                    outcome=outcome_of(lanes, scenario, prices),
                    waits=waits_by_lane(lanes),
                    events=lanes.scheduler.events,
                )
            )
    return runs


def lane_rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return a row for each pattern and lane; figures of several runs become ranges."""
    rows = []
    for pattern in dict.fromkeys(run.pattern for run in runs):
        mine = [run.outcome for run in runs if run.pattern is pattern]
        for lane in (one.lane for one in mine[0].lanes):
            figures = [outcome.lane(lane) for outcome in mine]
            rows.append({"pattern": NAMES[pattern], "lane": lane, **_merged(LaneOutcome, figures)})
    return rows


def total_rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return a row for each pattern."""
    return [
        {
            "pattern": NAMES[pattern],
            **_merged(Totals, [run.outcome.totals for run in runs if run.pattern is pattern]),
        }
        for pattern in dict.fromkeys(run.pattern for run in runs)
    ]


def _merged(kind: type[LaneOutcome | Totals], figures: Sequence[Any]) -> dict[str, Any]:
    merged = {}
    for field in dataclasses.fields(kind):
        if field.name != "lane":
            values = [getattr(one, field.name) for one in figures]
            merged[field.name] = _range(values)
    return merged


def _range(values: Sequence[Any]) -> Any:
    """One value if they are all the same; if some runs gave none, the range has no upper end."""
    if all(value == values[0] for value in values):
        return values[0]
    known = [value for value in values if value is not None]
    return Range(min(known), max(known) if len(known) == len(values) else float("inf"))
