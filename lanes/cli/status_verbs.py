"""`lanes status`: what waits in which lane, and what becomes of it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.live import Live

from lanes.cli.operating import interval_given, operations_of
from lanes.cli.place import Output, place_of
from lanes.cli.printing import console, say, show_json, table_of
from lanes.operate.figures import Drain
from lanes.operate.status import StatusReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.table import Table

    from lanes.operate.status import LaneStatus, Status


def status(
    context: typer.Context,
    *,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on until interrupted.")] = False,
    interval: Annotated[str, typer.Option(help="With --watch: how often to look.")] = "2s",
    times: Annotated[
        int, typer.Option(min=0, help="With --watch: end after so many looks; 0 never ends.")
    ] = 0,
) -> None:
    """
    Show each lane, highest first: what waits, how fast it moves, and whether its mapping runs.

    Nothing is received to find out. Age, pace and yields come from CloudWatch, averaged over five minutes, and are
    unknown where CloudWatch has nothing. The time to drain assumes that pace and arrivals stay as they are.
    """
    place = place_of(context)
    operations = operations_of(context)
    reader = StatusReader(
        config=operations.deployment.config,
        depths=operations.depths,
        mappings=operations.mappings,
        figures=operations.figures,
    )
    if watch:
        looks = _looks(reader.read, every=interval_given(interval), times=times)
        _watch(looks, output=place.output)
        return
    found = reader.read()
    if place.output is Output.JSON:
        show_json([_record(lane) for lane in found.lanes])
    else:
        console().print(_table(found))
    for note in found.notes:
        say(f"note: {note}")


def _looks(read: Callable[[], Status], *, every: float, times: int) -> Iterator[Status]:
    count = 0
    waiting = threading.Event()
    while True:
        yield read()
        count += 1
        if times and count >= times:
            return
        waiting.wait(every)


def _watch(looks: Iterator[Status], *, output: Output) -> None:
    """Renew one table, or print one JSON document a line for each look."""
    if output is Output.JSON:
        for found in looks:
            show_json([_record(lane) for lane in found.lanes])
        return
    with Live(console=console(), auto_refresh=False) as live:
        for found in looks:
            live.update(_table(found), refresh=True)


def _table(found: Status) -> Table:
    table = table_of([_row(lane) for lane in found.lanes])
    table.caption = "handled, sent and yields are per minute; dead is dead letters"
    return table


def _record(lane: LaneStatus) -> dict[str, Any]:
    """Return the fields for programs; durations become seconds, unknown becomes null."""
    return {
        "lane": lane.lane,
        "waiting": lane.waiting,
        "in_flight": lane.in_flight,
        "parked": lane.parked,
        "oldest_age": lane.figures.oldest_age,
        "handled_per_minute": lane.figures.pace,
        "sent_per_minute": lane.figures.arrivals,
        "yields_per_minute": lane.figures.yields,
        "drain": lane.drain,
        "time_to_drain": lane.time_to_drain,
        "mapping": lane.mapping,
        "dead_letters": lane.dead_letters,
    }


def _row(lane: LaneStatus) -> dict[str, Any]:
    """Return the columns for people."""
    drains = lane.time_to_drain if lane.drain in (Drain.EMPTY, Drain.FALLING) else str(lane.drain)
    nothing = lane.waiting + lane.in_flight == 0
    return {
        "lane": lane.lane,
        "waiting": lane.waiting,
        "in flight": lane.in_flight,
        "parked": lane.parked,
        "oldest": "none" if nothing else lane.figures.oldest_age,
        "handled": lane.figures.pace,
        "sent": lane.figures.arrivals,
        "yields": lane.figures.yields,
        "drains in": drains,
        "mapping": lane.mapping,
        "dead": lane.dead_letters,
    }
