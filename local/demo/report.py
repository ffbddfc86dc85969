"""The report of a demo: one JSON document, one printed table, and one page with one picture."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from lanes import charts

from .judge import PROMISES, Evidence, Figures, RunName, Verdict, top_wait
from .plan import AWAY_SECONDS

COUNTING = (
    "The clock of every run starts when the mappings are switched on, with the whole backfill waiting in its queue; "
    "the urgent messages are the same ones, sent when the same share of the backfill is done. A wait lasts from the "
    "queue's own SentTimestamp to the first start of the handler. Handled messages are read from the handler's own "
    f"lines, receives and dead letters from the queues. After the flood the resource is away for {AWAY_SECONDS:g} s."
)
_PICTURE = (
    "A tick is a message that arrives, the area beside it the time until its handler starts; the backfill shows its "
    "messages done over time. In the grey time the resource was away."
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
svg { display: block; width: 100%; } .wide { overflow-x: auto; } small { opacity: .7; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .4rem .75rem .4rem 0; border-bottom: 1px solid #8886; vertical-align: top;
  white-space: nowrap; }
th:first-child, td:first-child { text-align: left; white-space: normal; min-width: 12rem; } td small { display: block; }
.BROKEN { color: #d33; font-weight: 700; }
"""
_OF_LANE = ("p50_wait_seconds", "p99_wait_seconds", "dead_letters", "receives", "yields")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Everything that a demo found out: evidence and figures of each run, in the order shown."""

    customers: int
    evidence: Mapping[RunName, Evidence]
    figures: Mapping[RunName, Figures]
    verdicts: Sequence[Verdict]
    seconds: Mapping[str, float]

    @property
    def broken(self) -> list[str]:
        """The promises that were not kept, in words."""
        return [
            f"{one.promise.figure}, {one.run}: {_written(one.promise.figure, one.value)}; promised is "
            f"{one.promise.limits}. {one.promise.sentence} The oracle: {self.figures[one.run]['findings'] or 'nothing'}"
            for one in self.verdicts
            if one.word == "BROKEN"
        ]


def document(outcome: Outcome) -> str:
    """Return the JSON document, with floats of four digits; JSON has only null for infinity."""
    made = {
        "passed": not outcome.broken,
        "broken": outcome.broken,
        "customers": outcome.customers,
        "runs": outcome.figures,
        "promises": [
            one.promise._asdict() | {"run": one.run, "value": one.value, "verdict": one.word}
            for one in outcome.verdicts
        ],
        "seconds": outcome.seconds,
    }
    text, short = json.dumps(made), lambda digits: round(float(digits), 4)
    return json.dumps(json.loads(text, parse_float=short, parse_constant=lambda _: None), indent=2) + "\n"


def rows(outcome: Outcome) -> list[tuple[str, ...]]:
    """Return the table: name, figures of the runs, limit and verdict of waits, counts that are not zero, promises."""
    runs, found = outcome.figures.values(), []
    for lane, of_lane in outcome.figures[RunName.MAPPINGS]["lanes"].items():
        for key in _OF_LANE if of_lane["sent"] else ():
            values = [_written(key, run["lanes"][lane][key]) for run in runs]
            if set(values) != {"0"}:
                name = key.removesuffix("_seconds").replace("_", " ")
                found.append((f"{lane} {name}", *values, "", ""))
    found.append(
        ("everything done after", *(_written("_seconds", run["drain_seconds"]) for run in runs), "", "")
    )
    for promise in PROMISES:
        named = {one.run: one for one in outcome.verdicts if one.promise is promise}
        values = [_written(promise.figure, named[run].value) if run in named else "" for run in RunName]
        words = {one.word for one in named.values()}
        worst = next(word for word in ("BROKEN", "not judged", "kept") if word in words)
        found.append((promise.figure, *values, promise.limits, worst))
    return found


def table(outcome: Outcome) -> str:
    """Return the table as lines of text, and the result in sentences."""
    lines = [("", *RunName, "promised", ""), *rows(outcome)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = ""
    for name, *cells in lines:
        aligned = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
        text += "  ".join([name.ljust(widths[0]), *aligned]).rstrip() + "\n"
    return f"{text}{headline(outcome)}\n"


def headline(outcome: Outcome) -> str:
    """Return the result in sentences."""
    waited = [f"{_written('_seconds', top_wait(run))} with {name}" for name, run in outcome.figures.items()]
    drained = [_written("_seconds", run["drain_seconds"]) for run in outcome.figures.values()]
    return (
        f"Payments waited {', '.join(waited)} (p99) while {outcome.customers:,} customers drained. Everything was done "
        f"after {', '.join(drained)}."
    )


def _written(figure: str, value: float | None) -> str:
    if value is None or math.isinf(value):
        return "-" if value is None else "endless"
    if figure.endswith("_seconds"):
        return charts.duration(value) if value else "0 s"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


def page(outcome: Outcome) -> str:
    """Return the page: the result, the picture and the table, in one HTML file."""
    verdict = (
        "<b class='BROKEN'>Promises were broken.</b>" if outcome.broken else "<b>Every promise was kept.</b>"
    )
    sentences = {promise.figure: promise.sentence for promise in PROMISES}
    cells = ""
    for name, *values, limit, word in rows(outcome):
        words = f"{escape(sentences[name])}<small>{name}</small>" if name in sentences else escape(name)
        figures = "".join(f"<td>{value}</td>" for value in [*values, escape(limit)])
        cells += f"<tr><td>{words}</td>{figures}<td class='{word}'>{word}</td></tr>\n"
    heads = "".join(f"<th>{name}</th>" for name in RunName)
    spent = ", ".join(f"{name} {_written('_seconds', seconds)}" for name, seconds in outcome.seconds.items())
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>\n"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        f"<title>Priority lanes: demo</title><style>{_STYLE}</style></head>\n<body>\n"
        "<h1>Priority lanes: a backfill and urgent work</h1>\n"
        f"<p>{escape(headline(outcome))} {verdict}</p>\n{picture(outcome)}\n<p><small>{_PICTURE}</small></p>\n"
        f"<h2>Figures and promises</h2>\n<div class='wide'><table><thead><tr><th></th>{heads}<th>promised</th><th></th>"
        f"</tr></thead>\n<tbody>{cells}</tbody></table></div>\n"
        f"<h2>How this was counted</h2>\n<p>{escape(COUNTING)}</p>\n<p><small>Time spent: {spent}.</small></p>\n"
        "</body></html>\n"
    )


def picture(outcome: Outcome) -> str:
    """Draw arrivals, waits and the pace of the backfill, by lane, with a panel for each run."""
    panels = [_panel(name, one, outcome.figures[name]) for name, one in outcome.evidence.items()]
    return charts.draw(panels, title="Timeline of the lanes", description=headline(outcome))


def _panel(name: RunName, evidence: Evidence, figures: Mapping[str, Any]) -> charts.Panel:
    began, sent, made = evidence.began_at, evidence.sent, []
    for lane, of_lane in figures["lanes"].items():
        waits = [wait for wait in evidence.waits if sent[wait.id].lane == lane]
        if any(not sent[wait.id].place for wait in waits):
            done = {one.id: one.ended_at - began for one in evidence.works if one.how == "done"}
            ends = [done[wait.id] for wait in waits if wait.id in done]
            until = _written("_seconds", figures["drain_seconds"])
            made.append(charts.Row(name=lane, ends=ends, figure=until, words="until all was done"))
        else:
            shown = [(wait.sent_at - began, wait.started_at - began) for wait in waits]
            p99 = _written("_seconds", of_lane["p99_wait_seconds"])
            made.append(charts.Row(name=lane, waits=shown, figure=p99, words="wait, p99"))
    return charts.Panel(
        title=_TITLES[name],
        rows=made,
        seconds=max((one.ended_at - began for one in evidence.works), default=1.0),
        away=(evidence.away_at - began, evidence.back_at - began) if evidence.away_at else None,
    )
