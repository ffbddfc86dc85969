"""`lanes trace`, `tail` and `audit`: what happened, and what happens now."""

from __future__ import annotations

import dataclasses
import time
from datetime import UTC, datetime
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from lanes.cli.arguments import (
    Kind,
    Latest,
    StartingAt,
    lane_named,
    lanes_here,
    operations_of,
    parse_interval,
    read_time,
)
from lanes.cli.printing import console, escape_controls, one_line, readings, say, show_json, show_rows
from lanes.cli.target import ExitCode, Output, UsageError, target_of
from lanes.config import LanesConfig
from lanes.config.table import nearest
from lanes.errors import LanesError
from lanes.operate.descriptions import MAX_LENGTH, describe, labels, moment
from lanes.operate.log import EventFilter, LogFiles, Tail
from lanes.operate.tracer import Tracer, trace_id_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.aws.stack import Operations
    from lanes.operate.log import LogEvent, LogLine, MessageEvent
    from lanes.operate.trace import Step, Trace
    from lanes.operate.tracer import TracedMessage

QUIET_LEVELS = ("WARNING", "ERROR", "CRITICAL")
STYLES = {
    "handled": "green",
    "failed": "red",
    "dead-lettered": "bold red",
    "yielded": "yellow",
    "throttled": "magenta",
    "not reported": "magenta",
    "crashed?": "bold red",
}

LogGroup = Annotated[
    str | None, typer.Option(help="Read this log group; needed if you may not read the function.")
]


def _refuse_run(name: str | None) -> None:
    """Say where the messages of a run are listed: the table knows a member by its hash, not by its id."""
    if name is not None:
        problem = (
            f"a run may have millions of messages, and a trace is of one. `lanes runs show {name}` counts them, and "
            f"`lanes dead-letters list --run {name}` lists those that failed; then `lanes trace ID` traces one"
        )
        raise UsageError([problem], source="--run")


def trace(
    context: typer.Context,
    wanted: Annotated[
        str, typer.Argument(metavar="ID", help="Id of the message, at SQS or its own, or of a W3C trace.")
    ],
    *,
    since: Annotated[
        str | None, typer.Option(help="Search the log from this time on: ISO 8601, or an age; 1d by default.")
    ] = None,
    log_group: LogGroup = None,
    log_file: Annotated[
        list[Path] | None,
        typer.Option(help="Search this log file and nothing else; may be repeated."),
    ] = None,
    _run: Annotated[
        str | None,
        typer.Option(
            "--run",
            hidden=True,
            is_eager=True,
            callback=_refuse_run,
            help="Refused: a trace is of one message.",
        ),
    ] = None,
) -> None:
    """
    Show the history of a message: every receive and its cause.

    The id of a trace lists its messages in every lane, each with its last event.

    The history comes from the log of the function, the ledger, the outbox and the audit trail; no message is received.
    CloudWatch Logs searches the whole time, which takes a while for a busy log. Exit code 3: nothing was found.
    """
    operations = None if log_file else operations_of(context)
    start = read_time(since or (None if log_file else "1d")) or 0.0
    if operations is None:
        tracer = _tracer_of_files(log_file or [])
    else:
        tracer = operations.tracer(operations.logs(log_group), note=lambda text: say(f"note: {text}"))
    # Searching a busy log takes minutes; the spinner shows that it runs.
    with console(stderr=True).status(f"searching the log since {_time(start)}"):
        found = tracer.trace(wanted, since=start)
        trace_id = None if found.is_known else trace_id_in(wanted)
        together = tracer.messages_of(trace_id, since=start) if trace_id else []
        failed = [] if found.is_known or together else tracer.failed_starts(since=start)
    if together:
        _show_messages(together, target_of(context).output)
        return
    if target_of(context).output is Output.JSON:
        show_json(_record(found))
    elif found.is_known:
        _show(found)
    if not found.is_known:
        _explain_nothing(operations, wanted, start, failed)
        raise typer.Exit(ExitCode.NO)


def _tracer_of_files(paths: Sequence[Path]) -> Tracer:
    return Tracer(
        config=LanesConfig(),
        logs=LogFiles(paths),
        ledger=None,
        audit=None,
        outbox=None,
        note=say,
        # A file may come from any deployment, so its engine is unknown.
        is_deployed=False,
    )


def _show(found: Trace) -> None:
    out = console()
    names = [("id", found.id), ("kind", found.kind), ("group", found.group)]
    names += [("id at SQS", one) for one in found.message_ids]
    head = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in names:
        if value:
            head.add_row(Text(name, style="bold"), Text(escape_controls(value)))
    out.print(head)
    if found.steps:
        out.print(_timeline(found.steps))
    out.print(Text.assemble(("now", "bold"), "  ", escape_controls(found.status)))


def _show_messages(messages: Sequence[TracedMessage], output: Output) -> None:
    if output is Output.JSON:
        show_json([{**dataclasses.asdict(one), "at": moment(one.at)} for one in messages])
        return
    columns = ("time", "lane", "id", "kind", "what", "why")
    table = Table(*columns, header_style="bold", box=None, padding=(0, 2, 0, 0))
    for one in messages:
        what = Text(one.what, style=STYLES.get(one.what, ""))
        cells = (Text(escape_controls(text)) for text in (one.lane, one.id, one.kind))
        table.add_row(_time(one.at), *cells, what, Text(escape_controls(one.why)))
    console().print(table)
    say("`lanes trace` with one of these ids shows every receive of that message")


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
        table.add_row(when, Text(step.lane), step.receive, what, Text(escape_controls(step.why)))
    return table


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"


def _record(found: Trace) -> dict[str, Any]:
    """Return the JSON record."""
    return {
        "id": found.id,
        "kind": found.kind,
        "group": found.group,
        "message_ids": list(found.message_ids),
        "code": found.code,
        "status": found.status,
        "steps": [
            {
                "at": moment(step.at),
                "is_seen": step.is_seen,
                "lane": step.lane,
                "receive": step.receive,
                "code": step.code,
                "what": step.what,
                "why": step.why,
                "message_id": step.message_id,
            }
            for step in found.steps
        ],
    }


def _explain_nothing(
    operations: Operations | None, wanted: str, since: float, failed: Sequence[LogLine]
) -> None:
    """Print the possible reasons why nothing was found, and the next steps."""
    if operations is None:
        say(f"the files do not mention {wanted}")
    else:
        say(
            f"nothing was found for {wanted}: no event in the log since {_time(since)}, no entry in the ledger"
        )
    if failed:
        say(f"- {_failed_starts(failed)}; messages have no event until it starts, so mend that first")
    if operations is None:
        return
    level = _log_level(operations)
    if level in QUIET_LEVELS:
        say(f"- the function logs at level {level}, which leaves out events of messages: deploy it with INFO")
    say(
        "- it may not have been received yet: `lanes status` shows the backlog, and whether the lane is received"
    )
    # AWS: a message stays in a queue for at most 14 days (SQS quotas).
    if time.time() - since < 14 * 24 * 3600:
        say("- it may be older: search the whole retention of SQS with `--since 14d`")
    say(f"- SQS may have dead-lettered it: `lanes dead-letters show {wanted}`")
    if operations.deployment.outbox is not None:
        say(f"- it may still be in the outbox: `lanes outbox show {wanted}`")
    say(
        "- the id may be wrong: give the id of the event, or the message id that SQS returned to the producer"
    )


def _failed_starts(lines: Sequence[LogLine]) -> str:
    last = lines[-1]
    times = "once" if len(lines) == 1 else f"{len(lines)} times"
    # Lines of a file may have no time.
    at = f", the last time at {_time(last.at)}" if last.at else ""
    return f"the function failed to start {times}{at}: {' '.join(last.text.split())[:MAX_LENGTH]}"


def _log_level(operations: Operations) -> str:
    try:
        return operations.function().variables.get("LOG_LEVEL", "INFO").upper()
    except LanesError:
        return "INFO"


def tail(
    context: typer.Context,
    *,
    lane: Annotated[str | None, typer.Option(help="Select this lane.", autocompletion=lanes_here)] = None,
    kind: Kind = None,
    group: Annotated[str, typer.Option(help="Select this group.")] = "",
    event: Annotated[
        list[str] | None,
        typer.Option(help="Select this event, such as failed or batch_yielded; may be repeated."),
    ] = None,
    since: StartingAt = "10s",
    interval: Annotated[str, typer.Option(help="Read the log at this interval.")] = "2s",
    times: Annotated[int, typer.Option(min=0, help="Stop after this many readings; 0 for no limit.")] = 0,
    log_group: LogGroup = None,
) -> None:
    """
    Print the events of all lanes, one a line, until interrupted.

    The events come from the log of the function, some seconds late. With --output json, each line is an event with all
    its fields.
    """
    every = parse_interval(interval)
    target = target_of(context)
    operations = operations_of(context)
    wanted = EventFilter(
        lane=lane_named(operations, lane) if lane else "", kind=kind or "", group=group, events=event or ()
    )
    for name in wanted.events:
        # A name of several words may be an event of another release; a single word can only be a description.
        if name.isalpha() and name not in labels():
            say(f"note: unknown event {name!r}{nearest(name, labels())}")
    follower = Tail(operations.logs(log_group), since=read_time(since) or 0.0, containing=wanted.containing)
    out = console()
    for found in readings(follower.read, every=every, times=times):
        for one in found:
            events = wanted.select(one)
            if events is None:
                continue
            if target.output is Output.JSON:
                show_json({"at": moment(one.line.at), **one.fields})
            else:
                # Not wrapped: an event stays one line for grep.
                out.print(_line(one, events), soft_wrap=True)


def _line(event: LogEvent, events: Sequence[MessageEvent]) -> Text:
    at = datetime.fromtimestamp(event.line.at, UTC).strftime("%H:%M:%S.%f")[:-3]
    what, why = describe(event.name, event.fields)
    of_whom = f"{len(events)} messages" if len(events) > 1 else "".join(_name(one) for one in events)
    return Text.assemble(
        (at, "dim"),
        f"  {event.lane:<8}  ",
        (f"{what:<13}", STYLES.get(what, "")),
        one_line(f"  {of_whom}  {why}"),
    )


def _name(event: MessageEvent) -> str:
    return "  ".join(one for one in (event.kind, event.group, event.id or event.message_id) if one)


def audit(
    context: typer.Context,
    *,
    since: StartingAt = "7d",
    limit: Latest = 100,
) -> None:
    """
    List the changes that operators made with this command, the latest first.

    An entry is written before its change and updated after it. An entry that stays `started` belongs to a command that
    was killed.
    """
    entries = operations_of(context).audit.entries(since=read_time(since) or 0.0, limit=limit)
    rows = [
        {
            "at": moment(entry.at),
            "who": entry.who,
            "action": entry.action,
            "target": entry.target,
            "outcome": entry.outcome,
            "details": entry.details,
        }
        for entry in entries
    ]
    show_rows(target_of(context), rows, empty=f"no changes since {since}")
