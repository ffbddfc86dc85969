"""The page: a self-contained HTML report, picture and style included."""

import base64
import math
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from local.demo.report import (
    COUNTING,
    Outcome,
    headline,
    number_words,
    promise_headings,
    promise_rows,
    run_headings,
    run_rows,
    seconds_words,
)
from local.demo.runs import RunName
from local.demo.timeline import EXPLANATION

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1c1e; --paper: #fdfdfc; --faint: #6b6b70; --line: #dcdce0;
  --card: #f3f3f0; --good: #1c6b3a; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #ececee; --paper: #17181a; --faint: #a0a0a8; --line: #38393d;
  --card: #222326; --good: #79d19a; --bad: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 70rem; padding: 1.5rem 1rem 4rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.15rem; margin: 2.5rem 0 .75rem; }
.verdict { font-weight: 700; } .kept { color: var(--good); } .broken { color: var(--bad); }
.not-judged, .small { color: var(--faint); } .small { font-size: .875rem; }
.headline { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 1rem; margin: 1rem 0; }
.headline b { font-size: clamp(3rem, 12vw, 5rem); line-height: 1.1; font-variant-numeric: tabular-nums; }
.cards { display: grid; grid-template-columns: repeat(var(--columns), 1fr); gap: .75rem; padding: 0; }
.cards li { list-style: none; background: var(--card); border-radius: .5rem; padding: .75rem 1rem; }
.cards b { display: block; font-size: 1.5rem; font-variant-numeric: tabular-nums; }
figure { margin: 0; } img { display: block; width: 100%; border-radius: .5rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .45rem .75rem .45rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-size: .8rem; color: var(--faint); font-weight: 600; } td.number, th.number { text-align: right;
  white-space: nowrap; }
td code { font-size: .8rem; }
code { font: .9em ui-monospace, monospace; white-space: nowrap; }
@media (max-width: 40rem) { code { white-space: normal; overflow-wrap: anywhere; }
  .promises thead { display: none; } .promises tr { display: grid;
  grid-template-columns: repeat(4, 1fr) auto; column-gap: .75rem; padding: .5rem 0;
  border-bottom: 1px solid var(--line); }
  .promises td { border: 0; padding: .1rem 0; }
  .promises td:first-child, .promises td:last-child { grid-column: 1 / -1; }
  .cards { gap: .4rem; } .cards li { padding: .5rem; font-size: .8rem; } .cards b { font-size: 1.1rem; } }
"""


def write_page(outcome: Outcome, picture: str, path: Path) -> None:
    """Write the report of a demo into one HTML file."""
    verdict = "Every promise was kept." if not outcome.broken else "Promises were broken."
    css = "broken" if outcome.broken else "kept"
    inline = base64.b64encode(picture.encode()).decode()
    body = [
        "<h1>Priority lanes: a backfill and urgent work</h1>",
        _headline(outcome),
        f"<p>{escape(headline(outcome))} <span class='verdict {css}'>{verdict}</span></p>",
        _cards(outcome),
        "<h2>Timeline</h2>",
        _figure(inline, words=_picture_words(outcome)),
        f"<p class='small'>{escape(EXPLANATION)}</p>",
        "<h2>Runs</h2>",
        _table(run_headings(outcome), run_rows(outcome)),
        "<h2>Promises</h2>",
        _promises(outcome),
        "<h2>How this was counted</h2>",
        f"<p>{escape(COUNTING)}</p>",
        "<h2>How long it took</h2>",
        _table(("phase", "time"), _phase_rows(outcome)),
        f"<p class='small'>{escape(_settings(outcome))}</p>",
    ]
    path.write_text(_document("\n".join(body)), encoding="utf-8")


def _document(body: str) -> str:
    return (
        "<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        f"<title>Priority lanes: demo</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _figure(inline: str, *, words: str) -> str:
    return f"<figure><img alt='{escape(words)}' src='data:image/svg+xml;base64,{inline}'></figure>"


def _picture_words(outcome: Outcome) -> str:
    return f"Timeline of the lanes. {headline(outcome)}"


def _headline(outcome: Outcome) -> str:
    """The wait that the product is about, and how much longer it was without priority."""
    runs = outcome.figures
    here, without = runs[RunName.MAPPINGS].top_wait, runs.get(RunName.WITHOUT)
    words = f"is the wait of {outcome.top_lane} (p99) with mappings"
    if without is not None and here and without.top_wait and here < without.top_wait < math.inf:
        times, waited = without.top_wait / here, seconds_words(without.top_wait)
        words += f": without priority it was {waited}, {number_words(times)} times as long"
    return f"<p class='headline'><b>{escape(seconds_words(here))}</b> {escape(words)}</p>"


def _cards(outcome: Outcome) -> str:
    """Rows of as many tiles as there are runs: waits, drains, violations. A lone run has its wait in the headline."""
    top, runs = outcome.top_lane, outcome.figures
    engines = [run for name, run in runs.items() if name is not RunName.WITHOUT]
    cards = [
        (seconds_words(run.top_wait), f"p99 wait of {top}, {name.words}")
        for name, run in runs.items()
        if len(runs) > 1
    ]
    cards += [
        (seconds_words(run.drain_seconds), f"until all was done, {name.words}") for name, run in runs.items()
    ]
    cards += [
        (number_words(sum(run.losses for run in runs.values())), "messages lost"),
        (number_words(sum(run.order_violations for run in runs.values())), "order violations"),
        (number_words(sum(run.inversions for run in engines)), "priority inversions"),
    ]
    items = "".join(f"<li><b>{escape(figure)}</b>{escape(words)}</li>" for figure, words in cards)
    columns = len(runs) if len(runs) > 1 else len(cards)
    return f"<ul class='cards' style='--columns: {columns}'>{items}</ul>"


def _promises(outcome: Outcome) -> str:
    rows = []
    for row in promise_rows(outcome):
        words = f"Not judged: {row.words}." if row.verdict == "not judged" else row.words
        verdict = row.verdict.lower()
        rows.append(
            f"<tr><td>{escape(words)}</td>"
            f"{''.join(f'<td class=number>{escape(value)}</td>' for value in row.values)}"
            f"<td class='number small'>{escape(row.limit)}</td>"
            f"<td class='number verdict {verdict.replace(' ', '-')}'>{escape(verdict)}</td>"
            f"<td class='small'><code>{escape(row.name)}</code></td></tr>"
        )
    *figures, _ = promise_headings(outcome)
    headings = [*figures, "key"]
    cells = "".join(
        f"<th{' class=number' if 0 < number < len(headings) - 1 else ''}>{escape(heading)}</th>"
        for number, heading in enumerate(headings)
    )
    head, body = f"<thead><tr>{cells}</tr></thead>", f"<tbody>{''.join(rows)}</tbody>"
    return f"<table class='promises'>{head}{body}</table>"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def cells(tag: str, row: Sequence[str]) -> str:
        css = ["", *[" class='number'"] * (len(row) - 1)]
        return "".join(f"<{tag}{one}>{escape(text)}</{tag}>" for one, text in zip(css, row, strict=True))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return (
        f"<div class='wide'><table><thead><tr>{cells('th', headings)}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _phase_rows(outcome: Outcome) -> list[tuple[str, str]]:
    rows = [(name.replace("_", " "), seconds_words(spent)) for name, spent in outcome.phase_seconds.items()]
    return [*rows, ("total", seconds_words(outcome.total_seconds))]


def _settings(outcome: Outcome) -> str:
    plan, rules = outcome.plan, outcome.rules
    return (
        f"{plan.customers:,} customers in {plan.shards} groups, seed {plan.seed}, {rules.slots} slot(s), "
        f"batches of {rules.batch_size}, {rules.max_attempts} attempts, recheck interval "
        f"{seconds_words(rules.recheck_seconds)}."
    )
