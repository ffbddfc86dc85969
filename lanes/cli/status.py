"""`lanes status`: show backlog and throughput of each lane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from lanes.cli.arguments import operations_of
from lanes.cli.printing import console, layout, say, show_json
from lanes.cli.target import Output, target_of
from lanes.cli.watch import parse_interval, readings
from lanes.operate.lanes.figures import DepthTrend, Drain
from lanes.operate.lanes.status import StatusReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType

    from lanes.operate.lanes.status import LaneStatus, Status


def status(
    context: typer.Context,
    *,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh until interrupted.")] = False,
    interval: Annotated[str, typer.Option(help="With --watch, refresh at this interval.")] = "2s",
    times: Annotated[
        int, typer.Option(min=0, help="With --watch, stop after this many refreshes; 0 for no limit.")
    ] = 0,
) -> None:
    """
    Show backlog, throughput and mapping state of each lane, highest first, and the engine.

    With the pull engine a lane's mapping is that of the bell, and Disabled if the lane is paused; the bell's own line
    shows its rings.

    No message is received. Age, rates and yields come from CloudWatch, averaged over five minutes, and are unknown
    without metrics. The time to drain assumes constant rates: with --watch those of the last minute, as counted here.
    """
    target = target_of(context)
    operations = operations_of(context)
    reader = StatusReader(
        config=operations.deployment.config,
        depths=operations.depths,
        mappings=operations.mappings,
        figures=operations.figures,
        trend=DepthTrend(),
    )
    if watch:
        seen = readings(reader.read, every=parse_interval(interval), times=times)
        _watch(seen, output=target.output)
        return
    found = reader.read()
    if target.output is Output.JSON:
        show_json([_record(lane) for lane in found.lanes])
        say(found.engine_line)
    else:
        out = console()
        out.print(_table(found, out))
    for note in found.notes:
        say(f"note: {note}")


def _watch(seen: Iterator[Status], *, output: Output) -> None:
    """Refresh one table on a terminal; otherwise print a table or a JSON document for each reading."""
    out = console()
    if output is Output.JSON:
        for found in seen:
            show_json([_record(lane) for lane in found.lanes])
    elif not out.is_terminal:
        for found in seen:
            out.print(_table(found, out))
    else:
        # Redrawn after each reading alone; by itself rich redraws an old table four times a second.
        with Live(console=out, auto_refresh=False) as live:
            for found in seen:
                live.update(_table(found, out), refresh=True)


def _table(found: Status, out: Console) -> RenderableType:
    explained = Text("handled, sent and yields are per minute; dead is dead letters", style="dim italic")
    return Group(layout([_row(lane) for lane in found.lanes], out), Text(found.engine_line), explained)


def _record(lane: LaneStatus) -> dict[str, Any]:
    """Return the JSON record; durations become seconds, unknown values null."""
    return {
        "lane": lane.lane,
        "waiting": lane.waiting,
        "in_flight": lane.in_flight,
        "parked": lane.parked,
        "oldest_age": lane.figures.oldest_age,
        "handled_per_minute": lane.figures.pace,
        "leaving_per_minute": lane.figures.leaving,
        "sent_per_minute": lane.figures.arrivals,
        "yields_per_minute": lane.figures.yields,
        "drain": lane.drain,
        "time_to_drain": lane.time_to_drain,
        "mapping": lane.mapping,
        "dead_letters": lane.dead_letters,
    }


def _row(lane: LaneStatus) -> dict[str, Any]:
    """Return the row of the table."""
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
