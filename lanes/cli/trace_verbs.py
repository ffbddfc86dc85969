"""`lanes trace`: every receive of a message, and why."""

from __future__ import annotations

import dataclasses
import time
from datetime import UTC, datetime
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from lanes.cli.operating import moment_given, operations_of
from lanes.cli.place import Output, place_of
from lanes.cli.printing import console, harmless, moment, say, show_json
from lanes.config import LanesConfig
from lanes.errors import LanesError
from lanes.operate.log_file import LogFiles
from lanes.operate.trace_reading import NothingElse, Tracer
from lanes.operate.traced_messages import trace_id_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.aws.operations import Operations
    from lanes.operate.trace import Step, Trace
    from lanes.operate.traced_messages import TracedMessage

NOT_FOUND = 3
QUIET_LEVELS = ("WARNING", "ERROR", "CRITICAL")
STYLES = {
    "handled": "green",
    "failed": "red",
    "dead-lettered": "bold red",
    "yielded": "yellow",
    "throttled": "magenta",
    "crashed?": "bold red",
}

LogGroup = Annotated[
    str | None, typer.Option(help="The function's log group, where the function can't be read.")
]


def trace(
    context: typer.Context,
    wanted: Annotated[
        str, typer.Argument(metavar="ID", help="The message's own id, that of SQS, or that of a W3C trace.")
    ],
    *,
    since: Annotated[
        str | None, typer.Option(help="Look through the log from then on; an age or a time. 1d unless given.")
    ] = None,
    log_group: LogGroup = None,
    log_file: Annotated[
        list[Path] | None,
        typer.Option(help="A file with the log, and nothing else is asked; may be repeated."),
    ] = None,
) -> None:
    """
    Tell what became of a message: every receive of it and its cause.

    The id of a trace lists the messages of the trace, in every lane, with what became of them at last.

    Read from the function's log, the ledger, the outbox and the audit trail. Nothing is received to find out. A long
    time or a busy log takes a while, since CloudWatch Logs looks through all of it. Ends with 3 if nothing is known.
    """
    operations = None if log_file else operations_of(context)
    from_then = moment_given(since or (None if log_file else "1d")) or 0.0
    if operations is None:
        tracer = _tracer_of_files(log_file or [])
    else:
        tracer = operations.tracer(operations.logs(log_group), note=lambda text: say(f"note: {text}"))
    with console(stderr=True).status(f"looking through the log since {_time(from_then)}"):
        found = tracer.trace(wanted, since=from_then)
        trace_id = None if found.is_known else trace_id_in(wanted)
        together = tracer.messages_of(trace_id, since=from_then) if trace_id else []
    if together:
        _show_messages(together, place_of(context).output)
        return
    if place_of(context).output is Output.JSON:
        show_json(_record(found))
    elif found.is_known:
        _show(found)
    if not found.is_known:
        _explain_nothing(operations, wanted, from_then)
        raise typer.Exit(NOT_FOUND)


def _tracer_of_files(paths: Sequence[Path]) -> Tracer:
    nothing = NothingElse()
    return Tracer(
        config=LanesConfig(), logs=LogFiles(paths), ledger=nothing, audit=nothing, outbox=None, note=say
    )


def _show(found: Trace) -> None:
    out = console()
    names = [("id", found.id), ("kind", found.kind), ("group", found.group)]
    names += [("SQS called it", one) for one in found.message_ids]
    head = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in names:
        if value:
            head.add_row(Text(name, style="bold"), Text(harmless(value)))
    out.print(head)
    if found.steps:
        out.print(_timeline(found.steps))
    out.print(Text.assemble(("now", "bold"), "  ", harmless(found.standing)))


def _show_messages(messages: Sequence[TracedMessage], output: Output) -> None:
    if output is Output.JSON:
        show_json([{**dataclasses.asdict(one), "at": moment(one.at)} for one in messages])
        return
    columns = ("time", "lane", "id", "kind", "what", "why")
    table = Table(*columns, header_style="bold", box=None, padding=(0, 2, 0, 0))
    for one in messages:
        what = Text(one.what, style=STYLES.get(one.what, ""))
        cells = (Text(harmless(text)) for text in (one.lane, one.id, one.kind))
        table.add_row(_time(one.at), *cells, what, Text(harmless(one.why)))
    console().print(table)
    say("`lanes trace` with one of these ids tells every receive of that message")


def _timeline(steps: Sequence[Step]) -> Table:
    table = Table(header_style="bold", box=None, padding=(0, 2, 0, 0))
    for column in ("time", "lane", "receive", "what", "why"):
        table.add_column(column, overflow="fold")
    day = ""
    for step in steps:
        date, _, clock = _time(step.at).partition(" ")
        when = clock if step.is_seen else f"after {clock}"
        if date != day:
            table.add_row(Text(date, style="bold"))
            day = date
        what = Text(step.what, style=STYLES.get(step.what, ""))
        table.add_row(when, Text(step.lane), step.receive, what, Text(harmless(step.why)))
    return table


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"


def _record(found: Trace) -> dict[str, Any]:
    """Return the fields for programs."""
    return {
        "id": found.id,
        "kind": found.kind,
        "group": found.group,
        "message_ids": list(found.message_ids),
        "standing": found.standing,
        "steps": [
            {
                "at": moment(step.at),
                "is_seen": step.is_seen,
                "lane": step.lane,
                "receive": step.receive,
                "what": step.what,
                "why": step.why,
                "message_id": step.message_id,
            }
            for step in found.steps
        ],
    }


def _explain_nothing(operations: Operations | None, wanted: str, since: float) -> None:
    """Say what nothing can mean, and what to look at."""
    if operations is None:
        say(f"no file tells anything of {wanted}")
        return
    say(
        f"nothing is known of {wanted}: neither a word in the log since {_time(since)} nor an entry of the ledger"
    )
    level = _log_level(operations)
    if level in QUIET_LEVELS:
        say(
            f"- the function logs at level {level}, which leaves out what becomes of messages: deploy it with INFO"
        )
    say(
        "- it may still wait for its first receive: `lanes status` shows what waits and whether the mappings run"
    )
    if time.time() - since < 14 * 24 * 3600:
        say("- it may be older: `--since 14d` looks through all the time that SQS keeps a message")
    say(f"- SQS may have given it up itself: `lanes dead-letters show {wanted}`")
    if operations.deployment.outbox is not None:
        say(f"- it may never have left the outbox: `lanes outbox show {wanted}`")
    say("- the id may be another one: it is the event's own id, or what SQS answered to whoever sent it")


def _log_level(operations: Operations) -> str:
    try:
        return operations.function().variables.get("LOG_LEVEL", "INFO").upper()
    except LanesError:
        return "INFO"
