"""The report of a demo as one JSON document, and as the words and rows that page and terminal show."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from local.demo.evidence import Evidence
from local.demo.figures import LaneFigures, RunFigures, RunRules, rounded
from local.demo.footprint import Footprint
from local.demo.plan import DemoPlan
from local.demo.promises import Promise

_WITHOUT = "_without"
COUNTING = (
    "The clock of both runs starts when the mappings are switched on, with the whole backfill waiting in its "
    "queue; the live messages are the same ones, sent when the same share of the backfill is done. A wait lasts "
    "from the queue's own SentTimestamp to the first start of the handler; live messages behind a failing "
    "message of their own lane and group wait for that one, and are left out of p50 and p99 in both runs. What "
    "was done is read from the handler's own lines, deliveries and dead letters from the queues, calls from "
    "the AWS server."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Everything that a demo found out."""

    plan: DemoPlan
    rules: RunRules
    evidence: Evidence
    evidence_without: Evidence | None
    figures: RunFigures
    figures_without: RunFigures | None
    promises: Sequence[Promise]
    footprint: Footprint | None
    phase_seconds: Mapping[str, float]
    total_seconds: float

    @property
    def broken(self) -> list[Promise]:
        """Promises that were not kept."""
        return [promise for promise in self.promises if not promise.is_kept]

    @property
    def top_lane(self) -> str:
        """Name of the highest lane that got messages."""
        return self.figures.top_lane


def report_document(outcome: Outcome) -> dict[str, Any]:
    """Make the JSON document; its keys are explained in the documentation of the demo."""
    mine, other = outcome.figures, outcome.figures_without
    values = {promise.name: promise.value for promise in outcome.promises}
    document = {
        "passed": not outcome.broken,
        "broken": [promise.broken_words() for promise in outcome.broken],
        **_run_keys(mine),
        "high_wait_p99_seconds": mine.p99_of(outcome.top_lane),
        "high_wait_p99_seconds_without": other.p99_of(outcome.top_lane) if other else None,
        "high_wait_ratio": values.get("high_wait_ratio"),
        "drain_seconds_without": other.drain_seconds if other else None,
        "total_drain_ratio": values.get("total_drain_ratio"),
        **_settings(outcome),
        **({} if outcome.footprint is None else asdict(outcome.footprint)),
        "lanes": {name: asdict(lane) for name, lane in mine.lanes.items()},
        "lanes_without": {name: asdict(lane) for name, lane in other.lanes.items()} if other else None,
        "without": _run_keys(other) if other else None,
        "function_calls_by_operation": dict(outcome.evidence.function_calls),
        "promises": [_promise(promise) for promise in outcome.promises],
        "seconds": {**outcome.phase_seconds, "total": outcome.total_seconds},
        "machine": {"cpus": os.cpu_count(), "load_average": list(os.getloadavg())},
        "counting": COUNTING,
    }
    made: dict[str, Any] = rounded(document)
    return made


def _run_keys(figures: RunFigures) -> dict[str, Any]:
    run = asdict(figures)
    del run["lanes"]
    return run


def _settings(outcome: Outcome) -> dict[str, Any]:
    return {
        "customers": outcome.plan.customers,
        "seed": outcome.plan.seed,
        "shards": outcome.plan.shards,
        "slots": outcome.rules.slots,
        "max_attempts": outcome.rules.max_attempts,
        "recheck_interval_seconds": outcome.rules.recheck_seconds,
    }


def _promise(promise: Promise) -> dict[str, Any]:
    return {
        "name": promise.name,
        "sentence": promise.sentence,
        "value": promise.value,
        "limit": promise.limit,
        "relation": promise.relation.value,
        "kept": None if promise.not_judged else promise.is_kept,
        "not_judged": promise.not_judged or None,
    }


def seconds_words(seconds: float | None) -> str:
    """Write a duration for people."""
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def number_words(value: float | None) -> str:
    """Write a figure for people."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromiseRow:
    """A promise as people read it: its figures of both runs side by side; empty where there is none."""

    name: str
    value: str
    without: str
    limit: str
    verdict: str
    words: str


def promise_rows(outcome: Outcome) -> list[PromiseRow]:
    """Rows of the table of promises; one row for a promise of both runs."""
    named = {promise.name: promise for promise in outcome.promises}
    figures = outcome.figures_without
    shown = {"high_wait_p99_seconds": figures.p99_of(outcome.top_lane)} if figures else {}
    rows = []
    for name, promise in named.items():
        if name.endswith(_WITHOUT):
            continue
        twin = named.get(name + _WITHOUT)
        without = twin.value if twin else shown.get(name)
        rows.append(
            PromiseRow(
                name=name,
                value=number_words(promise.value),
                without="" if without is None else number_words(without),
                limit=f"{promise.relation.value} {number_words(promise.limit)}",
                verdict=_verdict(promise, twin),
                words=promise.not_judged or promise.sentence,
            )
        )
    return rows


def _verdict(promise: Promise, twin: Promise | None) -> str:
    if promise.not_judged:
        return "not judged"
    return "kept" if promise.is_kept and (twin is None or twin.is_kept) else "BROKEN"


def lane_rows(outcome: Outcome) -> list[tuple[str, ...]]:
    """Rows of the table of lanes: each figure with priority, and without where that was run."""
    without = outcome.figures_without.lanes if outcome.figures_without else {}
    rows: list[tuple[str, ...]] = []
    for name, lane in outcome.figures.lanes.items():
        other = without.get(name)
        rows.append(
            (
                name,
                _both(lane, other, lambda one: f"{one.sent:,}"),
                _both(lane, other, lambda one: f"{one.handled:,}"),
                _both(lane, other, lambda one: f"{one.dead_lettered:,}"),
                _both(lane, other, lambda one: seconds_words(one.p50_wait_seconds)),
                _both(lane, other, lambda one: seconds_words(one.p99_wait_seconds)),
                _both(lane, other, lambda one: f"{one.yields:,}"),
                _both(lane, other, lambda one: f"{one.receives:,}"),
            )
        )
    return rows


PROMISE_HEADINGS = ("promise", "with", "without", "promised", "", "in words")
LANE_HEADINGS = ("lane", "sent", "handled", "dead letters", "p50 wait", "p99 wait", "yields", "receives")


def _both(lane: LaneFigures, other: LaneFigures | None, words: Any) -> str:
    return words(lane) if other is None else f"{words(lane)} | {words(other)}"


def headline(outcome: Outcome) -> str:
    """Return the result in a sentence or two."""
    mine, other = outcome.figures, outcome.figures_without
    top = outcome.top_lane
    wait = seconds_words(mine.p99_of(top))
    if other is None:
        return f"{top} waited at most {wait} (p99) while {outcome.plan.customers:,} customers drained."
    return (
        f"{top} waited at most {wait} (p99) while {outcome.plan.customers:,} customers drained; "
        f"without priority {seconds_words(other.p99_of(top))}. Everything was done after "
        f"{seconds_words(mine.drain_seconds)}; without priority after {seconds_words(other.drain_seconds)}."
    )
