"""`lanes status` and `lanes check`: show backlog and throughput of each lane, and problems of the deployment."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.live import Live

from lanes.cli.arguments import operations_of
from lanes.cli.printing import console, moment, say, show_json, show_rows
from lanes.cli.status_tables import Reading, tables_of
from lanes.cli.target import Output, target_of
from lanes.cli.usage import ExitCode
from lanes.cli.watch import parse_interval, readings
from lanes.errors import LanesError
from lanes.operate.cached import Cached
from lanes.operate.lanes.check import Check
from lanes.operate.lanes.figures import DepthTrend
from lanes.operate.lanes.findings import Verdict
from lanes.operate.lanes.status import OUTBOX_LASTS, StatusReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lanes.aws.stack.operations import Operations
    from lanes.operate.history.recent import Failure, RecentWork, Running
    from lanes.operate.history.resources import AwayResource
    from lanes.operate.history.symptoms import Symptom
    from lanes.operate.lanes.status import BlockedGroup, LaneStatus


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
    Show the faults, then backlog, throughput, waits and mapping state of each lane, highest first, and the engine.

    Each fault comes with its page of the runbook.

    With the pull engine a lane's mapping is that of the bell, and Disabled if the lane is paused; the bell's own line
    shows its rings.

    No message is received. Each table names its source, its span and its age; a figure that no source has yet is
    "not yet". Messages are counted now. The trend is the change of waiting and in flight since an earlier count: with
    --watch one of the last minute, otherwise the latest in CloudWatch.

    Age, rates, yields and inversion come from CloudWatch, over five minutes; waits, running invocations, failures and
    resources that are away from the function's log, some seconds late.
    """
    every = parse_interval(interval)
    target = target_of(context)
    operations = operations_of(context)
    read = _Reader(operations).read
    if watch:
        seen = readings(read, every=every, times=times)
        _watch(seen, output=target.output)
        return
    found = read()
    if target.output is Output.JSON:
        show_json(_records(found))
        say(found.status.engine_line)
    else:
        out = console()
        out.print(tables_of(found, out))
    for note in found.notes:
        say(f"note: {note}")


class _Reader:
    def __init__(self, operations: Operations) -> None:
        self._status = StatusReader(
            config=operations.deployment.config,
            depths=operations.depths,
            mappings=operations.mappings,
            figures=operations.figures.read,
            trend=DepthTrend(),
            outbox=Cached(operations.outbox_status, lasts=OUTBOX_LASTS).get,
        )
        self._work = Cached(
            lambda: operations.recent_work(operations.logs()).read(), lasts=timedelta(seconds=10)
        )

    def read(self) -> Reading:
        work, notes = None, list[str]()
        try:
            work = self._work.get()
            notes += work.notes
        except LanesError as error:
            notes.append(
                "waits, failures, running invocations, resources away and messages without a handler unknown: "
                f"{' '.join(str(error).split())}"
            )
        status = self._status.read(work)
        return Reading(status=status, work=work, notes=[*status.notes, *notes])


def _watch(seen: Iterator[Reading], *, output: Output) -> None:
    """Refresh the tables on a terminal; otherwise print tables or a JSON document for each reading."""
    out = console()
    if output is Output.JSON:
        for found in seen:
            show_json(_records(found))
    elif not out.is_terminal:
        for found in seen:
            out.print(tables_of(found, out))
    else:
        # Redrawn after each reading alone; by itself rich redraws an old table four times a second.
        with Live(console=out, auto_refresh=False) as live:
            for found in seen:
                live.update(tables_of(found, out), refresh=True)


def _records(found: Reading) -> list[dict[str, Any]]:
    """Return the JSON records; durations become seconds, unknown values null."""
    at, symptoms = found.status.at, found.symptoms
    return [_record(lane, at, found.work, symptoms) for lane in found.status.lanes]


def _record(
    lane: LaneStatus, at: float, work: RecentWork | None, symptoms: Sequence[Symptom]
) -> dict[str, Any]:
    waits = [] if work is None else [one for one in work.waits if one.lane == lane.lane]
    all_kinds = next((one for one in waits if not one.kind), None)
    running = None if work is None or work.running is None else work.running
    return {
        "lane": lane.lane,
        "symptoms": [{"code": one.page, "text": one.text} for one in symptoms if one.lane in ("", lane.lane)],
        "counted_at": moment(at),
        "waiting": lane.waiting,
        "in_flight": lane.in_flight,
        "parked": lane.parked,
        "blocked_groups": None
        if lane.blocked is None
        else [
            {**_fields(one, without="lane"), "since": moment(one.since), "next_at": moment(one.next_at)}
            for one in lane.blocked
        ],
        "figures_since": moment(lane.figures.since),
        "figures_until": moment(lane.figures.until),
        "oldest_age": lane.figures.oldest_age,
        "handled_per_minute": lane.figures.pace,
        "dead_lettered_per_minute": lane.figures.dead,
        "leaving_per_minute": lane.figures.leaving,
        "sent_per_minute": lane.figures.arrivals,
        "yields_per_minute": lane.figures.yields,
        "inversion_ms_per_minute": lane.figures.inversion,
        "waits_since": moment(None if work is None else work.since),
        "wait_p50": None if all_kinds is None else all_kinds.p50,
        "wait_p99": None if all_kinds is None else all_kinds.p99,
        "drain": lane.drain.replace(" ", "_"),
        "growth_per_minute": None if lane.growth is None else lane.growth.per_minute,
        "growth_over": None if lane.growth is None else lane.growth.over,
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
        "failures_since": moment(None if work is None else work.failed_since),
        "failures": None
        if work is None
        else [_fields(one, without="lane") for one in work.failures if one.lane == lane.lane],
        "tried_since": moment(None if work is None else work.tried_since),
        "resources_away": None
        if work is None
        else [_fields(one, without="lanes") for one in work.away if lane.lane in one.lanes],
    }


def _fields(value: Running | Failure | AwayResource | BlockedGroup, *, without: str) -> dict[str, Any]:
    return {name: field for name, field in dataclasses.asdict(value).items() if name != without}


def check(context: typer.Context) -> None:
    """
    Check queues, mappings, concurrency and heartbeat for changes since the deployment, and advise on each finding.

    Changes nothing. A finding that can't be checked is `unknown`. Exit code 3: a finding is `wrong`.
    """
    target = target_of(context)
    operations = operations_of(context)
    findings = Check(deployment=operations.deployment, state=operations.state).run()
    rows = [dataclasses.asdict(finding) for finding in findings]
    show_rows(target, rows, empty="nothing to check")
    counts = {verdict: sum(one.verdict is verdict for one in findings) for verdict in Verdict}
    say(", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count))
    if counts[Verdict.WRONG]:
        raise typer.Exit(ExitCode.NO)
