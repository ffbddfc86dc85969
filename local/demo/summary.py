"""The summary of a demo at its end: tables that fit the terminal, plain lines elsewhere."""

from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from local.demo.report import (
    Outcome,
    PromiseRow,
    headline,
    promise_headings,
    promise_rows,
    run_headings,
    run_rows,
)

_WIDE = 120
"""Width of the terminal from which promises are a table."""
_STYLES = {"BROKEN": "bold red", "not judged": "dim"}


def write_summary(outcome: Outcome, stream: TextIO) -> None:
    """Write the summary, as tables on a terminal and as plain lines elsewhere."""
    if stream.isatty():
        write_tables(outcome, Console(file=stream))
    else:
        _write_lines(outcome, stream)


def write_tables(outcome: Outcome, console: Console) -> None:
    """Write tables; on a terminal of less than 120 columns the promises are a list."""
    rows = promise_rows(outcome)
    promises = _promise_table(outcome, rows) if console.width >= _WIDE else _promise_list(outcome, rows)
    console.print(_run_table(outcome), promises, headline(outcome), sep="\n")


def _run_table(outcome: Outcome) -> Table:
    table = Table(title="Runs", title_justify="left")
    for place, heading in enumerate(run_headings(outcome)):
        table.add_column(heading, justify="right" if place else "left")
    for row in run_rows(outcome):
        table.add_row(*row)
    return table


def _promise_table(outcome: Outcome, rows: Sequence[PromiseRow]) -> Table:
    table = Table(title="Promises", title_justify="left")
    for place, heading in enumerate(promise_headings(outcome)):
        is_figure = 0 < place <= len(outcome.figures) + 1
        table.add_column(heading, justify="right" if is_figure else "left")
    for row in rows:
        cells = (row.name, *row.values, row.limit, row.verdict, row.words)
        table.add_row(*cells, style=_STYLES.get(row.verdict))
    return table


def _promise_list(outcome: Outcome, rows: Sequence[PromiseRow]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.title, table.title_justify = "Promises", "left"
    for row in rows:
        text = Text(f"{_figures(outcome, row)}\n{row.words}")
        table.add_row(row.verdict, text, style=_STYLES.get(row.verdict))
    return table


def _figures(outcome: Outcome, row: PromiseRow) -> str:
    return f"{row.name} ({row.limit}): {_by_run(outcome, row.values)}"


def _by_run(outcome: Outcome, values: Sequence[str]) -> str:
    return ", ".join(
        f"{name.words} {value}" for name, value in zip(outcome.figures, values, strict=True) if value
    )


def _write_lines(outcome: Outcome, stream: TextIO) -> None:
    stream.writelines(f"{words}: {_by_run(outcome, values)}\n" for words, *values in run_rows(outcome))
    stream.writelines(f"{row.verdict:<10} {_figures(outcome, row)}\n" for row in promise_rows(outcome))
    stream.write(headline(outcome) + "\n")
