"""`lanes send`: send one message, or a file of messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lanes.cli.arguments import DryRun, kinds_here, operations_of
from lanes.cli.printing import progress_bar, say, show_json, show_rows
from lanes.cli.target import Output, target_of, usage
from lanes.errors import InvalidMessageError
from lanes.operate.audit import audited
from lanes.operate.descriptions import counted
from lanes.operate.send import SOURCE, Line, Sending, message_of, read_data, read_lines, read_moment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from lanes.aws.stack import Operations
    from lanes.cli.target import Target

SHOWN = ("id", "lane", "message_id", "sequence_number", "not_before")

# An audit entry names some kinds; a file can have thousands.
MAX_LISTED = 20


def send(
    context: typer.Context,
    kind: Annotated[
        str | None, typer.Argument(metavar="KIND", help="Kind of the message.", autocompletion=kinds_here)
    ] = None,
    data: Annotated[
        str | None,
        typer.Argument(metavar="DATA", help="Data as JSON: '{\"order\": 7}', or null for none."),
    ] = None,
    *,
    group: Annotated[
        str | None, typer.Option(help="Put the message into this group, which keeps its order.")
    ] = None,
    priority: Annotated[
        str | None,
        typer.Option(
            help="Set this priority: a number, BULK, LOW, NORMAL, HIGH or CRITICAL; NORMAL by default."
        ),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Let no handler get it after this time: ISO 8601 with a zone, or a duration such as 15m.",
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Send it at this time: ISO 8601 with a zone, or a duration such as 15m; up to a minute late.",
        ),
    ] = None,
    id: Annotated[str | None, typer.Option("--id", help="Set this id; a new one by default.")] = None,  # noqa: A002
    deduplication_id: Annotated[
        str | None,
        typer.Option(
            help="Set this deduplication ID; SQS drops a second message with it within five minutes."
        ),
    ] = None,
    file: Annotated[
        typer.FileText | None,
        typer.Option(
            "--file",
            "-f",
            encoding="utf-8-sig",
            help="Send the messages of this file, one JSON object a line; - is standard input.",
        ),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """
    Send one message, or each line of a JSON Lines file, to the lane of its priority.

    A line is an object with the keys kind, data, group, priority, id, deduplication_id, source, traceparent and
    expires; only kind is required. --group, --priority and --expires apply to lines without their own, --at to all.
    All lines are checked before the first is sent. For a file, the result counts messages by lane; --output json lists
    each line.
    """
    if (kind is None) == (file is None):
        raise typer.BadParameter("give either KIND or --file")
    if kind is not None and data is None:
        raise typer.BadParameter(
            "give DATA as JSON after the kind, such as '{\"order\": 7}', or null for none"
        )
    keys = {"group": group, "priority": priority, "expires": expires}
    own = {"id": id, "deduplication_id": deduplication_id}
    if data is not None:
        lines = [_line_of({"kind": kind, "data": _data(data), **keys, **own})]
    elif file is not None:
        _refuse_one_for_all(own)
        lines = _lines_of(file, keys)
    not_before = None
    if at is not None:
        with usage("message"):
            not_before = read_moment("--at", at)
    _carry_out(context, lines, is_file=file is not None, dry_run=dry_run, not_before=not_before)


def _carry_out(
    context: typer.Context,
    lines: Sequence[Line],
    *,
    is_file: bool,
    dry_run: bool,
    not_before: datetime | None,
) -> None:
    """Send the lines, or show their lanes, and print the result."""
    target, operations = target_of(context), operations_of(context)
    sending = Sending(lines, config=operations.deployment.config)
    if dry_run:
        time = "" if not_before is None else f" at {not_before.isoformat(timespec='seconds')}"
        say(f"would send {counted(len(lines), 'message')}{time}")
        by_lane = is_file and target.output is Output.TABLE
        rows = sending.planned_by_lane() if by_lane else sending.planned()
        show_rows(target, rows, empty="there is no message to send")
        return
    try:
        if lines:
            _send(operations, sending, not_before)
    finally:
        # Also after an error: the lines before it were sent.
        _show(target, sending, is_file=is_file)


def _show(target: Target, sending: Sending, *, is_file: bool) -> None:
    """Print the result of each line as JSON, or the counts of a file as a table."""
    if target.output is Output.JSON:
        show_json(sending.rows())
    elif is_file:
        show_rows(target, sending.by_lane(), empty="there is no message to send")
    elif sending.count:
        (row,) = sending.rows()
        show_rows(target, [{name: row[name] for name in SHOWN if row[name]}], empty="")


def _line_of(values: Mapping[str, Any]) -> Line:
    """Return the message of the options as the one line to send."""
    with usage("message"):
        message = message_of(values)
        # Before any call, and as an error of usage; the producer checks it again.
        message.to_body()
    return Line(number=1, message=message)


def _data(text: str) -> Any:
    with usage("data"):
        return read_data(text)


def _refuse_one_for_all(own: Mapping[str, str | None]) -> None:
    for name, value in own.items():
        if value is not None:
            raise typer.BadParameter(
                f"all messages of the file would have {value!r}, and SQS would keep one of them; give the key {name} "
                f"in each line",
                param_hint=f"--{name.replace('_', '-')}",
            )


def _lines_of(file: typer.FileText, defaults: Mapping[str, str | None]) -> list[Line]:
    # A wrong option is an error of usage, not of each line.
    _line_of({"kind": "any", **defaults})
    try:
        return read_lines(file, {name: value for name, value in defaults.items() if value is not None})
    except UnicodeDecodeError as error:
        raise InvalidMessageError([f"{file.name} is not UTF-8: {error}; save it as UTF-8"]) from error


def _send(operations: Operations, sending: Sending, not_before: datetime | None) -> None:
    """Send with a progress bar and an entry in the audit trail that counts the sent messages."""
    producer = operations.producer(source=SOURCE)
    kinds = sorted({line.message.kind for line in sending.lines})
    # No data and no ids: who may read the audit trail may not be allowed to read messages.
    details = {"messages": len(sending.lines), "kinds": kinds[:MAX_LISTED]}
    with audited(operations.audit, "send", "lanes", details=details) as entry, progress_bar() as progress:
        task = progress.add_task("sending", total=len(sending.lines))
        try:
            sending.run(
                producer,
                report=lambda sent: progress.update(task, completed=sent),
                not_before=not_before,
            )
        except KeyboardInterrupt:
            say(
                f"interrupted after {sending.count} of {len(sending.lines)}; some of the next lines may have been sent"
            )
            raise
        finally:
            entry["sent"] = sending.count
