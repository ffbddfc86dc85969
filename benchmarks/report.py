"""
Run a benchmark and print its results: readable tables first, and one JSON object on the last line.

A benchmark passes a function that measures; `run` adds the common options, `run_engine` also those of the benchmarks
that compare engines.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from benchmarks.targets import TARGETS, label_of, verdicts, worst_of
from lanes.config import EngineName
from simulator.parameters import Unknowns, all_variants

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

NOT_SATURATED = 3
"""Exit status of a benchmark with a load too light to show anything."""

SEEDS = 5
"""Seeds of figures at full size."""

RANGE = (
    "as given",
    "backoff up to 10 s",
    "throttled batches dropped",
    "returned groups at the back",
    "dropped, groups at the back",
    "throttles shrink concurrency",
    "short polls miss 1 in 10",
    "short polls miss 1 in 3",
    "receives of 25 ms",
)
"""The undocumented behaviour with the largest effects; the others of `simulator.parameters` change figures by less."""


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
    options = _parser(name, about).parse_args(arguments)
    head = {"benchmark": name}
    return _printed(
        name, options, lambda: measure(quick=options.quick, seed=options.seed), head, seed=options.seed
    )


def run_engine(
    name: str,
    measure: Callable[..., Findings],
    *,
    judge: Callable[..., Mapping[str, Any]],
    about: str,
    arguments: list[str] | None = None,
) -> int:
    """
    Measure one engine under several seeds and print the worst of each figure with a target; return the exit status.

    Args:
        name: the benchmark's module.
        measure: called with `engine`, `quick` and `seed`, for the first seed.
        judge: returns the figures with a target: called with the same for each other seed, and with `unknowns` for each
            variant of undocumented AWS behaviour, at smaller sizes and with the first seed.
        about: one sentence for the help.
        arguments: those of the command line unless given.

    """
    parser = _parser(name, about)
    parser.add_argument("--engine", choices=[*map(str, EngineName)], default=str(EngineName.MAPPINGS))
    parser.add_argument(
        "--seeds",
        type=_at_least_one,
        help=f"judge the worst of so many seeds (default {SEEDS}, with --quick 1)",
    )
    parser.add_argument(
        "--no-range", action="store_true", help="leave out the range over undocumented AWS behaviour"
    )
    options = parser.parse_args(arguments)
    engine, quick = EngineName(options.engine), options.quick
    label = label_of(name, engine)
    number = options.seeds or (1 if quick else SEEDS)
    seeds = range(options.seed, options.seed + number)

    def all_seeds() -> Findings:
        first = measure(engine=engine, quick=quick, seed=options.seed)
        others = [judge(engine=engine, quick=quick, seed=seed) for seed in seeds[1:]]
        ranges = {}
        if not options.no_range:
            ranges = {
                variant: judge(engine=engine, quick=quick, seed=options.seed, unknowns=unknowns)
                for variant, unknowns in all_variants(Unknowns()).items()
                if variant in RANGE
            }
        return _over_seeds(label, seeds, first, others, ranges)

    return _printed(label, options, all_seeds, {"benchmark": name, "engine": engine.value}, seeds=list(seeds))


def _at_least_one(text: str) -> int:
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text} is no number of at least 1")


def _over_seeds(
    label: str,
    seeds: Sequence[int],
    first: Findings,
    others: Sequence[Mapping[str, Any]],
    ranges: Mapping[str, Mapping[str, Any]],
) -> Findings:
    """Return the worst of each figure with a target, and the others and the tables of the first seed."""
    targets = [target.figure for target in TARGETS.get(label, ())]
    found = [first.figures, *others]
    figures = worst_of(label, found)
    tables = [*first.tables]
    if others and targets:
        rows = [(str(seed), *map(one.get, targets)) for seed, one in zip(seeds, found, strict=True)]
        tables.append(Table(title="by seed", columns=("seed", *targets), rows=rows))
        by_seed = {
            str(seed): {name: one.get(name) for name in targets}
            for seed, one in zip(seeds, found, strict=True)
        }
        figures["by_seed"] = by_seed
    if ranges:
        names = list(next(iter(ranges.values())))
        rows = [(variant, *map(one.get, names)) for variant, one in ranges.items()]
        tables.append(
            Table(title="over undocumented AWS behaviour", columns=("behaviour", *names), rows=rows)
        )
        worst = worst_of(label, list(ranges.values()))
        figures |= {"worst_of_range": worst, "range": ranges, "held_in_range": _held(label, worst)}
    return Findings(figures=figures, tables=tables, conditions=first.conditions)


def _held(label: str, figures: Mapping[str, Any]) -> dict[str, bool]:
    return {figure: held for figure, held in verdicts(label, figures).items() if figure in figures}


def _parser(name: str, about: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=about)
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    parser.add_argument("--quick", action="store_true", help="run small sizes, to check that it runs")
    parser.add_argument("--seed", type=int, default=1, help="set the seed of all random choices (default 1)")
    return parser


def _printed(
    label: str,
    options: argparse.Namespace,
    measure: Callable[[], Findings],
    head: Mapping[str, str],
    **conditions: Any,
) -> int:
    """Measure and print; return the exit status."""
    began = time.perf_counter()
    try:
        findings = measure()
    except NotSaturatedError as error:
        sys.stderr.write(f"{label}: not saturated, so the figures would show nothing: {error}\n")
        return NOT_SATURATED
    if not options.json:
        sys.stdout.write(text_of(label, findings))
    line = {
        **head,
        **findings.figures,
        "held": verdicts(label, findings.figures),
        "conditions": {**findings.conditions, "quick": options.quick, **conditions},
        "took_s": round(time.perf_counter() - began, 1),
    }
    sys.stdout.write(json.dumps(line) + "\n")
    return 0


def text_of(label: str, findings: Findings) -> str:
    """Return all tables, that of the targets last."""
    found = verdicts(label, findings.figures)
    judged = [
        (target.figure, findings.figures.get(target.figure), str(target), word(found[target.figure]))
        for target in TARGETS.get(label, ())
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
