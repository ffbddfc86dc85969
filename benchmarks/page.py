"""The page of the benchmarks, made from their results: `python -m benchmarks.page` writes it anew."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.reasons import REASONS
from benchmarks.report import shown, word
from benchmarks.targets import TARGETS

if TYPE_CHECKING:
    from collections.abc import Mapping

DOCS = Path(__file__).resolve().parents[1] / "docs"

INTRODUCTION = """# Benchmarks

What is claimed of time, order and loss under load, in figures that one command makes again:

```console
$ make bench
$ make bench ARGS=--quick
```

The first takes minutes and renews this page; the second only shows that everything runs. One benchmark alone is
`python -m benchmarks.wait`, with `--json` for its figures only and `--seed` for other chances. Those of priority run
the deployed consumer in virtual time ([architecture](architecture.md)) beside the plain pattern (a check of the higher
queues before each record, visibility left alone, records one by one, a native dead-letter queue after five receives)
and beside no priority at all. Each first sees to it that the system is saturated, and stops with status 3 where it is
not: where nothing waits, nothing about priority can be shown.

The waiting room ([tune](how-to/tune.md#with-or-without-a-waiting-room)) is off unless `lanes.toml` turns it on. `wait`
and `idle` are judged with it and show the default, where Lambda throttles, beside it; `finish`, `bounded` and `scale`
are judged both ways; `purity` and `overhead` are the default's; the soak draws either. `policies` has ours with it and
without among the others, `defaults` tries settings both ways.

Figures in virtual time depend on the seed alone, counts of instructions on the versions of Python and its packages, and
times on the machine.
"""


def table_of(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return every figure with a target, as Markdown."""
    lines = ["| Benchmark | Figure | Found | Target | |", "|---|---|---|---|---|"]
    for name, line in results.items():
        if "error" in line:
            lines.append(f"| {name} | | {line['error']} | | |")
        for target in TARGETS[name]:
            found = line.get(target.figure)
            verdict = word(target.is_held_by(found)) if "error" not in line else ""
            lines.append(f"| {name} | `{target.figure}` | {shown(found)} | {target} | {verdict} |")
    return "\n".join(lines) + "\n"


def page_of(whole: Mapping[str, Any]) -> str:
    """Return the page from the surroundings, results and printed tables of a run at full size."""
    parts = [
        INTRODUCTION,
        _run_on(whole["surroundings"]),
        "## Targets\n",
        table_of(whole["results"]),
    ]
    for name, line in whole["results"].items():
        parts += [f"## {name}\n", _about(name)]
        missed = [target.figure for target in TARGETS[name] if not target.is_held_by(line.get(target.figure))]
        for figure in missed:
            reason = REASONS.get((name, figure), "Not explained yet.")
            parts.append(f"**Missed: `{figure}`.** {reason}\n")
        parts.append(f"```text\n{whole['printed'][name]}\n```\n")
    return "\n".join(parts)


def _run_on(around: Mapping[str, Any]) -> str:
    where = f"{around['system']} {around['machine']}, {around['cores']} cores"
    return f"Run on {around['date']} with Python {around['python']} on {where}.\n"


def _about(name: str) -> str:
    """Return what a benchmark's module says of it."""
    return f"{(import_module(f'benchmarks.{name}').__doc__ or '').strip()}\n"


def main() -> None:
    """Write the page from the results that stand beside it."""
    whole = json.loads((DOCS / "benchmarks.json").read_text(encoding="utf-8"))
    (DOCS / "benchmarks.md").write_text(page_of(whole), encoding="utf-8")
    sys.stdout.write(f"{DOCS / 'benchmarks.md'}\n")


if __name__ == "__main__":
    main()
