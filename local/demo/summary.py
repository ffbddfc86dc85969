"""The summary of a demo at its end: tables that fit the terminal, plain lines elsewhere."""

from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from local.demo.report import (
    LANE_HEADINGS,
    PROMISE_HEADINGS,
    Outcome,
    PromiseRow,
    headline,
    lane_rows,
    promise_rows,
)

_WIDE = 120
"""Width of the terminal from which the tables have all columns."""
_STYLES = {"BROKEN": "bold red", "not judged": "dim"}


def write_summary(outcome: Outcome, stream: TextIO) -> None:
    """Write the summary, as tables on a terminal and as plain lines elsewhere."""
    if stream.isatty():
        write_tables(outcome, Console(file=stream))
    else:
        _write_lines(outcome, stream)


def write_tables(outcome: Outcome, console: Console) -> None:
    """Write tables; a terminal of less than 120 columns gets a column for each lane, and promises as a list."""
    is_wide = console.width >= _WIDE
    rows = promise_rows(outcome)
    promises = _promise_table(rows) if is_wide else _promise_list(rows)
    console.print(_lane_table(outcome, is_wide=is_wide), promises, headline(outcome), sep="\n")


def _lane_table(outcome: Outcome, *, is_wide: bool) -> Table:
    compared = " (with priority | without)" if outcome.figures_without else ""
    cells = [LANE_HEADINGS, *lane_rows(outcome)]
    headings, *rows = cells if is_wide else zip(*cells, strict=True)
    table = Table(title=f"Lanes{compared}", title_justify="left")
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="right" if place else "left")
    for row in rows:
        table.add_row(*row)
    return table


def _promise_table(rows: Sequence[PromiseRow]) -> Table:
    table = Table(title="Promises", title_justify="left")
    for heading in PROMISE_HEADINGS:
        is_figure = heading in {"with", "without", "promised"}
        table.add_column(heading, justify="right" if is_figure else "left")
    for row in rows:
        cells = (row.name, row.value, row.without, row.limit, row.verdict, row.words)
        table.add_row(*cells, style=_STYLES.get(row.verdict))
    return table


def _promise_list(rows: Sequence[PromiseRow]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.title, table.title_justify = "Promises", "left"
    for row in rows:
        table.add_row(row.verdict, Text(f"{_figures(row)}\n{row.words}"), style=_STYLES.get(row.verdict))
    return table


def _figures(row: PromiseRow) -> str:
    without = f"; without priority {row.without}" if row.without else ""
    return f"{row.name}: {row.value} ({row.limit}){without}"


def _write_lines(outcome: Outcome, stream: TextIO) -> None:
    for cells in lane_rows(outcome):
        pairs = zip(LANE_HEADINGS[1:], cells[1:], strict=True)
        stream.write(f"{cells[0]}: {', '.join(f'{heading} {value}' for heading, value in pairs)}\n")
    stream.writelines(f"{row.verdict:<10} {_figures(row)}\n" for row in promise_rows(outcome))
    stream.write(headline(outcome) + "\n")
