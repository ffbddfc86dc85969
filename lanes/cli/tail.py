"""`lanes tail` and `lanes audit`: print events of all lanes as they happen, and the changes by operators."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from lanes.cli.arguments import Kind, Latest, StartingAt, lane_named, lanes_here, operations_of, read_time
from lanes.cli.printing import console, escape_controls, moment, say, show_json, show_rows
from lanes.cli.target import Output, target_of
from lanes.cli.trace import STYLES, LogGroup
from lanes.cli.watch import parse_interval, readings
from lanes.config.table import nearest
from lanes.operate.history.descriptions import describe, labels
from lanes.operate.history.tail import EventFilter, Tail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.operate.history.log import LogEvent, MessageEvent


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
        escape_controls(f"  {of_whom}  {why}"),
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
