"""`lanes runs`, `schedules` and `scheduled`."""

from __future__ import annotations

import math
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import TextColumn

from lanes.cli.arguments import DryRun, Latest, duration, operations_of, parse_interval, read_time
from lanes.cli.printing import progress_bar, readings, say, show_one, show_rows
from lanes.cli.target import ExitCode, Output, Target, target_of
from lanes.operate.audit import audited
from lanes.operate.descriptions import format_seconds, moment
from lanes.operate.runs import RunRate, find_run, rate_so_far, read_progress, row_of
from lanes.operate.schedules import cancel as cancel_later
from lanes.operate.schedules import later_named, later_rows, periodic_named, read, send_now
from lanes.runs import Ends
from lanes.schedules import LATER, PERIODIC

if TYPE_CHECKING:
    from lanes.aws.stack import Operations
    from lanes.operate.runs import Progress as Reading
    from lanes.runs import Head

runs_app = typer.Typer(
    no_args_is_help=True,
    help="Follow runs of messages (`producer.run`, and bulk jobs with --follow) to their end.",
)
RunName = Annotated[str, typer.Argument(metavar="RUN", help="Name of the run.")]
Exact = Annotated[
    bool, typer.Option("--exact", help="Read every part of a large run, not a sample; costs more time.")
]


@runs_app.command("list")
def list_runs(
    context: typer.Context,
    *,
    since: Annotated[
        str, typer.Option(help="List those opened since this time: ISO 8601, or an age such as 2h.")
    ] = "7d",
    limit: Latest = 100,
) -> None:
    """List runs, the latest first; `lanes runs show RUN` counts the messages of one."""
    heads = operations_of(context).runs.heads(since=read_time(since) or 0.0, limit=limit)
    show_rows(target_of(context), [_times_of(head) for head in heads], empty="no run was opened in this time")


@runs_app.command()
def show(context: typer.Context, run: RunName, *, exact: Exact = False) -> None:
    """
    Show how far a run is. Its rate is that of the whole time since it was opened.

    Exit code 3: it has ended with dead letters, or was closed with messages left or before all were sent.
    """
    reading = _read(operations_of(context), run, exact=exact)
    _show(target_of(context), reading, rate_so_far(reading, time.time()))
    if reading.is_over and reading.has_failed:
        raise typer.Exit(ExitCode.NO)


@runs_app.command()
def watch(
    context: typer.Context,
    run: RunName,
    *,
    interval: Annotated[str, typer.Option(metavar="DURATION", help="Read it so often.")] = "2s",
    timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Stop waiting after this time, such as 2h.")
    ] = None,
    exact: Exact = False,
) -> None:
    """
    Wait for the end of a run, with a bar in a terminal and lines elsewhere. Its rate is that of the last minute.

    Exit codes: 0 it has ended without dead letters, 3 it has ended with some, or was closed with messages left or
    before all were sent, 4 it has not ended in time.
    """
    every = parse_interval(interval)
    seconds = math.inf if timeout is None else duration(timeout, "--timeout").total_seconds()
    operations, target = operations_of(context), target_of(context)
    reading, rate = _follow(operations, run, exact=exact, every=every, within=seconds)
    _show(target, reading, rate)
    if not reading.is_over:
        say(f"{run} has not ended within {timeout}")
        raise typer.Exit(ExitCode.NOT_IN_TIME)
    if reading.has_failed:
        raise typer.Exit(ExitCode.NO)


@runs_app.command()
def close(
    context: typer.Context,
    run: RunName,
    *,
    why: Annotated[str, typer.Option(help="The reason, for the audit trail.")],
    dry_run: DryRun = False,
) -> None:
    """Close a run that will never end, since SQS deleted messages of it, say. Nothing announces its end."""
    operations = operations_of(context)
    head = find_run(operations.runs, run)
    if head.ended_at or head.closed_at:
        say(f"{run} is {head.state} already; nothing was changed")
    elif dry_run:
        say(f"would close {run}, which is {head.state}")
    else:
        who = operations.audit.who()
        with audited(operations.audit, "runs close", run, details={"why": why}):
            operations.runs.close(run, who=who, why=why)
        head = find_run(operations.runs, run)
    show_one(target_of(context), _times_of(head))


def _read(operations: Operations, name: str, *, exact: bool) -> Reading:
    return read_progress(operations.runs, find_run(operations.runs, name), exact=exact)


def _follow(
    operations: Operations, name: str, *, exact: bool, every: float, within: float
) -> tuple[Reading, RunRate]:
    """Read until the run is over or the time is; return the last reading."""
    rate, said = RunRate(), ""
    is_terminal = sys.stderr.isatty()
    with progress_bar(TextColumn("{task.fields[rate]}")) as bar:
        task = bar.add_task(name, total=None, rate="")
        for reading in readings(lambda: _read(operations, name, exact=exact), every=every, within=within):
            rate.add(time.time(), reading.ended)
            text = _rate_text(reading, rate)
            error = f" ± {reading.errors.left:,}" if reading.errors.left else ""
            bar.update(
                task, total=reading.head.total, completed=reading.ended, rate=f"{error} {text}".strip()
            )
            of = "?" if reading.head.total is None else f"{reading.head.total:,}"
            line = f"{name} is {reading.head.state}: {reading.ended:,}{error} of {of}"
            if not is_terminal and line != said:
                said = line
                say(f"{line}, {text}" if text else line)
            if reading.is_over:
                break
    return reading, rate


def _rate_text(reading: Reading, rate: RunRate) -> str:
    eta = rate.eta(reading.left)
    parts = [] if rate.per_second is None else [f"{rate.per_second:.1f} a second"]
    parts += [] if not eta else [f"{format_seconds(eta)} left"]
    return ", ".join(parts)


def _show(target: Target, reading: Reading, rate: RunRate) -> None:
    row = row_of(reading, rate)
    if target.output is Output.TABLE:
        errors = row.pop("errors")
        row |= {
            name: f"{row[name]:,} ± {error:,}"
            for name, error in errors.items()
            if error and row[name] is not None
        }
    # People read an unknown ETA as one that is still to come; programs find every key.
    if reading.is_over and target.output is Output.TABLE:
        del row["eta"]
    show_one(target, row | {name: value for name, value in _times_of(reading.head).items() if value != ""})


def _times_of(head: Head) -> dict[str, Any]:
    times = {"opened": head.opened_at, "ended": head.ended_at, "closed": head.closed_at}
    row: dict[str, Any] = {"run": head.name, "state": head.state.value, "total": head.total}
    row |= {name: moment(at) if at else "" for name, at in times.items()}
    return row | {"who": head.who, "why": head.why}


SOURCE = "lanes send"
schedules_app = typer.Typer(
    no_args_is_help=True, help="List, pause and run the periodic messages of lanes.toml."
)
scheduled = typer.Typer(no_args_is_help=True, help="List, cancel and send messages for later (`not_before`).")
ScheduleName = Annotated[str, typer.Argument(metavar="SCHEDULE", help="Name of the schedule.")]
Id = Annotated[
    str, typer.Argument(metavar="ID", help="Id of the message, or its name in Scheduler, which is quicker.")
]


@schedules_app.command("list")
def list_schedules(context: typer.Context) -> None:
    """List the schedules with their last and next times, which Scheduler meets within a minute."""
    now = datetime.now(UTC)
    rows = [one.row(now) for one in read(operations_of(context).schedules, PERIODIC)]
    show_rows(
        target_of(context), rows, empty="there is no schedule; write [[schedules]] in lanes.toml and deploy"
    )


@schedules_app.command()
def pause(context: typer.Context, name: ScheduleName, *, dry_run: DryRun = False) -> None:
    """
    Stop a schedule until it is resumed.

    Messages that it has sent are handled. A later deploy leaves it paused unless it changes the schedule.
    """
    _switch(context, name, enabled=False, dry_run=dry_run)


@schedules_app.command()
def resume(context: typer.Context, name: ScheduleName, *, dry_run: DryRun = False) -> None:
    """Start a paused schedule again; the messages that were due meanwhile are not sent."""
    _switch(context, name, enabled=True, dry_run=dry_run)


@schedules_app.command()
def run(context: typer.Context, name: ScheduleName, *, dry_run: DryRun = False) -> None:
    """Send a schedule's message now, even while it is paused."""
    operations = operations_of(context)
    found = periodic_named(operations.schedules, name)
    if dry_run:
        say(f"would send {found.message.kind} to group {found.message.group}")
        return
    with audited(operations.audit, "schedules run", name, details={}) as details:
        now = datetime.now(UTC)
        details["id"] = send_now(found, operations.producer(source=SOURCE), now=now)
    show_one(target_of(context), {"schedule": name, "id": details["id"]})


def _switch(context: typer.Context, name: str, *, enabled: bool, dry_run: bool) -> None:
    operations = operations_of(context)
    found = periodic_named(operations.schedules, name)
    verb, state = ("resume", "on") if enabled else ("pause", "paused")
    if found.is_on == enabled:
        say(f"{name} is {state} already; nothing was changed")
    elif dry_run:
        say(f"would {verb} {name}")
    else:
        with audited(operations.audit, f"schedules {verb}", name, details={}):
            operations.schedules.switch(found.settings, enabled=enabled)
        found = periodic_named(operations.schedules, name)
    show_one(target_of(context), found.row(datetime.now(UTC)))


@scheduled.command("list")
def list_scheduled(
    context: typer.Context,
    *,
    limit: Annotated[int, typer.Option(min=1, help="List at most this many; each takes a call.")] = 100,
) -> None:
    """List messages for later by their times. Those of an outbox are in `lanes outbox list`."""
    rows, has_more = later_rows(operations_of(context).schedules, limit=limit)
    show_rows(target_of(context), rows, empty="no message for later waits")
    if has_more:
        say(f"more than {limit} wait, and the next ones may not be among these; give a higher --limit")


@scheduled.command()
def cancel(context: typer.Context, message: Id, *, dry_run: DryRun = False) -> None:
    """Cancel a message for later: it is never sent."""
    operations = operations_of(context)
    found = later_named(operations.schedules, message)
    row = found.later_row()
    if dry_run:
        say(f"would cancel {found.message.id}, due at {row['not_before']}")
    else:
        with audited(operations.audit, "scheduled cancel", found.message.id, details=row) as details:
            producer = operations.producer(source=SOURCE)
            ends = Ends(table=operations.runs, announce=lambda message: producer.send_many([message]))
            details["was_there"] = cancel_later(found, operations.schedules, ends)
        if not details["was_there"]:
            say(f"{found.message.id} was sent in this moment; cancel it with `lanes cancel`")
    show_one(target_of(context), row)


@scheduled.command("send-now")
def send_now_(context: typer.Context, message: Id, *, dry_run: DryRun = False) -> None:
    """Send a message for later now."""
    operations = operations_of(context)
    found = later_named(operations.schedules, message)
    row = found.later_row()
    if dry_run:
        say(f"would send {found.message.id}, due at {row['not_before']}")
    else:
        with audited(operations.audit, "scheduled send-now", found.message.id, details=row):
            send_now(found, operations.producer(source=SOURCE), now=datetime.now(UTC))
            # After it: if this command dies between the two, the message comes again when it is due, with its id.
            operations.schedules.delete(LATER + found.name)
    show_one(target_of(context), row)
