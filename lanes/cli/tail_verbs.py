"""`lanes tail`: events of all lanes as they happen."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from lanes.cli.looking import interval_given, looks
from lanes.cli.operating import lane_called, moment_given, operations_of
from lanes.cli.place import Output, place_of
from lanes.cli.printing import console, harmless, moment, say, show_json
from lanes.cli.trace_verbs import STYLES, LogGroup
from lanes.config_table import nearest
from lanes.operate.event_words import known_words, words_of
from lanes.operate.tail import EventFilter, Tail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.operate.events import LogEvent, Tale


def tail(
    context: typer.Context,
    *,
    lane: Annotated[str | None, typer.Option(help="Only of this lane.")] = None,
    kind: Annotated[str, typer.Option(help="Only of this kind; * and ? stand for any characters.")] = "",
    group: Annotated[str, typer.Option(help="Only of this group.")] = "",
    event: Annotated[
        list[str] | None, typer.Option(help="Only these, such as failed or batch_yielded; may be repeated.")
    ] = None,
    since: Annotated[
        str, typer.Option(help="Begin with what happened from then on; an age or a time.")
    ] = "10s",
    interval: Annotated[str, typer.Option(help="How often to look.")] = "2s",
    times: Annotated[int, typer.Option(min=0, help="End after so many looks; 0 never ends.")] = 0,
    log_group: LogGroup = None,
) -> None:
    """
    Show what happens in all lanes, an event a line, until interrupted.

    Read from the function's log, which shows a line some seconds after it was printed. With --output json each line is
    one event with all of its fields.
    """
    place = place_of(context)
    operations = operations_of(context)
    wanted = EventFilter(
        lane=lane_called(operations, lane) if lane else "", kind=kind, group=group, events=event or ()
    )
    for name in wanted.events:
        # Troubles have names of several words, which the consumer of another release may have more of.
        if name.isalpha() and name not in known_words():
            say(f"note: no event is known by the word {name!r}{nearest(name, known_words())}")
    follower = Tail(
        operations.logs(log_group), since=moment_given(since) or 0.0, containing=wanted.containing
    )
    out = console()
    for found in looks(follower.look, every=interval_given(interval), times=times):
        for one in found:
            tales = wanted.meant(one)
            if tales is None:
                continue
            if place.output is Output.JSON:
                show_json({"at": moment(one.line.at), **one.fields})
            else:
                out.print(_line(one, tales), soft_wrap=True)


def _line(event: LogEvent, tales: Sequence[Tale]) -> Text:
    at = datetime.fromtimestamp(event.line.at, UTC).strftime("%H:%M:%S.%f")[:-3]
    what, why = words_of(event.name, event.fields)
    of_whom = f"{len(tales)} messages" if len(tales) > 1 else "".join(_name(tale) for tale in tales)
    return Text.assemble(
        (at, "dim"),
        f"  {event.lane:<8}  ",
        (f"{what:<13}", STYLES.get(what, "")),
        harmless(f"  {of_whom}  {why}"),
    )


def _name(tale: Tale) -> str:
    return "  ".join(one for one in (tale.kind, tale.group, tale.id or tale.message_id) if one)
