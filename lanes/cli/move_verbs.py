"""`lanes prioritize` and `lanes cancel`: one command over outbox entries and queued messages alike."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lanes.cli.filter_options import Chosen, takes_filter
from lanes.cli.operating import DryRun, Yes, duration, operations_of
from lanes.cli.outbox_change_verbs import said_of, show_preview
from lanes.cli.outbox_place import Database, OutboxPlace, Table
from lanes.cli.place import place_of
from lanes.cli.printing import confirm, moment, say, show_one
from lanes.consumer.overrides import KNOWN_AFTER, Action
from lanes.operate.audit import audited
from lanes.operate.overrides import Change, override_for, waiting
from lanes.outbox.entry import WAITING, EntryState
from lanes.outbox.filter import EntryFilter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lanes.aws.operations import Operations
    from lanes.outbox.operate import Operator, Preview

QUEUED = "QUEUED"
STATES = (*(state.value for state in WAITING), QUEUED)

Everything = Annotated[
    bool, typer.Option("--all", help="Mean everything that waits; else a filter is needed.")
]
Why = Annotated[str, typer.Option(help="Why, for the record.")]
Lasts = Annotated[str, typer.Option("--for", help="For how long messages in queues are looked for.")]


@takes_filter
def prioritize(
    context: typer.Context,
    priority: Annotated[int, typer.Argument(help="The new priority; put -- before a negative one.")],
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What a change may concern: entries of an outbox, where there is one, and messages waiting by lane."""

    entries: EntryFilter
    operator: Operator | None
    preview: Preview | None
    queued: Mapping[str, int] | None

    @property
    def is_nothing(self) -> bool:
        return not (self.preview and self.preview.count) and self.queued is None


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
    if change.wanted.chooses_all and not everything:
        raise typer.BadParameter("say which: --id, --kind, --group, --source, priorities, or --all")
    operations = operations_of(context)
    found = _look(operations, where, change, states)
    _show(found, change, where)
    if dry_run or found.is_nothing:
        show_one(where.place, _answer(found))
        return
    confirm(_question(operations, change), yes=yes)
    asked: dict[str, Any] = {"filter": change.wanted.to_dict(), "why": change.why, "states": sorted(states)}
    if change.action is Action.PRIORITIZE:
        asked["to_priority"] = change.priority
    with audited(operations.audit, change.action, change.wanted.words(), details=asked) as noted:
        # The override first: what a relay publishes meanwhile is met by it.
        override = _put_up(operations, change, noted) if found.queued is not None else {}
        noted["entries"] = changed = _change_entries(found, change)
    show_one(where.place, _answer(found, changed=changed, **override))


def _look(operations: Operations, where: OutboxPlace, change: Change, states: frozenset[str]) -> _Found:
    entry_states = frozenset(EntryState(state) for state in states - {QUEUED})
    entries = EntryFilter.of(change.wanted, entry_states)
    has_outbox = where.database is not None or where.table is not None or where.deployment.outbox is not None
    operator = where.operator() if has_outbox and entry_states else None
    return _Found(
        entries=entries,
        operator=operator,
        preview=operator.preview(entries) if operator else None,
        queued=waiting(operations.deployment.config, operations.depths, change) if QUEUED in states else None,
    )


def _show(found: _Found, change: Change, where: OutboxPlace) -> None:
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


def _put_up(operations: Operations, change: Change, noted: dict[str, Any]) -> dict[str, Any]:
    board = operations.overrides
    override = override_for(change, who=operations.audit.who(), now=board.now())
    board.add(override)
    noted["override"] = override.id
    return {
        "override": override.id,
        "takes_effect": moment(override.created_at + KNOWN_AFTER),
        "expires": moment(override.expires_at),
    }


def _change_entries(found: _Found, change: Change) -> int:
    if found.operator is None or found.preview is None or not found.preview.count:
        return 0
    progress = said_of(found.preview)
    if change.action is Action.CANCEL:
        return found.operator.cancel(found.entries, progress=progress)
    return found.operator.prioritize(found.entries, change.priority, progress=progress)


def _answer(found: _Found, *, changed: int = 0, **override: Any) -> dict[str, Any]:
    """Say what was found and done where; None where it was not looked at."""
    return {
        "entries_found": found.preview.count if found.preview else None,
        "entries_changed": changed,
        "messages_waiting": sum(found.queued.values()) if found.queued is not None else None,
        "override": override.get("override"),
        "takes_effect": override.get("takes_effect"),
        "expires": override.get("expires"),
    }
