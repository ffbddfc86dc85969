"""How verbs print: rows as a table for people or as JSON for programs, durations, times and questions."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import typer
from rich.cells import cell_len
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from lanes.cli.place import Output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from lanes.cli.place import Place

UNKNOWN = "unknown"
LONGEST_CELL = 400
# All of C0 and C1 but tabs and line ends, and what turns the direction of writing.
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
INTERRUPTED = 130
WIDE = 200
"""Columns for tables that go into a file or a pipe."""


def console(*, stderr: bool = False) -> Console:
    """Return a console on standard output or standard error."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else WIDE)


def table_of(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Build a table of rows with the same keys; underscores in keys become spaces."""
    return _filled(Table(header_style="bold"), rows, ())


def laid_out(rows: Sequence[Mapping[str, Any]], out: Console) -> RenderableType:
    """Lay rows out so that no word is cut: a table, one without lines, or on a narrow terminal a paragraph for each."""
    count = len(rows[0]) if rows else 0
    for table, beside in (
        (Table(header_style="bold"), 3 * count + 1),
        (Table(header_style="bold", box=None, padding=(0, 1, 0, 0)), count),
    ):
        widths = _widths(rows, out.width - beside)
        if widths is not None:
            return _filled(table, rows, widths)
    return Group(*(_paragraph(row) for row in rows))


def _filled(table: Table, rows: Sequence[Mapping[str, Any]], widths: Sequence[int]) -> Table:
    for place, column in enumerate(rows[0] if rows else ()):
        table.add_column(column.replace("_", " "), overflow="fold", width=widths[place] if widths else None)
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row.values()))
    return table


def _cell(value: object) -> str:
    """Write a value that stands beside others: the end of a very long one is cut off."""
    text = spoken(value)
    return text if len(text) <= LONGEST_CELL else f"{text[:LONGEST_CELL]} ... ({len(text)} characters)"


def _widths(rows: Sequence[Mapping[str, Any]], room: int) -> list[int] | None:
    """Return a width for each column that holds its longest word, None where there is no room for that."""
    columns = [
        [column.replace("_", " "), *(_cell(row[column]) for row in rows)]
        for column in (rows[0] if rows else ())
    ]
    widths = [max(cell_len(word) for text in texts for word in [*text.split(), ""]) for texts in columns]
    wanted = [max(cell_len(line) for text in texts for line in [*text.splitlines(), ""]) for texts in columns]
    spare = room - sum(widths)
    if spare < 0:
        return None
    # Those that want least get it first, and share what is left of the room.
    order = sorted(range(len(columns)), key=lambda place: wanted[place] - widths[place])
    for rank, place in enumerate(order):
        more = min(wanted[place] - widths[place], spare // (len(order) - rank))
        widths[place] += more
        spare -= more
    return widths


def _paragraph(row: Mapping[str, Any]) -> Text:
    fields = [
        Text.assemble((key.replace("_", " "), "bold"), " ", _cell(value))
        for key, value in row.items()
        if value != ""
    ]
    return Text("  ").join(fields).append("\n")


def show_rows(place: Place, rows: Sequence[Mapping[str, Any]], *, nothing: str) -> None:
    """Print rows with the same keys, or say that there are none."""
    if place.output is Output.JSON:
        show_json(rows)
    elif rows:
        out = console()
        out.print(laid_out(rows, out))
    else:
        say(nothing)


def show_one(place: Place, row: Mapping[str, Any]) -> None:
    """Print one record: its fields below each other, or as a JSON object."""
    if place.output is Output.JSON:
        show_json(row)
        return
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(overflow="fold")
    for key, value in row.items():
        table.add_row(Text(key.replace("_", " "), style="bold"), Text(spoken(value)))
    console().print(table)


def show_json(value: object) -> None:
    """Print one JSON document on a line."""
    sys.stdout.write(json.dumps(value, default=_plain) + "\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """Talk to the person: standard error."""
    typer.echo(harmless(text), err=True)


def harmless(text: str) -> str:
    """Write control characters as Python does: in a terminal they could hide, move or colour what others say."""
    return CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)


def spoken(value: object) -> str:
    """Write a value for people."""
    if value is None:
        return UNKNOWN
    if isinstance(value, timedelta):
        return _duration(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, Mapping):
        return json.dumps(value, default=_plain)
    return harmless(str(value))


def moment(epoch_seconds: float | None) -> datetime | None:
    """Return a time in UTC."""
    return None if epoch_seconds is None else datetime.fromtimestamp(epoch_seconds, UTC)


def confirm(question: str, *, yes: bool) -> None:
    """
    Ask before something changes, unless `--yes` was given.

    Raises:
        typer.BadParameter: there is nobody to ask.
        typer.Exit: the answer was no, or none.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter("nobody is there to confirm; look with --dry-run, then add --yes")
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort:
        say("\nnothing was changed")
        raise typer.Exit(INTERRUPTED) from None
    if not agreed:
        say("nothing was changed")
        raise typer.Exit(1)


def _duration(value: timedelta) -> str:
    seconds = round(value.total_seconds())
    parts = []
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, seconds = divmod(seconds, length)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0s"


def _plain(value: object) -> object:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)
