"""The report of a demo as one JSON document, and as the words and rows that page and terminal show."""

import math
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from local.demo.evidence import Evidence
from local.demo.figures import LaneFigures, RunFigures, RunRules, rounded
from local.demo.footprint import Footprint
from local.demo.plan import DemoPlan
from local.demo.promises import Promise
from local.demo.runs import RunName

COUNTING = (
    "The clock of every run starts when the mappings are switched on, with the whole backfill waiting in its "
    "queue; the live messages are the same ones, sent when the same share of the backfill is done. A wait lasts "
    "from the queue's own SentTimestamp to the first start of the handler; live messages behind a failing "
    "message of their own lane and group wait for that one, and are left out of p50 and p99 in every run. "
    "Handled messages are read from the handler's own lines, receives and dead letters from the queues, calls from "
    "the AWS server."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Everything that a demo found out; `evidence` and `figures` are those of each run, in the order shown."""

    plan: DemoPlan
    rules: RunRules
    evidence: Mapping[RunName, Evidence]
    figures: Mapping[RunName, RunFigures]
    promises: Sequence[Promise]
    footprint: Footprint | None
    load_average: float
    phase_seconds: Mapping[str, float]
    total_seconds: float

    @property
    def broken(self) -> list[Promise]:
        """Promises that were not kept."""
        return [promise for promise in self.promises if not promise.is_kept]

    @property
    def top_lane(self) -> str:
        """Name of the highest lane that got messages."""
        return self.figures[RunName.MAPPINGS].top_lane


def report_document(outcome: Outcome) -> dict[str, Any]:
    """Make the JSON document; its keys are explained in the documentation of the demo."""
    document: dict[str, Any] = {
        "passed": not outcome.broken,
        "broken": [promise.broken_words() for promise in outcome.broken],
    }
    for name in RunName:
        document |= _keys_of(name, outcome)
    document |= {
        **_settings(outcome),
        **({} if outcome.footprint is None else asdict(outcome.footprint)),
        "promises": [_promise(promise) for promise in outcome.promises],
        "seconds": {**outcome.phase_seconds, "total": outcome.total_seconds},
        "machine": {"cpus": os.cpu_count(), "load_average": outcome.load_average},
        "counting": COUNTING,
    }
    made: dict[str, Any] = rounded(document)
    return made


def _keys_of(name: RunName, outcome: Outcome) -> dict[str, Any]:
    """Return the keys of a run: null where it was left out."""
    run, evidence = outcome.figures.get(name), outcome.evidence.get(name)
    values = {promise.key: promise.value for promise in outcome.promises}
    keys = None if run is None else _run_keys(run)
    ratios = [] if name is RunName.WITHOUT else ["high_wait_ratio", "total_drain_ratio"]
    return {
        **(keys or {} if name is RunName.MAPPINGS else {str(name): keys}),
        name.key("high_wait_p99_seconds"): run and run.top_wait,
        name.key("drain_seconds"): run and run.drain_seconds,
        **{name.key(ratio): values.get(name.key(ratio)) for ratio in ratios},
        name.key("lanes"): run and {lane: asdict(figures) for lane, figures in run.lanes.items()},
        name.key("function_calls_by_operation"): evidence and dict(evidence.function_calls),
    }


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
        "name": promise.key,
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
    if math.isinf(seconds):
        return "endless"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def number_words(value: float | None) -> str:
    """Write a figure for people."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromiseRow:
    """A promise as people read it: its figure in each run, empty where there is none."""

    name: str
    values: tuple[str, ...]
    limit: str
    verdict: str
    words: str


def promise_headings(outcome: Outcome) -> tuple[str, ...]:
    """Return the headings of the table of promises."""
    return ("promise", *(name.words for name in outcome.figures), "promised", "", "in words")


def promise_rows(outcome: Outcome) -> list[PromiseRow]:
    """Rows of the table of promises; one row for a promise of several runs."""
    named: dict[str, dict[RunName, Promise]] = defaultdict(dict)
    for promise in outcome.promises:
        named[promise.name][promise.run] = promise
    return [_promise_row(promises, outcome.figures) for promises in named.values()]


def _promise_row(promises: Mapping[RunName, Promise], runs: Iterable[RunName]) -> PromiseRow:
    promise = promises[RunName.MAPPINGS]
    return PromiseRow(
        name=promise.name,
        values=tuple(number_words(promises[run].value) if run in promises else "" for run in runs),
        limit=f"{promise.relation.value} {number_words(promise.limit)}",
        verdict=_verdict(promises.values()),
        words=promise.not_judged or promise.sentence,
    )


def _verdict(promises: Collection[Promise]) -> str:
    if not all(promise.is_kept for promise in promises):
        return "BROKEN"
    return "not judged" if all(promise.not_judged for promise in promises) else "kept"


def run_headings(outcome: Outcome) -> tuple[str, ...]:
    """Return the headings of the table of runs."""
    return ("", *(name.words for name in outcome.figures))


def run_rows(outcome: Outcome) -> list[tuple[str, ...]]:
    """Rows of the table of runs: each figure in each run, but for counts that are zero in all."""
    used = [name for name, lane in outcome.figures[RunName.MAPPINGS].lanes.items() if lane.sent]
    rows: list[tuple[str, Callable[[RunFigures], str]]] = [
        (f"{lane} {words}", partial(_of_lane, lane, show)) for lane in used for words, show in _OF_LANE
    ]
    rows += [(words, show) for words, show in _OF_RUN]
    figures = [(words, *(show(run) for run in outcome.figures.values())) for words, show in rows]
    shown = [row for row in figures if set(row[1:]) != {"0"}]
    return [*shown, ("promises kept", *(_kept(name, outcome.promises) for name in outcome.figures))]


def _of_lane(lane: str, show: Callable[[LaneFigures], str], run: RunFigures) -> str:
    return show(run.lanes[lane])


_OF_LANE: Sequence[tuple[str, Callable[[LaneFigures], str]]] = (
    ("p50 wait", lambda one: seconds_words(one.p50_wait_seconds)),
    ("p99 wait", lambda one: seconds_words(one.p99_wait_seconds)),
    ("handled", lambda one: f"{one.handled:,}"),
    ("dead letters", lambda one: f"{one.dead_lettered:,}"),
    ("receives", lambda one: f"{one.receives:,}"),
    ("yields", lambda one: f"{one.yields:,}"),
)
_OF_RUN: Sequence[tuple[str, Callable[[RunFigures], str]]] = (
    ("everything done after", lambda run: seconds_words(run.drain_seconds)),
    ("function's calls a message", lambda run: f"{run.function_calls_per_message:.2f}"),
)


def _kept(name: RunName, promises: Iterable[Promise]) -> str:
    mine = [one for one in promises if one.run is name and not one.not_judged]
    return f"{sum(one.is_kept for one in mine)} of {len(mine)}"


def headline(outcome: Outcome) -> str:
    """Return the result in a sentence or two."""
    runs = outcome.figures
    waits = [f"{seconds_words(run.top_wait)} {_with(name)}" for name, run in runs.items()]
    drains = [f"{seconds_words(run.drain_seconds)} {_with(name)}" for name, run in runs.items()]
    return (
        f"{outcome.top_lane} waited at most (p99) {_listed(waits)} while {outcome.plan.customers:,} customers "
        f"drained. Everything was done after {_listed(drains)}."
    )


def _with(name: RunName) -> str:
    return "without priority" if name is RunName.WITHOUT else f"with {name.words}"


def _listed(items: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(items[:-1]), items[-1]]))
