"""Compare runs: patterns and settings, and for each the range of its figures over undocumented AWS behaviour."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from .load import play
from .outcome import LaneOutcome, Outcome, Totals, outcome_of, waits_by_lane
from .settings import Settings
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
AS_CONFIGURED = Settings()


@dataclasses.dataclass(frozen=True, slots=True)
class Variant:
    """A pattern with settings."""

    settings: Settings
    pattern: Pattern

    @property
    def name(self) -> str:
        """Its printed name without settings, or with them."""
        return ", ".join(filter(None, (self.settings.description, NAMES[self.pattern])))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """
    One run.

    Attributes:
        variant: the consumer.
        unknowns: name of the undocumented behaviour.
        outcome: its figures.
        waits: of each message by lane, shortest first.
        events: number of simulated events.

    """

    variant: Variant
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
    settings: Sequence[Settings] = (AS_CONFIGURED,),
    all_unknowns: bool = False,
    report: Callable[[str], None] = lambda _text: None,
) -> list[Run]:
    """Play the scenario for all settings and patterns, with the unknowns as given or over their whole range."""
    range_of: Mapping[str, Unknowns] = scenario.variants
    if not all_unknowns:
        range_of = {"as given": scenario.unknowns}
    runs = []
    for variant in (Variant(one, pattern) for one in settings for pattern in patterns):
        for name, unknowns in range_of.items():
            report(f"{variant.name}: {name}")
            lanes = play(scenario, variant.settings.apply(config), pattern=variant.pattern, unknowns=unknowns)
            runs.append(
                Run(
                    variant=variant,
                    unknowns=name,
                    outcome=outcome_of(lanes, scenario, prices),
                    waits=waits_by_lane(lanes),
                    events=lanes.scheduler.events,
                )
            )
    return runs


def by_variant(runs: Sequence[Run]) -> dict[Variant, list[Run]]:
    """Return the runs of each variant, in their order."""
    found: dict[Variant, list[Run]] = {}
    for run in runs:
        found.setdefault(run.variant, []).append(run)
    return found


def lane_rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return a row for each variant and lane; figures of several runs become ranges."""
    rows = []
    for variant, mine in by_variant(runs).items():
        for lane in (one.lane for one in mine[0].outcome.lanes):
            figures = [run.outcome.lane(lane) for run in mine]
            rows.append({**_head(variant), "lane": lane, **_merged(LaneOutcome, figures)})
    return rows


def total_rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return a row for each variant."""
    return [
        {**_head(variant), **_merged(Totals, [run.outcome.totals for run in mine])}
        for variant, mine in by_variant(runs).items()
    ]


def settings_rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return a row for each variant with the waits of all lanes that had messages, to choose settings by."""
    lanes = [one.lane for one in runs[0].outcome.lanes if one.sent]
    # A column that says the same in every row is no help.
    only_one = len({run.variant.pattern for run in runs}) == 1
    rows = []
    for variant, mine in by_variant(runs).items():
        outcomes = [run.outcome for run in mine]
        head = {key: value for key, value in _head(variant).items() if not (only_one and key == "pattern")}
        waits = {
            f"{lane} {figure}": _range([getattr(one.lane(lane), figure) for one in outcomes])
            for lane in lanes
            for figure in ("p50", "p99")
        }
        ends = {
            ending: _range([sum(getattr(lane, ending) for lane in one.lanes) for one in outcomes])
            for ending in ("dead", "left")
        }
        totals = _merged(Totals, [one.totals for one in outcomes])
        kept = {key: totals[key] for key in ("drained", "busy", "idle", "refused", "dollars_a_day")}
        rows.append({**head, **waits, **ends, **kept})
    return rows


def _head(variant: Variant) -> dict[str, Any]:
    return {"settings": variant.settings, "pattern": NAMES[variant.pattern]}


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
