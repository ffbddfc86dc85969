"""The report of a demo: one JSON document, one printed table, and one page with one picture."""

import math
import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from lanes import charts

from .evidence import Evidence, Figures, waits
from .plan import AWAY_SECONDS, DemoPlan
from .promises import Promise, RunName, top_lane, top_wait

COUNTING = (
    "The clock of every run starts when the mappings are switched on, with the whole backfill waiting in its "
    "queue; the live messages are the same ones, sent when the same share of the backfill is done. A wait lasts "
    "from the queue's own SentTimestamp to the first start of the handler; live messages behind a failing "
    "message of their own lane and group wait for that one, and are left out of p50 and p99 in every run. "
    "Handled messages are read from the handler's own lines, receives and dead letters from the queues, calls from "
    "the AWS server. After the flood the resource is away for a while, for the messages that are sent then."
)
_PICTURE = (
    "A tick is a message that arrives, the area beside it the time until its handler starts; the backfill shows "
    "its messages done over time. In the grey time the resource was away."
)
_TITLES = {
    RunName.WITHOUT: "No priority: everything in the last lane",
    RunName.MAPPINGS: "Mappings: a mapping on each lane starts invocations",
    RunName.PULL: "Pull: each invocation receives the most urgent messages itself",
}
_STYLE = """
:root { color-scheme: light dark; }
body { margin: 0 auto; max-width: 70rem; padding: 1.5rem 1rem 4rem; font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin-top: 2.5rem; }
svg { display: block; width: 100%; } .wide { overflow-x: auto; } small, .limit { opacity: .7; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .4rem .75rem .4rem 0; border-bottom: 1px solid #8886; vertical-align: top;
  white-space: nowrap; }
th:first-child, td:first-child { text-align: left; white-space: normal; min-width: 12rem; } td small { display: block; }
.broken { color: #d33; font-weight: 700; }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """
    Everything that a demo found out; `evidence` and `figures` are those of each run, in the order shown.

    `away` is the evidence of the runs in which the resource was away afterwards.
    """

    plan: DemoPlan
    evidence: Mapping[RunName, Evidence]
    away: Mapping[RunName, Evidence]
    figures: Mapping[RunName, Figures]
    promises: Sequence[Promise]
    footprint: Figures
    load_average: float
    seconds: Mapping[str, float]

    @property
    def broken(self) -> list[Promise]:
        """Promises that were not kept."""
        return [promise for promise in self.promises if not promise.is_kept]


def document(outcome: Outcome) -> dict[str, Any]:
    """Make the JSON document; its keys are explained in the documentation of the demo."""
    config = outcome.evidence[RunName.MAPPINGS].config.consumer
    made: dict[str, Any] = {
        "passed": not outcome.broken,
        "broken": [promise.broken_words() for promise in outcome.broken],
    }
    for name in RunName:
        made |= _keys_of(name, outcome)
    made |= {
        "customers": outcome.plan.customers,
        "seed": outcome.plan.seed,
        "shards": outcome.plan.shards,
        "slots": config.reserved_concurrency,
        "max_attempts": config.max_attempts,
        "recheck_interval_seconds": config.recheck_interval.total_seconds(),
        **outcome.footprint,
        "promises": [_promise(promise) for promise in outcome.promises],
        "seconds": dict(outcome.seconds),
        "machine": {"cpus": os.cpu_count(), "load_average": outcome.load_average},
        "counting": COUNTING,
    }
    rounded: dict[str, Any] = _rounded(made)
    return rounded


def _keys_of(name: RunName, outcome: Outcome) -> dict[str, Any]:
    """Return the keys of a run: null where it was left out."""
    run, evidence = outcome.figures.get(name), outcome.evidence.get(name)
    values = {promise.key: promise.value for promise in outcome.promises}
    keys = run and {key: value for key, value in run.items() if key != "lanes"}
    ratios = [] if name is RunName.WITHOUT else ["high_wait_ratio", "total_drain_ratio"]
    return {
        **(keys or {} if name is RunName.MAPPINGS else {str(name): keys}),
        name.key("high_wait_p99_seconds"): run and top_wait(run),
        name.key("drain_seconds"): run and run["drain_seconds"],
        **{name.key(ratio): values.get(name.key(ratio)) for ratio in ratios},
        name.key("lanes"): run and run["lanes"],
        name.key("function_calls_by_operation"): evidence and dict(evidence.calls),
    }


def _promise(promise: Promise) -> dict[str, Any]:
    kept = None if promise.not_judged else promise.is_kept
    return asdict(promise) | {"name": promise.key, "kept": kept, "not_judged": promise.not_judged or None}


def _rounded(value: Any) -> Any:
    """Round every float to four digits; JSON has only null for infinity."""
    if isinstance(value, float):
        return round(value, 4) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A figure in each run as people read it, empty where there is none; a promise has a limit and a verdict."""

    name: str
    values: Sequence[str]
    limit: str = ""
    verdict: str = ""
    words: str = ""


def rows(outcome: Outcome) -> list[Row]:
    """Return the table of the demo: waits, counts that are not zero in all runs, and promises."""
    runs = outcome.figures.values()
    lanes = [name for name, lane in outcome.figures[RunName.MAPPINGS]["lanes"].items() if lane["sent"]]
    found = [
        Row(name=f"{lane} {words}", values=[write(run["lanes"][lane][key]) for run in runs])
        for lane in lanes
        for words, key, write in _OF_LANE
    ]
    found.append(Row(name="everything done after", values=[_seconds(run["drain_seconds"]) for run in runs]))
    named: dict[str, dict[RunName, Promise]] = defaultdict(dict)
    for promise in outcome.promises:
        named[promise.name][promise.run] = promise
    return [row for row in found if set(row.values) != {"0"}] + [
        _promise_row(promises, outcome) for promises in named.values()
    ]


def _promise_row(promises: Mapping[RunName, Promise], outcome: Outcome) -> Row:
    one, verdict = promises[RunName.MAPPINGS], "kept"
    if not all(promise.is_kept for promise in promises.values()):
        verdict = "BROKEN"
    elif all(promise.not_judged for promise in promises.values()):
        verdict = "not judged"
    return Row(
        name=one.name,
        values=[_number(promises[run].value) if run in promises else "" for run in outcome.figures],
        limit=f"{one.relation} {_number(one.limit)}",
        verdict=verdict,
        words=f"{one.sentence} Not judged: {one.not_judged}." if one.not_judged else one.sentence,
    )


def table(outcome: Outcome) -> str:
    """Return the table as lines of text, and the result in a sentence."""
    heading = Row(name="", values=[name.words for name in outcome.figures], limit="promised")
    lines = [(row.name, *row.values, row.limit, row.verdict) for row in [heading, *rows(outcome)]]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    shown = [
        "  ".join(
            [
                name.ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)),
            ]
        )
        for name, *cells in lines
    ]
    return "".join(f"{line.rstrip()}\n" for line in [*shown, headline(outcome)])


def headline(outcome: Outcome) -> str:
    """Return the result in a sentence or two."""
    runs = outcome.figures
    waited = [f"{_seconds(top_wait(run))} {_with(name)}" for name, run in runs.items()]
    judged = {name: run for name, run in runs.items() if name in outcome.away}
    calls = [f"{run['away_calls']} calls {_with(name)}" for name, run in judged.items()]
    started = [f"{_seconds(run['away_first_start_seconds'])} {_with(name)}" for name, run in judged.items()]
    drained = [f"{_seconds(run['drain_seconds'])} {_with(name)}" for name, run in runs.items()]
    return (
        f"{top_lane(runs[RunName.MAPPINGS])} waited at most (p99) {_listed(waited)} while "
        f"{outcome.plan.customers:,} customers drained. Everything was done after {_listed(drained)}. "
        f"While the resource was away for {AWAY_SECONDS:g} s it got {_listed(calls)}; once it was back, the first "
        f"message started after {_listed(started)}."
    )


def _with(name: RunName) -> str:
    return "without priority" if name is RunName.WITHOUT else f"with {name.words}"


def _listed(items: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(items[:-1]), items[-1]]))


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    if math.isinf(seconds):
        return "endless"
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


_OF_LANE: Sequence[tuple[str, str, Callable[[Any], str]]] = (
    ("p50 wait", "p50_wait_seconds", _seconds),
    ("p99 wait", "p99_wait_seconds", _seconds),
    ("handled", "handled", _number),
    ("dead letters", "dead_lettered", _number),
    ("receives", "receives", _number),
    ("yields", "yields", _number),
)


def page(outcome: Outcome) -> str:
    """Return the page: the result, the picture and the table, in one HTML file."""
    verdict = (
        "<b class='broken'>Promises were broken.</b>" if outcome.broken else "<b>Every promise was kept.</b>"
    )
    cells = [_html_row(row) for row in rows(outcome)]
    runs = "".join(f"<th>{escape(name.words)}</th>" for name in outcome.figures)
    phases = [f"{name.replace('_', ' ')} {_seconds(spent)}" for name, spent in outcome.seconds.items()]
    plan = outcome.plan
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>\n"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        f"<title>Priority lanes: demo</title><style>{_STYLE}</style></head>\n<body>\n"
        "<h1>Priority lanes: a backfill and urgent work</h1>\n"
        f"<p>{escape(headline(outcome))} {verdict}</p>\n{picture(outcome)}\n<p><small>{_PICTURE}</small></p>\n"
        f"<h2>Figures and promises</h2>\n<div class='wide'><table><thead><tr><th></th>{runs}<th>promised</th><th></th>"
        f"</tr></thead>\n<tbody>{''.join(cells)}</tbody></table></div>\n"
        f"<h2>How this was counted</h2>\n<p>{escape(COUNTING)}</p>\n"
        f"<p><small>{plan.customers:,} customers in {plan.shards} groups, seed {plan.seed}. Time spent: "
        f"{escape(', '.join(phases))}.</small></p>\n</body></html>\n"
    )


def _html_row(row: Row) -> str:
    words = f"{escape(row.words)}<small>{escape(row.name)}</small>" if row.words else escape(row.name)
    values = "".join(f"<td>{escape(value)}</td>" for value in row.values)
    css = " class='broken'" if row.verdict == "BROKEN" else ""
    verdict = f"<td class='limit'>{escape(row.limit)}</td><td{css}>{row.verdict.lower()}</td>"
    return f"<tr><td>{words}</td>{values}{verdict}</tr>\n"


def picture(outcome: Outcome) -> str:
    """Draw arrivals, waits and the pace of the backfill, by lane, a panel for each run and its outage."""
    panels = [
        _panel(name, evidence, outcome.away.get(name), outcome.figures[name])
        for name, evidence in outcome.evidence.items()
    ]
    return charts.draw(panels, title="Timeline of the lanes", description=headline(outcome))


def _panel(name: RunName, flood: Evidence, away: Evidence | None, figures: Figures) -> charts.Panel:
    began, parts = flood.began_at, [flood, away] if away else [flood]
    backlog = {one for one, sent in flood.sent.items() if not sent.is_live}
    found = [wait for part in parts for wait in waits(part)]
    made = []
    for lane in (lane.name for lane in flood.config.lanes):
        mine = [wait for wait in found if wait.traffic == lane]
        if mine and mine[0].id in backlog:
            ids = {wait.id for wait in mine}
            done = [one for part in parts for one in part.effects if one.how == "done" and one.id in ids]
            until = max((one.ended_at - began for one in done if one.id in flood.sent), default=None)
            ends = [one.ended_at - began for one in done]
            made.append(charts.Row(name=lane, ends=ends, figure=_seconds(until), words="until all was done"))
        else:
            figure = _seconds(figures["lanes"][lane]["p99_wait_seconds"])
            shown = [(wait.sent_at - began, wait.started_at - began) for wait in mine]
            made.append(charts.Row(name=lane, waits=shown, figure=figure, words="wait, p99"))
    return charts.Panel(
        title=_TITLES[name],
        rows=made,
        seconds=max(part.began_at - began + part.drain_seconds for part in parts),
        away=(away.began_at - began, away.back_at - began) if away else None,
    )
