"""`lanes status` and `lanes check`: backlog and throughput of each lane, and problems of the deployment."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from lanes.cli.arguments import operations_of, parse_interval
from lanes.cli.printing import (
    console,
    format_value,
    layout,
    one_line,
    readings,
    say,
    show_json,
    show_rows,
)
from lanes.cli.target import ExitCode, Output, target_of
from lanes.errors import LanesError
from lanes.operate.check import Check, Verdict
from lanes.operate.descriptions import format_clock, format_seconds, moment
from lanes.operate.figures import DepthTrend, Drain
from lanes.operate.status import OUTBOX_LASTS, Cached, StatusReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console, RenderableType

    from lanes.aws.stack import Operations
    from lanes.operate.recent import Failure, RecentWork, Running
    from lanes.operate.status import BlockedGroup, LaneStatus, Status
    from lanes.operate.symptoms import AwayResource, Symptom


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

    Each fault comes with its section of the runbook.

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


# A screen; the page and `dead-letters list` show all.
MAX_FAILURES = 10


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One reading: the lanes, and their last minutes from the log; None if that can't be read."""

    status: Status
    work: RecentWork | None
    notes: Sequence[str]

    @property
    def symptoms(self) -> Sequence[Symptom]:
        """What is wrong now, those of the log first."""
        return [*(() if self.work is None else self.work.symptoms), *self.status.symptoms]


def tables_of(found: Reading, out: Console) -> RenderableType:
    """Return the tables of a reading for a console."""
    status = found.status
    parts: list[RenderableType] = [
        *(Text(one_line(str(one)), style="bold red") for one in found.symptoms),
        layout([_count_row(lane) for lane in status.lanes], out),
        Text(status.engine_line),
        _heading(
            f"counted at {_clock(status.at)}; blocked: groups behind a failing message; dead: dead letters"
        ),
    ]
    if blocked := [one for lane in status.lanes for one in lane.blocked or ()]:
        parts += [
            _heading("\nblocked groups"),
            layout([_blocked_row(one, status.at) for one in blocked], out),
        ]
    parts += [
        _heading(f"\n{_rates_heading(status)}"),
        layout([_rate_row(lane, is_read=status.figures_read) for lane in status.lanes], out),
    ]
    if found.work is not None:
        parts += _work_tables(found.work, status, out)
    return Group(*parts)


def _heading(text: str) -> Text:
    return Text(text, style="dim italic")


def _clock(at: float) -> str:
    return format_clock(at, near=at)


def _rates_heading(status: Status) -> str:
    figures = next((lane.figures for lane in status.lanes if lane.figures.until is not None), None)
    if figures is None:
        return "rates per minute from CloudWatch" + (": it has none yet" if status.figures_read else "")
    since, until = figures.since or 0.0, figures.until or 0.0
    span, late = format_seconds(round(until - since)), format_seconds(round(status.at - until))
    return (
        f"per minute in the {span} until {_clock(until)}, {late} ago, from CloudWatch; "
        "inversion: work while a higher lane waited"
    )


def _work_tables(work: RecentWork, status: Status, out: Console) -> Iterator[RenderableType]:
    now = status.at
    if work.waits:
        yield _heading(f"\nhandled, and their waits, in the {_span(now - work.since)}, from the log")
        yield layout(_wait_rows(work, status), out)
    if work.running:
        yield _heading("\nrunning invocations")
        yield layout([_running_row(one, now) for one in work.running], out)
    if work.failures:
        yield _heading(f"\nfailures of the {_span(now - work.failed_since)}, from the log")
        yield layout([_failure_row(one, now) for one in work.failures[:MAX_FAILURES]], out)
    if len(work.failures) > MAX_FAILURES:
        yield _heading(f"and {len(work.failures) - MAX_FAILURES} other errors")


def _span(seconds: float) -> str:
    # The log may have been read some seconds before the counts.
    return f"last {format_seconds(round(seconds))}"


def _wait_rows(work: RecentWork, status: Status) -> list[dict[str, Any]]:
    places = {lane.lane: place for place, lane in enumerate(status.lanes)}
    return [
        {
            "lane": wait.lane,
            "kind": wait.kind or "all",
            "handled": wait.handled,
            "wait p50": format_seconds(wait.p50.total_seconds()),
            "wait p99": format_seconds(wait.p99.total_seconds()),
        }
        for wait in sorted(work.waits, key=lambda wait: (places.get(wait.lane, len(places)), wait.kind))
    ]


def _running_row(running: Running, now: float) -> dict[str, Any]:
    return {
        "environment": running.environment,
        "lane": running.lane or None,
        "records": running.records,
        "for": timedelta(seconds=max(0.0, now - running.since)),
        "last event": running.last,
    }


def _failure_row(failure: Failure, now: float) -> dict[str, Any]:
    return {
        "lane": failure.lane,
        "kind": failure.kind,
        "attempts": failure.attempts,
        "dead": failure.dead_letters,
        "last": timedelta(seconds=max(0.0, now - failure.last_at)),
        "error": failure.error,
    }


def _blocked_row(blocked: BlockedGroup, now: float) -> dict[str, Any]:
    return {
        "lane": blocked.lane,
        "group": blocked.group,
        "kind": blocked.kind,
        "id": blocked.id,
        "for": timedelta(seconds=max(0.0, now - blocked.since)),
        "next try in": timedelta(seconds=max(0.0, blocked.next_at - now)),
        "error": blocked.error,
    }


def _count_row(lane: LaneStatus) -> dict[str, Any]:
    return {
        "lane": lane.lane,
        "waiting": lane.waiting,
        "in flight": lane.in_flight,
        "parked": lane.parked,
        "blocked": None if lane.blocked is None else len(lane.blocked),
        "trend": _trend(lane),
        "mapping": lane.mapping,
        "dead": lane.dead_letters,
    }


def _trend(lane: LaneStatus) -> str:
    if lane.growth is None or lane.drain not in (Drain.GROWING, Drain.FALLING, Drain.STEADY):
        return str(lane.drain)
    change = "" if lane.drain is Drain.STEADY else f" {lane.growth.per_minute:+,.0f}/min"
    text = f"{lane.drain}{change} in {format_seconds(round(lane.growth.over))}"
    return text if lane.time_to_drain is None else f"{text}, empty in {format_value(lane.time_to_drain)}"


def _rate_row(lane: LaneStatus, *, is_read: bool) -> dict[str, Any]:
    figures = lane.figures
    inversion = None if figures.inversion is None else format_seconds(figures.inversion / 1000)
    values: dict[str, Any] = {
        "oldest": "none" if lane.waiting + lane.in_flight == 0 else figures.oldest_age,
        "handled": figures.pace,
        "dead-lettered": figures.dead,
        "sent": figures.arrivals,
        "yields": figures.yields,
        "inversion": inversion,
    }
    # Unknown is what could not be read; a note says why.
    absent = str(Drain.NOT_YET) if is_read else None
    return {"lane": lane.lane} | {name: absent if value is None else value for name, value in values.items()}
