"""`lanes schedules` and `lanes scheduled`: periodic messages, and messages for later."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from lanes.cli.arguments import DryRun, operations_of
from lanes.cli.printing import say, show_one, show_rows
from lanes.cli.target import target_of
from lanes.operate.history.audit import audited
from lanes.operate.schedules import cancel as cancel_later
from lanes.operate.schedules import later_named, later_rows, periodic_named, read, send_now
from lanes.runs import Ends
from lanes.scheduled import LATER, PERIODIC

SOURCE = "lanes send"
app = typer.Typer(no_args_is_help=True, help="List, pause and run the periodic messages of lanes.toml.")
scheduled = typer.Typer(no_args_is_help=True, help="List, cancel and send messages for later (`not_before`).")
Name = Annotated[str, typer.Argument(metavar="SCHEDULE", help="Name of the schedule.")]
Id = Annotated[
    str, typer.Argument(metavar="ID", help="Id of the message, or its name in Scheduler, which is quicker.")
]


@app.command("list")
def list_(context: typer.Context) -> None:
    """List the schedules with their last and next times, which Scheduler meets within a minute."""
    now = datetime.now(UTC)
    rows = [one.row(now) for one in read(operations_of(context).schedules, PERIODIC)]
    show_rows(
        target_of(context), rows, empty="there is no schedule; write [[schedules]] in lanes.toml and deploy"
    )


@app.command()
def pause(context: typer.Context, name: Name, *, dry_run: DryRun = False) -> None:
    """
    Stop a schedule until it is resumed.

    Messages that it has sent are handled. A later deploy leaves it paused unless it changes the schedule.
    """
    _switch(context, name, enabled=False, dry_run=dry_run)


@app.command()
def resume(context: typer.Context, name: Name, *, dry_run: DryRun = False) -> None:
    """Start a paused schedule again; the messages that were due meanwhile are not sent."""
    _switch(context, name, enabled=True, dry_run=dry_run)


@app.command()
def run(context: typer.Context, name: Name, *, dry_run: DryRun = False) -> None:
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
