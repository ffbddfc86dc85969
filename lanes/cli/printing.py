"""Print rows as tables or JSON, format values, ask for confirmation, and show how far a verb is."""

from __future__ import annotations

import io
import json
import math
import re
import sys
import threading
import time
import unicodedata
from collections.abc import Mapping
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import typer
from rich.cells import cell_len
from rich.console import Console, Group
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from lanes.cli.target import ExitCode, Output
from lanes.errors import AwsError
from lanes.operate.descriptions import format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import RenderableType

    from lanes.cli.target import Target

UNKNOWN = "unknown"
# Shows the beginning of a body or traceback without filling the screen; JSON has the whole text.
MAX_CELL_LENGTH = 400
SPACE = "Zs"
"""The Unicode category of spaces; Python calls only one of them printable."""
# A pipe has no width, and rich would take 80 columns.
FILE_WIDTH = 200
"""Width of tables that are written to a file or a pipe."""
# A command is there to be pasted, so its line may be too long instead.
_WORD = re.compile(r"(?:`[^`]*`|\S)+")
_ITEM = re.compile(r"\s*(?:- )?")
# People take a command that is silent for longer for one that hangs.
EVERY_SECONDS = 2.0
THREAD = "busy"

Seen = TypeVar("Seen")


def console(*, stderr: bool = False) -> Console:
    """Return a console on standard output or standard error."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else FILE_WIDTH)


def table_of(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of rows with the same keys; underscores in keys become spaces."""
    return _filled(Table(header_style="bold"), rows, ())


def layout(rows: Sequence[Mapping[str, Any]], out: Console) -> RenderableType:
    """Lay out rows without cutting words: as a table, without lines, or as a paragraph for each row."""
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
    for index, column in enumerate(rows[0] if rows else ()):
        table.add_column(column.replace("_", " "), overflow="fold", width=widths[index] if widths else None)
    for row in rows:
        # As Text, since rich reads square brackets in a string as markup, and messages contain them.
        table.add_row(*(Text(_cell(value)) for value in row.values()))
    return table


def _cell(value: object) -> str:
    """Format the value of a cell, and shorten a very long one."""
    text = format_value(value)
    return text if len(text) <= MAX_CELL_LENGTH else f"{text[:MAX_CELL_LENGTH]} ... ({len(text)} characters)"


def _widths(rows: Sequence[Mapping[str, Any]], available: int) -> list[int] | None:
    """Return the width of each column, at least that of its longest word; None if the table does not fit."""
    columns = [
        [column.replace("_", " "), *(_cell(row[column]) for row in rows)]
        for column in (rows[0] if rows else ())
    ]
    widths = [max(cell_len(word) for text in texts for word in [*text.split(), ""]) for texts in columns]
    wanted = [max(cell_len(line) for text in texts for line in [*text.splitlines(), ""]) for texts in columns]
    spare = available - sum(widths)
    # Words are never cut: an id on the screen is there to be copied.
    if spare < 0:
        return None
    # Narrow columns first: wide ones share the remaining space.
    order = sorted(range(len(columns)), key=lambda index: wanted[index] - widths[index])
    for rank, index in enumerate(order):
        more = min(wanted[index] - widths[index], spare // (len(order) - rank))
        widths[index] += more
        spare -= more
    return widths


def _paragraph(row: Mapping[str, Any]) -> Text:
    fields = [
        Text.assemble((key.replace("_", " "), "bold"), " ", _cell(value))
        for key, value in row.items()
        if value != ""
    ]
    return Text("  ").join(fields).append("\n")


def show_rows(target: Target, rows: Sequence[Mapping[str, Any]], *, empty: str) -> None:
    """Print rows with the same keys, or the text `empty` if there are none."""
    if target.output is Output.JSON:
        show_json(rows)
    elif rows:
        out = console()
        out.print(layout([without_code(row) for row in rows], out))
    else:
        say(empty)


def show_one(target: Target, row: Mapping[str, Any]) -> None:
    """Print one record: a field a line, or a JSON object."""
    if target.output is Output.JSON:
        show_json(row)
        return
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(overflow="fold")
    for key, value in without_code(row).items():
        table.add_row(Text(key.replace("_", " "), style="bold"), Text(format_value(value)))
    console().print(table)


def without_code(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row for people: codes are for programs, and the description is beside them."""
    return {name: value for name, value in row.items() if name != "code"}


def show_json(value: object) -> None:
    """Print one JSON document on a line."""
    sys.stdout.write(json.dumps(value, default=_plain) + "\n")
    # A program that reads the pipe of --watch must not wait for a full buffer.
    sys.stdout.flush()


def say(text: str) -> None:
    """Print a message for the operator on standard error, wrapped at the width of a terminal."""
    plain = escape_controls(text)
    typer.echo(wrapped(plain, console(stderr=True).width) if sys.stderr.isatty() else plain, err=True)


def escape_controls(text: str) -> str:
    """
    Escape all characters without a glyph except tabs, line ends and spaces.

    In a terminal, control and format characters could hide, move or colour other text, and half of a surrogate pair
    can't be written at all.
    """
    if text.isprintable():
        return text
    return "".join(one if _is_shown(one) else ascii(one)[1:-1] for one in text)


def one_line(text: str) -> str:
    """Escape line ends too, where each line is about another thing: a sender's text must not write lines of its own."""
    return escape_controls(text).replace("\n", r"\n")


def _is_shown(character: str) -> bool:
    return character.isprintable() or character in "\t\n" or unicodedata.category(character) == SPACE


def escape_unwritable(stream: TextIO) -> None:
    """Let a stream escape characters that its encoding lacks: a message's text must not end a command."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")


def format_value(value: object) -> str:
    """Format a value for people."""
    if value is None:
        return UNKNOWN
    if isinstance(value, timedelta):
        return format_seconds(value.total_seconds())
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, Mapping):
        return json.dumps(value, default=_plain)
    return escape_controls(str(value))


def confirm(question: str, *, yes: bool) -> None:
    """
    Ask for confirmation of a change, unless `--yes` is given.

    Raises:
        typer.BadParameter: standard input is not a terminal.
        typer.Exit: the answer is no, or Ctrl-C.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter(
            "standard input is not a terminal, so there is no confirmation; try --dry-run, then add --yes"
        )
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort:
        say("\nnothing was changed")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    if not agreed:
        say("nothing was changed")
        raise typer.Exit(ExitCode.FAILED)


def _plain(value: object) -> object:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)


def wrapped(text: str, width: int) -> str:
    """Wrap each line between words, except in a command between backticks; an item of a list keeps its indent."""
    return "\n".join(_wrapped(line, width) for line in text.split("\n"))


def _wrapped(line: str, width: int) -> str:
    if cell_len(line) <= width:
        return line
    begin = _ITEM.match(line)[0]  # type: ignore[index]  # it matches the empty text
    lines: list[str] = []
    for word in _WORD.findall(line[len(begin) :]):
        if lines and cell_len(f"{lines[-1]} {word}") <= width - len(begin):
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return begin + f"\n{' ' * len(begin)}".join(lines)


@contextmanager
def busy(describe: Callable[[], str]) -> Iterator[None]:
    """Show a spinner on a terminal while the block runs, and a line elsewhere; renew the text every two seconds."""
    terminal = console(stderr=True).status(describe()) if sys.stderr.isatty() else None
    show = terminal.update if terminal else say
    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(EVERY_SECONDS):
            show(describe())

    thread = threading.Thread(target=tell, name=THREAD, daemon=True)
    with terminal or nullcontext():
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def progress_bar(last: ProgressColumn | None = None) -> Progress:
    """Return a bar with a count and a last column, by default the remaining time; it shows on a terminal alone."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        last or TimeRemainingColumn(),
        console=console(stderr=True),
        disable=not sys.stderr.isatty(),
        transient=True,
    )


def readings(
    read: Callable[[], Seen], *, every: float, times: int = 0, within: float = math.inf
) -> Iterator[Seen]:
    """
    Read again and again; a retryable error after the first reading is reported and skipped.

    Args:
        read: reads once.
        every: seconds between readings.
        times: number of readings, also failed ones; 0 for no limit.
        within: seconds after which the last reading begins.

    Raises:
        AwsError: the first reading failed, or a later one failed with an error that is not retryable.
    """
    waiting = threading.Event()
    ends_at, count = time.monotonic() + within, 0
    while True:
        try:
            yield read()
        except AwsError as error:
            # At the first reading it is a wrong stack or missing rights rather than an outage.
            if not error.retryable or count == 0:
                raise
            say(f"note: {error}; trying again")
        count += 1
        left = ends_at - time.monotonic()
        if left <= 0 or (times and count >= times):
            return
        waiting.wait(min(every, left))
