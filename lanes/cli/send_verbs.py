"""`lanes send`: one message, or a file of them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lanes.cli.operating import DryRun, operations_of
from lanes.cli.place import Output, place_of
from lanes.cli.printing import console, say, show_json, show_rows
from lanes.cli.usage import usage
from lanes.errors import InvalidMessageError
from lanes.operate.audit import audited
from lanes.operate.sending import SOURCE, Line, Sending, message_of, read_data, read_lines

if TYPE_CHECKING:
    from lanes.aws.operations import Operations
    from lanes.cli.place import Place

SHOWN = ("id", "lane", "message_id", "sequence_number")

MOST_LISTED = 20


def send(
    context: typer.Context,
    kind: Annotated[str | None, typer.Argument(help="Kind of the message.")] = None,
    data: Annotated[str, typer.Argument(help="Data as JSON: '{\"order\": 7}'.")] = "null",
    *,
    group: Annotated[str | None, typer.Option(help="Messages of a group keep their order.")] = None,
    priority: Annotated[
        str | None, typer.Option(help="A number, or BULK, LOW, NORMAL, HIGH, CRITICAL; NORMAL without.")
    ] = None,
    id: Annotated[str | None, typer.Option("--id", help="Id of the message; a new one without.")] = None,  # noqa: A002
    deduplication_id: Annotated[
        str | None, typer.Option(help="SQS drops a second one within five minutes.")
    ] = None,
    file: Annotated[
        typer.FileText | None,
        typer.Option(
            "--file", "-f", encoding="utf-8-sig", help="Messages, a JSON object a line; - is standard input."
        ),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """
    Send one message, or each line of a JSON Lines file, to the lane of its priority.

    A line is an object with the keys kind, data, group, priority, id, deduplication_id, source and traceparent; only
    kind is needed. All lines are checked before the first is sent. Of a file the lanes are counted; --output json tells
    each line.
    """
    place = place_of(context)
    if (kind is None) == (file is None):
        raise typer.BadParameter("give either KIND, or a file with --file")
    if file is not None:
        lines = _lines_of(file)
    else:
        given = {
            "kind": kind,
            "data": _data(data),
            "group": group,
            "priority": priority,
            "id": id,
            "deduplication_id": deduplication_id,
        }
        with usage("message"):
            message = message_of(given)
            message.to_body()
        lines = [Line(number=1, message=message)]
    operations = operations_of(context)
    sending = Sending(lines, config=operations.deployment.config)
    if dry_run:
        say(f"would send {len(lines)}")
        by_lane = file is not None and place.output is Output.TABLE
        rows = sending.planned_by_lane() if by_lane else sending.planned()
        show_rows(place, rows, nothing="there is nothing to send")
        return
    try:
        if lines:
            _send(operations, sending)
    finally:
        _show(place, sending, is_file=file is not None)


def _show(place: Place, sending: Sending, *, is_file: bool) -> None:
    """Tell what became of the lines: each for programs, counts of a file for people."""
    if place.output is Output.JSON:
        show_json(sending.rows())
    elif is_file:
        show_rows(place, sending.by_lane(), nothing="there is nothing to send")
    elif sending.count:
        (row,) = sending.rows()
        show_rows(place, [{name: row[name] for name in SHOWN}], nothing="")


def _data(text: str) -> Any:
    with usage("data"):
        return read_data(text)


def _lines_of(file: typer.FileText) -> list[Line]:
    try:
        return read_lines(file)
    except UnicodeDecodeError as error:
        raise InvalidMessageError([f"{file.name} is no UTF-8: {error}"]) from error


def _send(operations: Operations, sending: Sending) -> None:
    """Send in parts, so that progress shows and what was sent is known if a part fails."""
    producer = operations.producer(source=SOURCE)
    kinds = sorted({line.message.kind for line in sending.lines})
    details = {"messages": len(sending.lines), "kinds": kinds[:MOST_LISTED]}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with (
        audited(operations.audit, "send", "lanes", details=details) as noted,
        Progress(
            *columns, console=console(stderr=True), disable=not sys.stderr.isatty(), transient=True
        ) as progress,
    ):
        task = progress.add_task("sending", total=len(sending.lines))
        try:
            sending.run(producer, report=lambda sent: progress.update(task, completed=sent))
        except KeyboardInterrupt:
            say(
                f"interrupted after {sending.count} of {len(sending.lines)}; of the next lines some may be sent"
            )
            raise
        finally:
            noted["sent"] = sending.count
