"""`lanes prioritize` and `lanes cancel`: one command over outbox entries and queued messages alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lanes.cli.filter_options import Chosen, Everything, takes_filter
from lanes.cli.operating import DryRun, NewPriority, Yes, duration, operations_of
from lanes.cli.outbox_change_verbs import show_preview
from lanes.cli.outbox_place import Database, OutboxPlace, Table
from lanes.cli.place import place_of
from lanes.cli.printing import confirm, moment, say, show_one
from lanes.consumer.overrides import Action
from lanes.operate.moving import QUEUED, STATES, Move
from lanes.operate.overrides import Change

if TYPE_CHECKING:
    from lanes.aws.operations import Operations
    from lanes.operate.moving import Found, Moved

Why = Annotated[str, typer.Option(help="Why, for the record.")]
Lasts = Annotated[str, typer.Option("--for", help="For how long messages in queues are looked for.")]


@takes_filter
def prioritize(
    context: typer.Context,
    priority: NewPriority,
    *,
    chosen: Chosen,
    everything: Everything = False,
    why: Why = "",
    lasts: Lasts = "14d",
    database: Database = None,
    table: Table = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """
    Give what waits another priority, higher or lower, and with it another lane.

    Entries of the outbox at once, messages in queues when they are next received; the later ones of their group follow.
    """
    change = Change(
        action=Action.PRIORITIZE,
        wanted=chosen.wanted,
        priority=priority,
        why=why,
        lasts=duration(lasts),
    )
    where = OutboxPlace(place=place_of(context), database=database, table=table)
    _carry_out(context, where, change, chosen, everything=everything, yes=yes, dry_run=dry_run)


@takes_filter
def cancel(
    context: typer.Context,
    *,
    chosen: Chosen,
    everything: Everything = False,
    why: Why = "",
    lasts: Lasts = "14d",
    database: Database = None,
    table: Table = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """
    Cancel what waits, for good: it is recorded and never handled.

    Entries of the outbox at once, messages in queues when they are next received. What is sent later is not meant.
    """
    change = Change(action=Action.CANCEL, wanted=chosen.wanted, why=why, lasts=duration(lasts))
    where = OutboxPlace(place=place_of(context), database=database, table=table)
    _carry_out(context, where, change, chosen, everything=everything, yes=yes, dry_run=dry_run)


def _carry_out(
    context: typer.Context,
    where: OutboxPlace,
    change: Change,
    chosen: Chosen,
    *,
    everything: bool,
    yes: bool,
    dry_run: bool,
) -> None:
    """Show what is meant and where, ask, do it, and tell what was done where."""
    states = chosen.among(STATES)
    chosen.require(everything=everything)
    operations = operations_of(context)
    has_outbox = where.database is not None or where.table is not None or where.deployment.outbox is not None
    move = Move(
        change,
        states=states,
        config=operations.deployment.config,
        operator=where.operator() if has_outbox and states != {QUEUED} else None,
        surroundings=operations,
    )
    found = move.look()
    _show(found, change, where)
    if dry_run or found.is_nothing:
        show_one(where.place, _answer(found, None))
        return
    confirm(f"{where.place.stack_name}: {_question(operations, change)}", yes=yes)
    expected = found.preview.count if found.preview else 0
    moved = move.make(found, progress=lambda done: say(f"{done} of about {expected} changed"))
    show_one(where.place, _answer(found, moved))


def _show(found: Found, change: Change, where: OutboxPlace) -> None:
    if found.preview is not None:
        say(f"{where.name}:")
        show_preview(found.preview, found.entries)
    if found.queued is not None:
        counts = ", ".join(f"{lane} {count}" for lane, count in found.queued.items()) or "no other lane"
        say(
            f"queues, where what is meant ({change.wanted.words()}) is found as it is received: waiting in {counts}"
        )


def _question(operations: Operations, change: Change) -> str:
    if change.action is Action.CANCEL:
        return "cancel what is meant, for good?"
    lane = operations.deployment.config.lane_for(change.priority).name
    return f"give what is meant priority {change.priority} (lane {lane})?"


def _answer(found: Found, moved: Moved | None) -> dict[str, Any]:
    """Say what was found and done where; None where it was not looked at."""
    override = moved.override if moved else None
    return {
        "entries_found": found.preview.count if found.preview else None,
        "entries_changed": moved.entries if moved else 0,
        "messages_waiting": sum(found.queued.values()) if found.queued is not None else None,
        "override": override.id if override else None,
        "takes_effect": moment(moved.takes_effect) if moved else None,
        "expires": moment(override.expires_at) if override else None,
    }
