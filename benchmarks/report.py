"""
Run a benchmark and print its results: readable tables first, and one JSON object on the last line.

A benchmark passes a function that measures; `run` adds the common options.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from benchmarks.targets import TARGETS, verdicts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

NOT_SATURATED = 3
"""Exit status of a benchmark with a load too light to show anything."""


class NotSaturatedError(Exception):
    """Slots were free, so no message waited and the figures say nothing about priority."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows to read; figures are rounded where they are printed."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """
    The results of a benchmark.

    Attributes:
        figures: by name; those with a target are compared with it.
        tables: for readers.
        conditions: sizes, times and parameters of the figures.

    """

    figures: Mapping[str, Any]
    tables: Sequence[Table] = ()
    conditions: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def run(
    name: str, measure: Callable[..., Findings], *, about: str, arguments: list[str] | None = None
) -> int:
    """
    Measure, print, and return the exit status: 0, or `NOT_SATURATED`.

    Args:
        name: the benchmark's module.
        measure: called with `quick` and `seed`.
        about: one sentence for the help.
        arguments: those of the command line unless given.

    """
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=about)
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    parser.add_argument("--quick", action="store_true", help="run small sizes, to check that it runs")
    parser.add_argument("--seed", type=int, default=1, help="set the seed of all random choices (default 1)")
    options = parser.parse_args(arguments)
    began = time.perf_counter()
    try:
        findings = measure(quick=options.quick, seed=options.seed)
    except NotSaturatedError as error:
        sys.stderr.write(f"{name}: not saturated, so the figures would show nothing: {error}\n")
        return NOT_SATURATED
    if not options.json:
        sys.stdout.write(text_of(name, findings))
    line = {
        "benchmark": name,
        **findings.figures,
        "held": verdicts(name, findings.figures),
        "conditions": {**findings.conditions, "quick": options.quick, "seed": options.seed},
        "took_s": round(time.perf_counter() - began, 1),
    }
    sys.stdout.write(json.dumps(line) + "\n")
    return 0


def text_of(name: str, findings: Findings) -> str:
    """Return all tables, that of the targets last."""
    found = verdicts(name, findings.figures)
    judged = [
        (target.figure, findings.figures.get(target.figure), str(target), word(found[target.figure]))
        for target in TARGETS.get(name, ())
    ]
    tables = [*findings.tables]
    if judged:
        tables.append(Table(title="targets", columns=("figure", "found", "target", ""), rows=judged))
    return "\n".join(in_columns(table) for table in tables) + "\n"


def word(held: bool) -> str:  # noqa: FBT001 - a verdict is all there is to say
    """Return the verdict as it is printed."""
    return "held" if held else "MISSED"


def in_columns(table: Table) -> str:
    """Return a table as text: words to the left, figures to the right."""
    cells = [[shown(value) for value in row] for row in table.rows]
    widths = [
        max(len(column), *(len(row[place]) for row in cells)) if cells else len(column)
        for place, column in enumerate(table.columns)
    ]

    def line(values: Sequence[str]) -> str:
        first, *others = zip(values, widths, strict=True)
        padded = [first[0].ljust(first[1]), *(value.rjust(width) for value, width in others)]
        return "  " + "  ".join(padded).rstrip()

    return "\n".join([table.title, line(table.columns), *map(line, cells)]) + "\n"


def shown(value: Any) -> str:
    """Return one value as a table shows it: four digits of a figure are enough."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"  # noqa: PLR2004 - whole from here on
    return str(value)
