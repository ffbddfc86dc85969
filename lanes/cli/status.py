"""`lanes status`: show backlog and throughput of each lane."""

from __future__ import annotations

import dataclasses
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from lanes.cli.arguments import operations_of
from lanes.cli.printing import console, layout, say, show_json
from lanes.cli.target import Output, target_of
from lanes.cli.watch import parse_interval, readings
from lanes.errors import LanesError
from lanes.operate.cached import Cached
from lanes.operate.history.descriptions import format_seconds
from lanes.operate.lanes.figures import DepthTrend, Drain
from lanes.operate.lanes.status import StatusReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console, RenderableType

    from lanes.aws.stack.operations import Operations
    from lanes.operate.history.recent import Failure, RecentWork, Running
    from lanes.operate.lanes.status import LaneStatus, Status

# A screen; the page and `dead-letters list` show all.
MAX_FAILURES = 10


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
    Show backlog, throughput, waits and mapping state of each lane, highest first, and the engine.

    With the pull engine a lane's mapping is that of the bell, and Disabled if the lane is paused; the bell's own line
    shows its rings.

    No message is received. Age, rates, yields and inversion come from CloudWatch, averaged over five minutes, and are
    unknown without metrics. The time to drain assumes constant rates: with --watch those of the last minute, as counted
    here.

    Waits by lane and kind, running invocations and failures by error come from the function's log, some seconds late.
    Waits are of the last minute, or of a longer time in which 500 messages were handled.
    """
    target = target_of(context)
    operations = operations_of(context)
    read = _Reader(operations).read
    if watch:
        seen = readings(read, every=parse_interval(interval), times=times)
        _watch(seen, output=target.output)
        return
    found = read()
    if target.output is Output.JSON:
        show_json(_records(found))
        say(found.status.engine_line)
    else:
        out = console()
        out.print(_tables(found, out))
    for note in found.notes:
        say(f"note: {note}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """One reading: the lanes, and their last minutes from the log; None if that can't be read."""

    status: Status
    work: RecentWork | None
    notes: Sequence[str]


class _Reader:
    def __init__(self, operations: Operations) -> None:
        self._status = StatusReader(
            config=operations.deployment.config,
            depths=operations.depths,
            mappings=operations.mappings,
            figures=operations.figures,
            trend=DepthTrend(),
        )
        self._work = Cached(
            lambda: operations.recent_work(operations.logs()).read(), lasts=timedelta(seconds=10)
        )

    def read(self) -> _Found:
        status = self._status.read()
        try:
            work = self._work.get()
        except LanesError as error:
            notes = [f"waits, failures and running invocations unknown: {' '.join(str(error).split())}"]
            return _Found(status=status, work=None, notes=[*status.notes, *notes])
        return _Found(status=status, work=work, notes=[*status.notes, *work.notes])


def _watch(seen: Iterator[_Found], *, output: Output) -> None:
    """Refresh the tables on a terminal; otherwise print tables or a JSON document for each reading."""
    out = console()
    if output is Output.JSON:
        for found in seen:
            show_json(_records(found))
    elif not out.is_terminal:
        for found in seen:
            out.print(_tables(found, out))
    else:
        # Redrawn after each reading alone; by itself rich redraws an old table four times a second.
        with Live(console=out, auto_refresh=False) as live:
            for found in seen:
                live.update(_tables(found, out), refresh=True)


def _tables(found: _Found, out: Console) -> RenderableType:
    status = found.status
    explained = "handled, sent and yields are per minute; dead is dead letters"
    parts: list[RenderableType] = [
        layout([_row(lane) for lane in status.lanes], out),
        Text(status.engine_line),
        Text(explained, style="dim italic"),
    ]
    if found.work is not None:
        parts += _work_tables(found.work, status, out)
    return Group(*parts)


def _work_tables(work: RecentWork, status: Status, out: Console) -> Iterator[RenderableType]:
    if work.waits:
        since = format_seconds(time.time() - work.since)
        heading = f"waits of the last {since}; inversion is per minute: work while a higher lane waited"
        yield from (Text(f"\n{heading}", style="dim italic"), layout(_wait_rows(work, status), out))
    if work.running:
        yield Text("\nrunning invocations", style="dim italic")
        yield layout([_running_row(one) for one in work.running], out)
    if work.failures:
        yield Text("\nfailures of the last hour", style="dim italic")
        yield layout([_failure_row(one) for one in work.failures[:MAX_FAILURES]], out)
    if len(work.failures) > MAX_FAILURES:
        yield Text(f"and {len(work.failures) - MAX_FAILURES} other errors", style="dim italic")


def _wait_rows(work: RecentWork, status: Status) -> list[dict[str, Any]]:
    inversion = {lane.lane: lane.figures.inversion for lane in status.lanes}
    places = {lane.lane: place for place, lane in enumerate(status.lanes)}
    return [
        {
            "lane": wait.lane,
            "kind": wait.kind or "all",
            "handled": wait.handled,
            "wait p50": format_seconds(wait.p50.total_seconds()),
            "wait p99": format_seconds(wait.p99.total_seconds()),
            "inversion": "" if wait.kind else _milliseconds(inversion.get(wait.lane)),
        }
        for wait in sorted(work.waits, key=lambda wait: (places.get(wait.lane, len(places)), wait.kind))
    ]


def _milliseconds(value: float | None) -> str | None:
    return None if value is None else format_seconds(value / 1000)


def _running_row(running: Running) -> dict[str, Any]:
    return {
        "environment": running.environment,
        "lane": running.lane or None,
        "records": running.records,
        "for": timedelta(seconds=max(0.0, time.time() - running.since)),
        "last event": running.last,
    }


def _failure_row(failure: Failure) -> dict[str, Any]:
    return {
        "lane": failure.lane,
        "kind": failure.kind,
        "attempts": failure.attempts,
        "dead": failure.dead_letters,
        "last": timedelta(seconds=max(0.0, time.time() - failure.last_at)),
        "error": failure.error,
    }


def _records(found: _Found) -> list[dict[str, Any]]:
    """Return the JSON records; durations become seconds, unknown values null."""
    return [_record(lane, found.work) for lane in found.status.lanes]


def _record(lane: LaneStatus, work: RecentWork | None) -> dict[str, Any]:
    waits = [] if work is None else [one for one in work.waits if one.lane == lane.lane]
    all_kinds = next((one for one in waits if not one.kind), None)
    running = None if work is None or work.running is None else work.running
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
        "inversion_ms_per_minute": lane.figures.inversion,
        "wait_p50": None if all_kinds is None else all_kinds.p50,
        "wait_p99": None if all_kinds is None else all_kinds.p99,
        "drain": lane.drain,
        "time_to_drain": lane.time_to_drain,
        "mapping": lane.mapping,
        "dead_letters": lane.dead_letters,
        "kinds": [
            {"kind": one.kind, "handled": one.handled, "wait_p50": one.p50, "wait_p99": one.p99}
            for one in waits
            if one.kind
        ],
        "running": None
        if running is None
        else [_fields(one, without="lane") for one in running if one.lane == lane.lane],
        "failures": None
        if work is None
        else [_fields(one, without="lane") for one in work.failures if one.lane == lane.lane],
    }


def _fields(value: Running | Failure, *, without: str) -> dict[str, Any]:
    return {name: field for name, field in dataclasses.asdict(value).items() if name != without}


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
