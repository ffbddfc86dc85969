"""Write the page of the benchmarks and its charts from their results: `python -m benchmarks.page`."""

from __future__ import annotations

import json
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.charts import CHARTS
from benchmarks.reasons import REASONS
from benchmarks.report import shown
from benchmarks.targets import TARGETS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DOCS = Path(__file__).resolve().parents[1] / "docs"

COMPARED = ("wait", "wait-pull")
"""Benchmarks with a table of engines and patterns on the page."""

COMMAND = re.compile(r"(: )?`python -m [^`]+`(: )?")
"""The command within the first sentence of a benchmark's module."""

INTRODUCTION = """# Benchmarks

Time, order and loss under load, in figures that you can repeat with one command:

```sh
make bench
make bench ARGS=--quick
```

The first takes minutes and renews this page; the second only checks that all benchmarks run. For one benchmark run
`python -m benchmarks.wait`; add `--json` for its figures only, `--engine pull` for the other engine, and `--seed` for
other random choices. The beginning of its file describes its load; you find its tables in
[benchmarks.json](benchmarks.json).

The benchmarks of priority run the deployed consumer in virtual time ([architecture](architecture.md)), and compare it
with no priority, with an ideal scheduler without latency or calls, and with the plain pattern as its author deploys
it: a mapping on each queue, a check of the higher queues before each record, a visibility of 30 s, no dead-letter
queue, and with several slots a yield only to more messages than slots. We add our mappings' maximum concurrency,
without which its lower lanes wait longer, and to its batches of one message those of two, five and ten: the best of
the four counts. Each first checks that the system is saturated, and exits with 3 if it is not.

A figure with a target is the worst of its seeds; the range over undocumented behaviour is of the first seed at smaller
sizes. Times depend on the machine, figures in virtual time on the seed alone.
"""

ASSUMPTION = """Dots are the median, bars end at the 99th percentile; a wait ends with the first start of the handler.
The first two charts assume that Lambda retries a throttled batch within two seconds, which AWS documents without a
number. The third has the worst cases: if throttled batches are dropped until their visibility ends, as users report,
HIGH may wait for a whole run with mappings; the pull engine, which is never throttled, waits as before. The dashed line
is its target.
"""


def table_of(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return all figures with a target, as Markdown."""
    lines = ["| Benchmark | Figure | Found | Target | Worst of the range |", "|---|---|---|---|---|"]
    for name, line in results.items():
        if "error" in line:
            lines.append(f"| {name} | | {line['error']} | | |")
        for target in TARGETS[name]:
            found = line.get(target.figure)
            verdict = "" if "error" in line or target.is_held_by(found) else ", MISSED"
            in_range = line.get("worst_of_range", {}).get(target.figure)
            worst = "" if in_range is None else shown(in_range)
            lines.append(f"| {name} | `{target.figure}` | {shown(found)} | {target}{verdict} | {worst} |")
    return "\n".join(lines) + "\n"


def page_of(whole: Mapping[str, Any]) -> str:
    """Return the page from the machine, results and printed tables of a run at full size."""
    parts = [
        INTRODUCTION,
        *(f"![{text}](pictures/{file})\n" for file, (text, _) in CHARTS.items()),
        ASSUMPTION,
        _run_on(whole["machine"]),
        _run_later(whole["results"]),
        "## Targets\n",
        table_of(whole["results"]),
        _left_out(whole["results"]),
    ]
    parts += ["## What each measures\n", "\n".join(map(_about, dict.fromkeys(map(_module, TARGETS)))) + "\n"]
    parts += [f"```text\n{name}: {_first_table(whole['printed'][name])}\n```\n" for name in COMPARED]
    parts += ["## Missed targets\n", *_missed(whole["results"])]
    return "\n".join(parts)


def write_page(whole: Mapping[str, Any]) -> None:
    """Write the page and its charts."""
    (DOCS / "benchmarks.md").write_text(page_of(whole), encoding="utf-8")
    for file, (_, draw) in CHARTS.items():
        (DOCS / "pictures" / file).write_text(draw(whole["results"]), encoding="utf-8")


def _first_table(printed: str) -> str:
    """Return the first of the printed tables: the others are details, or summed up by the table of targets."""
    return printed.strip().partition("\n\n")[0]


def _left_out(results: Mapping[str, Any]) -> str:
    """Return a sentence about the benchmarks without results."""
    missing = [label for label in TARGETS if label not in results]
    return f"Not run, and without figures: {'; '.join(missing)}.\n" if missing else ""


def _run_on(machine: Mapping[str, Any]) -> str:
    where = f"{machine['system']} {machine['machine']}, {machine['cores']} cores"
    return f"Run on {machine['date']} with Python {machine['python']} on {where}.\n"


def _run_later(results: Mapping[str, Any]) -> str:
    """Return a sentence about the benchmarks that ran again on another day."""
    days: dict[str, list[str]] = {}
    for name, line in results.items():
        if day := line.get("run_on"):
            days.setdefault(day, []).append(name)
    runs = "; ".join(f"{', '.join(names)} on {day}" for day, names in days.items())
    return f"Run with the version of another day: {runs}.\n" if runs else ""


def _module(label: str) -> str:
    return label.partition("-")[0]


def _about(name: str) -> str:
    """Return the first sentence of the description of a benchmark's module."""
    first = (import_module(f"benchmarks.{name}").__doc__ or "").strip().partition("\n\n")[0]
    return f"- **{name}**: {COMMAND.sub('', ' '.join(first.split()))}"


def _missed(results: Mapping[str, Any]) -> Iterator[str]:
    """Give each missed target with its reason; one that both engines miss alike once."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for name, line in results.items():
        for target in TARGETS[name]:
            if not target.is_held_by(line.get(target.figure)):
                reason = REASONS.get((name, target.figure), "Not explained yet.")
                reasons.setdefault((target.figure, reason), []).append(name)
    for (figure, reason), names in reasons.items():
        yield f"**{', '.join(names)}: `{figure}`.** {reason}\n"


def main() -> None:
    """Write the page from the results beside it."""
    whole = json.loads((DOCS / "benchmarks.json").read_text(encoding="utf-8"))
    write_page(whole)
    sys.stdout.write(f"{DOCS / 'benchmarks.md'}\n")


if __name__ == "__main__":
    main()
