"""`lanes send`: one message, or a file of them."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import Progress

from lanes.cli.operating import DryRun, operations_of
from lanes.cli.place import place_of
from lanes.cli.printing import console, say, show_rows
from lanes.cli.usage import usage
from lanes.errors import InvalidMessageError, PartialSendError, SendError
from lanes.operate.audit import audited
from lanes.operate.sending import SOURCE, Line, message_of, read_data, read_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lanes.aws.operations import Operations
    from lanes.outgoing import SentMessage

AT_ONCE = 1_000
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
    kind is needed. All lines are checked before the first is sent.
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
    if dry_run:
        rows = [_planned(operations, line) for line in lines]
        say(f"would send {len(rows)}")
    else:
        rows = [_sent(one) for one in _send(operations, lines)] if lines else []
    show_rows(place, rows, nothing="there is nothing to send")


def _data(text: str) -> Any:
    with usage("data"):
        return read_data(text)


def _lines_of(file: typer.FileText) -> list[Line]:
    try:
        return read_lines(file)
    except UnicodeDecodeError as error:
        raise InvalidMessageError([f"{file.name} is no UTF-8: {error}"]) from error


def _planned(operations: Operations, line: Line) -> dict[str, Any]:
    message = line.message
    lane = operations.deployment.config.lane_for(message.priority or 0).name
    return {"id": message.id, "lane": lane, "kind": message.kind, "group": message.message_group_id}


def _sent(one: SentMessage) -> dict[str, Any]:
    return {
        "id": one.id,
        "lane": one.lane,
        "message_id": one.message_id,
        "sequence_number": one.sequence_number,
    }


def _send(operations: Operations, lines: Sequence[Line]) -> list[SentMessage]:
    """Send in parts, so that progress shows and what was sent is known if a part fails."""
    producer = operations.producer(source=SOURCE)
    kinds = sorted({line.message.kind for line in lines})
    sent: list[SentMessage] = []
    details = {"messages": len(lines), "kinds": kinds[:MOST_LISTED]}
    with (
        audited(operations.audit, "send", "lanes", details=details) as noted,
        Progress(console=console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as progress,
    ):
        task = progress.add_task("sending", total=len(lines))
        try:
            for start in range(0, len(lines), AT_ONCE):
                part = lines[start : start + AT_ONCE]
                with _naming_lines(lines, part, sent):
                    sent += producer.send_many([line.message for line in part])
                progress.update(task, advance=len(part))
        finally:
            noted["sent"] = len(sent)
    return sent


@contextmanager
def _naming_lines(lines: Sequence[Line], part: Sequence[Line], sent: list[SentMessage]) -> Iterator[None]:
    """Turn what was not sent into the numbers of its lines."""
    try:
        yield
    except PartialSendError as error:
        sent += error.sent
        failed = {unsent.message.id: unsent.reason for unsent in error.failed}
        listed = [
            f"\n  - line {line.number}: {failed[line.message.id]}"
            for line in part
            if line.message.id in failed
        ]
        later = [line.number for line in lines if line.number > part[-1].number]
        rest = f"\n  - lines {later[0]} to {later[-1]} were not tried" if later else ""
        more = f"\n  - and {len(listed) - MOST_LISTED} more" if len(listed) > MOST_LISTED else ""
        text = "".join(listed[:MOST_LISTED]) + more + rest
        raise SendError(f"{len(sent)} of {len(lines)} were sent{text}") from error
