"""`lanes prioritize`, `cancel`, `overrides`, `pause` and `resume`: change what waits."""

from __future__ import annotations

import enum
from collections.abc import Callable  # noqa: TC003 - Typer reads the annotations
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lanes.cli.arguments import (
    DryRun,
    Everything,
    LaneName,
    Latest,
    NewPriority,
    OfRun,
    StartingAt,
    Yes,
    duration,
    filter_of,
    lane_named,
    operations_of,
    read_time,
    require_filter,
    takes,
)
from lanes.cli.outbox import show_preview
from lanes.cli.printing import busy, confirm, say, show_one, show_rows
from lanes.cli.relay import Database, OutboxTarget, Table
from lanes.cli.target import Output, UsageError, target_of
from lanes.message_filter import MessageFilter  # noqa: TC001 - Typer reads the annotations
from lanes.operate.descriptions import moment
from lanes.operate.move import Change, Move, override_named, withdraw_override
from lanes.operate.pause import DISABLED, ENABLED, PAUSE, RESUME, others_stay, switch, the_mapping
from lanes.overrides import Action, Override

if TYPE_CHECKING:
    from lanes.cli.target import Target
    from lanes.config import LanesConfig
    from lanes.operate.move import Found, Moved


class Waiting(enum.StrEnum):
    """Where work can wait."""

    LANES = "lanes"
    OUTBOX = "outbox"
    BOTH = "both"


In = Annotated[
    Waiting, typer.Option("--in", help="Change messages in the lanes, entries in the outbox, or both.")
]
Why = Annotated[str, typer.Option(help="Record this reason with the change in the lanes.")]
Lasts = Annotated[str, typer.Option("--for", help="Keep looking for messages in the lanes for this long.")]


def _how(
    *,
    run: OfRun = None,
    everything: Everything = False,
    waiting: In = Waiting.BOTH,
    why: Why = "",
    lasts: Lasts = "14d",
    database: Database = None,
    table: Table = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> Callable[..., None]:
    """Return `_carry_out` with the options that both verbs have."""

    def carry_out(context: typer.Context, action: Action, wanted: MessageFilter, priority: int = 0) -> None:
        wanted, lifetime = replace(wanted, run=run), duration(lasts, "--for")
        change = Change(action=action, wanted=wanted, priority=priority, why=why, lifetime=lifetime)
        outbox = OutboxTarget(stack=target_of(context), database=database, table=table)
        _carry_out(context, outbox, change, waiting, everything=everything, yes=yes, dry_run=dry_run)

    return carry_out


@takes(wanted=filter_of, carry_out=_how)
def prioritize(
    context: typer.Context, priority: NewPriority, *, wanted: MessageFilter, carry_out: Callable[..., None]
) -> None:
    """
    Give waiting work another priority and move it to the lane of that priority.

    Entries in the outbox change at once. A message in a lane changes when it is next received; later messages of its
    group, also redriven ones, follow it.
    """
    carry_out(context, Action.PRIORITIZE, wanted, priority)


@takes(wanted=filter_of, carry_out=_how)
def cancel(context: typer.Context, *, wanted: MessageFilter, carry_out: Callable[..., None]) -> None:
    """
    Cancel waiting work for good: it is recorded and never handled.

    Entries in the outbox are cancelled at once; only `lanes outbox retry --id` sends one all the same. An abandoned
    entry that holds its group is cancelled too, and its group goes on. A message in a lane is cancelled when it is next
    received. Messages sent, and dead letters redriven, after the command are not affected.
    """
    carry_out(context, Action.CANCEL, wanted)


def _carry_out(
    context: typer.Context,
    outbox: OutboxTarget,
    change: Change,
    waiting: Waiting,
    *,
    everything: bool,
    yes: bool,
    dry_run: bool,
) -> None:
    """Show a preview, ask for confirmation, make the change and print its result."""
    # Before any call: a forgotten filter must not even be counted.
    require_filter(change.wanted, everything=everything)
    if change.why and waiting is Waiting.OUTBOX:
        problem = "an outbox records no reason; leave out --why, or change the lanes too with --in both"
        raise UsageError([problem], source="--why")
    if change.wanted.run is not None:
        if waiting is Waiting.OUTBOX:
            raise UsageError(["entries of an outbox belong to no run; leave out --in outbox"], source="--run")
        waiting = Waiting.LANES
    # An outbox in a SQL database has its own lanes.toml and audit: no call to AWS is needed to change it.
    operations = None if waiting is Waiting.OUTBOX else operations_of(context)
    config = outbox.config if operations is None else operations.deployment.config
    has_operator = waiting is Waiting.OUTBOX or (waiting is Waiting.BOTH and outbox.exists)
    move = Move(
        change,
        config=config,
        outbox=outbox.operator() if has_operator else None,
        queues=operations,
    )
    found = move.find()
    _show(found, change, outbox)
    if dry_run or found.is_nothing:
        show_one(outbox.stack, _answer(outbox.stack, found, None))
        return
    # The question names its target, since a shell may have another stage than you think.
    target = outbox.name if operations is None else operations.stack_name
    confirm(f"{target}: {_question(config, change)}", yes=yes)
    expected = found.preview.count if found.preview else 0
    moved = move.make(found, progress=lambda done: say(f"changed {done} of about {expected}"))
    if moved.override is not None:
        say(
            "a message in a lane changes when it is received, one deep in its lane when those before it are done; "
            "`lanes overrides list` counts the messages so far"
        )
    show_one(outbox.stack, _answer(outbox.stack, found, moved))


def _show(found: Found, change: Change, outbox: OutboxTarget) -> None:
    if found.preview is not None:
        say(f"{outbox.name}:")
        show_preview(found.preview, found.entries)
    if found.queued is not None:
        counts = ", ".join(f"{lane} {count}" for lane, count in found.queued.items()) or "no other lane"
        say(
            f"lanes: {counts} messages wait; those that match ({change.wanted.describe()}) are found when received"
        )


def _question(config: LanesConfig, change: Change) -> str:
    if change.action is Action.CANCEL:
        return "cancel them for good?"
    return f"give them priority {change.priority} (lane {config.lane_for(change.priority).name})?"


def _answer(stack: Target, found: Found, moved: Moved | None) -> dict[str, Any]:
    """Return the result for each place; None for a place that was left alone, which a table leaves out."""
    override = moved.override if moved else None
    answer = {
        "entries_found": found.preview.count if found.preview else None,
        "entries_changed": moved.entries if moved else 0,
        "messages_waiting": sum(found.queued.values()) if found.queued is not None else None,
        "override": override.id if override else None,
        "applies_to_receives_from": moment(moved.applies_from) if moved else None,
        "expires": moment(override.expires_at) if override else None,
    }
    if stack.output is Output.JSON:
        return answer
    return {name: value for name, value in answer.items() if value is not None}


overrides_app = typer.Typer(
    no_args_is_help=True,
    help="List and withdraw the overrides that `prioritize` and `cancel` created for messages in lanes.",
)


@overrides_app.command("list")
def list_(context: typer.Context) -> None:
    """
    List the active overrides, the latest first, with the number of messages that each has cancelled or moved.

    Cancelled messages are counted in the consumer's table, moved ones in the function's log.
    """
    operations = operations_of(context)
    active = operations.overrides.active()
    for unread in active.unread:
        say(
            f"note: this release can't read override {unread}; `lanes overrides withdraw {unread}` removes it"
        )
    with busy(lambda: "counting the messages of the overrides"):
        met = operations.overrides_met(note=lambda text: say(f"note: {text}"))
    target = target_of(context)
    rows = [_row(override, met.get(override.id), output=target.output) for override in active.overrides]
    show_rows(target, rows, empty="no override is active")


@overrides_app.command()
def withdraw(
    context: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="Id of the override.")],  # noqa: A002
    *,
    dry_run: DryRun = False,
) -> None:
    """Withdraw an override, so that it changes no further messages. Changes already made stay."""
    operations = operations_of(context)
    if dry_run:
        override_named(operations.overrides, id)
    else:
        withdraw_override(operations, id)
    show_one(target_of(context), {"override": id, "withdrawn": not dry_run})


@overrides_app.command()
def cancelled(
    context: typer.Context,
    *,
    since: StartingAt = "7d",
    limit: Latest = 100,
) -> None:
    """List cancelled messages of the lanes with time, operator and reason."""
    found = operations_of(context).overrides.cancellations(since=read_time(since) or 0.0, limit=limit)
    rows = [
        {
            "at": moment(one.cancelled_at),
            "lane": one.lane,
            "id": one.id,
            "kind": one.kind,
            "group": one.group,
            "message_id": one.message_id,
            "override": one.override,
            "who": one.who,
            "why": one.why,
        }
        for one in found
    ]
    show_rows(target_of(context), rows, empty="no message was cancelled in a lane")


def _row(override: Override, met: int | None, *, output: Output) -> dict[str, Any]:
    wanted = override.wanted
    return {
        "override": override.id,
        "action": override.action.value,
        "filter": wanted.to_dict() if output is Output.JSON else wanted.describe(),
        "priority": override.priority if override.action is Action.PRIORITIZE else "",
        "met": met,
        "who": override.who,
        "why": override.why,
        "created": moment(override.created_at),
        "expires": moment(override.expires_at),
    }


def pause(context: typer.Context, lane: LaneName, *, dry_run: DryRun = False) -> None:
    """
    Stop processing a lane, and wait until it has stopped.

    Messages stay in the queue, new ones are accepted, and running batches finish. Lower lanes no longer wait for the
    paused lane after about a second. A later deploy leaves the lane paused unless it changes the mapping; `lanes check`
    names a lane that a deploy has resumed. With the pull engine the command does not wait: slots stop to receive from
    the lane within a few seconds.
    """
    _switch(context, lane, enabled=False, dry_run=dry_run)


def resume(context: typer.Context, lane: LaneName, *, dry_run: DryRun = False) -> None:
    """Resume processing a paused lane, and wait until it has started."""
    _switch(context, lane, enabled=True, dry_run=dry_run)


def _switch(context: typer.Context, name: str, *, enabled: bool, dry_run: bool) -> None:
    target = target_of(context)
    operations = operations_of(context)
    lane = lane_named(operations, name)
    verb, wanted = (RESUME, ENABLED) if enabled else (PAUSE, DISABLED)
    before = the_mapping(operations.mappings, lane)
    for sentence in others_stay(operations.mappings, lane):
        say(sentence)
    if before.state == wanted:
        say(f"{lane} is {wanted} already; nothing was changed")
    elif dry_run:
        say(f"would {verb} {lane}: it is {before.state} and would become {wanted}")
    else:
        after = switch(
            operations.mappings,
            lane,
            enabled=enabled,
            audit=operations.audit,
            report=lambda state: say(f"{lane} is {state}"),
        )
        show_one(target, {"lane": lane, "mapping": after.state, "before": before.state})
        return
    show_one(target, {"lane": lane, "mapping": before.state, "before": before.state})
