"""Figures with their goals, the worst of several runs, and their output: a table in Markdown, then one JSON line."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from typing import TYPE_CHECKING, Any

from simulator.simulated_lanes import Pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

ENGINES = {"mappings": Pattern.LANES, "pull": Pattern.PULL}
"""The simulated consumer of each engine."""

SLOTS = (1, 3, 10)
WHOLE = 1_000
"""Figures from here on have no decimals."""

Row = dict[str, Any]
"""Cells by column: names, numbers, and figures with a goal."""


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """A number and its goal: at most, or at least."""

    value: float
    goal: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        """Whether the goal is met."""
        return self.value >= self.goal if self.at_least else self.value <= self.goal

    def worse(self, other: Figure) -> Figure:
        """Return the one that is further from the goal; goals differ where cases have goals of their own."""
        if self.met != other.met:
            return other if self.met else self
        sign = -1 if self.at_least else 1
        return max(self, other, key=lambda one: sign * (one.value - one.goal))

    def __str__(self) -> str:
        if self.met:
            return f"{shown(self.value)} {'≥' if self.at_least else '≤'} {self.goal:g}"
        return f"**{shown(self.value)}** {'<' if self.at_least else '>'} {self.goal:g}"


def most(value: float, goal: float) -> Figure:
    """Return a figure that should not exceed its goal."""
    return Figure(round(value, 4), goal)


def least(value: float, goal: float) -> Figure:
    """Return a figure that should reach its goal."""
    return Figure(round(value, 4), goal, at_least=True)


def worst(rows: Iterable[Row], *, by: Sequence[str]) -> list[Row]:
    """Merge the rows that are equal in these columns; of each other column the worst figure or the highest number."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        key = tuple(row.get(column) for column in by)
        kept = found.setdefault(key, {column: row[column] for column in by if column in row})
        for column, value in row.items():
            if column not in by:
                kept[column] = _worse(kept.get(column), value)
    return list(found.values())


def _worse(kept: Any, value: Any) -> Any:
    if kept is None or value is None:
        return value if kept is None else kept
    if isinstance(kept, Figure) and isinstance(value, Figure):
        return kept.worse(value)
    return max(kept, value)


def parser_of(benchmark: str, about: str) -> argparse.ArgumentParser:
    """Return the options that the benchmarks in virtual time share."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{benchmark}", description=about)
    parser.add_argument("--engine", type=names(ENGINES), default=[*ENGINES], help=f"of {', '.join(ENGINES)}")
    parser.add_argument("--slots", type=numbers, help="numbers of slots: 1,3,10")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds")
    parser.add_argument("--json", action="store_true", help="print the JSON line only")
    return parser


def names(known: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a reader of some of these names with commas."""

    def read(text: str) -> list[str]:
        wrong = [one for one in text.split(",") if one not in known]
        if wrong:
            raise argparse.ArgumentTypeError(f"{', '.join(wrong)} unknown; there are {', '.join(known)}")
        return text.split(",")

    return read


def numbers(text: str) -> list[int]:
    """Read numbers with commas."""
    return [int(one) for one in text.split(",")]


def run(
    benchmark: str,
    rows: Callable[[str, int, int], Iterable[Row]],
    *,
    by: Sequence[str],
    about: str,
    arguments: list[str] | None = None,
) -> None:
    """Print the worst of the seeds, with `rows` of an engine, a number of slots and a seed, equal in columns `by`."""
    options = parser_of(benchmark, about).parse_args(arguments)
    found = [
        row
        for engine in options.engine
        for slots in options.slots or SLOTS
        for seed in range(options.seed, options.seed + options.seeds)
        for row in rows(engine, slots, seed)
    ]
    show(benchmark, worst(found, by=by), only_json=options.json, seed=options.seed, seeds=options.seeds)


def show(benchmark: str, rows: Sequence[Row], *, only_json: bool = False, **conditions: Any) -> None:
    """Print the table, the number of met goals, and everything as one JSON line."""
    figures = [one for row in rows for one in row.values() if isinstance(one, Figure)]
    met = sum(one.met for one in figures)
    if not only_json:
        columns = list(dict.fromkeys(column for row in rows for column in row))
        table = [columns, ["---"] * len(columns), *([shown(row.get(one)) for one in columns] for row in rows)]
        lines = [f"| {' | '.join(cells)} |" for cells in table]
        sys.stdout.write("\n".join([*lines, "", f"{met} of {len(figures)} figures meet their goal.", ""]))
    line = {
        "benchmark": benchmark,
        "met": met,
        "missed": len(figures) - met,
        **conditions,
        "rows": [{column: _plain(value) for column, value in row.items()} for row in rows],
    }
    sys.stdout.write(json.dumps(line) + "\n")


def shown(value: Any) -> str:
    """Return a cell: three digits of a number are enough."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= WHOLE else f"{value:.3g}"
    return str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Figure):
        return {**dataclasses.asdict(value), "met": value.met}
    return round(value, 4) if isinstance(value, float) else value
