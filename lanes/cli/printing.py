"""How verbs print: rows as a table for people or as JSON for programs, durations, times and questions."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lanes.cli.place import Output

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lanes.cli.place import Place

UNKNOWN = "unknown"
WIDE = 200
"""Columns for tables that go into a file or a pipe."""


def console(*, stderr: bool = False) -> Console:
    """Return a console on standard output or standard error."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else WIDE)


def table_of(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Build a table of rows with the same keys; underscores in keys become spaces."""
    table = Table(header_style="bold")
    for column in rows[0] if rows else ():
        table.add_column(column.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(Text(spoken(value)) for value in row.values()))
    return table


def show_rows(place: Place, rows: Sequence[Mapping[str, Any]], *, nothing: str) -> None:
    """Print rows with the same keys, or say that there are none."""
    if place.output is Output.JSON:
        show_json(rows)
    elif rows:
        console().print(table_of(rows))
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
    typer.echo(text, err=True)


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
    return str(value)


def moment(epoch_seconds: float | None) -> datetime | None:
    """Return a time in UTC."""
    return None if epoch_seconds is None else datetime.fromtimestamp(epoch_seconds, UTC)


def confirm(question: str, *, yes: bool) -> None:
    """
    Ask before something changes, unless `--yes` was given.

    Raises:
        typer.BadParameter: there is nobody to ask.
        typer.Exit: the answer was no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter("nobody is there to confirm; look with --dry-run, then add --yes")
    if not typer.confirm(question, err=True):
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
