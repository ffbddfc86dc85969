"""`lanes overrides`: what stands on the board for messages in queues, and what became of some."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lanes.cli.operating import DryRun, moment_given, operations_of
from lanes.cli.place import place_of
from lanes.cli.printing import moment, say, show_one, show_rows
from lanes.config_table import nearest
from lanes.consumer.overrides import Action, Override
from lanes.errors import ConfigurationError
from lanes.operate.audit import audited

app = typer.Typer(
    no_args_is_help=True,
    help="See and withdraw what `prioritize` and `cancel` have asked of messages in queues, and what was cancelled.",
)


@app.command("list")
def list_(context: typer.Context) -> None:
    """List the overrides that stand, the latest first."""
    board = operations_of(context).overrides.board()
    for unread in board.unread:
        say(
            f"note: this release can't read {unread}; `lanes overrides withdraw {unread}` takes it off the board"
        )
    rows = [_row(override) for override in board.overrides]
    show_rows(place_of(context), rows, nothing="no override stands")


@app.command()
def withdraw(
    context: typer.Context,
    id: Annotated[str, typer.Argument(help="Id of the override.")],  # noqa: A002
    *,
    dry_run: DryRun = False,
) -> None:
    """Take an override off the board: what it has not met yet stays as it is. What it did is not undone."""
    operations = operations_of(context)
    board = operations.overrides.board()
    found = [override for override in board.overrides if override.id == id]
    if not found and id not in board.unread:
        known = nearest(id, [override.id for override in board.overrides])
        raise ConfigurationError([f"no override {id!r} stands{known}"], source="overrides")
    details = {"override": id, "filter": found[0].wanted.to_dict() if found else None}
    if not dry_run:
        with audited(operations.audit, "overrides withdraw", id, details=details):
            operations.overrides.withdraw(id)
    show_one(place_of(context), {"override": id, "withdrawn": not dry_run})


@app.command()
def cancelled(
    context: typer.Context,
    *,
    since: Annotated[str, typer.Option(help="From when on: a time, or an age such as 2h.")] = "7d",
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the latest.")] = 100,
) -> None:
    """List messages that were cancelled in queues: which, when, by whom and why."""
    found = operations_of(context).overrides.cancellations(since=moment_given(since) or 0.0, limit=limit)
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
    show_rows(place_of(context), rows, nothing="no message was cancelled in a queue")


def _row(override: Override) -> dict[str, Any]:
    return {
        "override": override.id,
        "action": override.action.value,
        "filter": override.wanted.words(),
        "priority": override.priority if override.action is Action.PRIORITIZE else "",
        "who": override.who,
        "why": override.why,
        "created": moment(override.created_at),
        "expires": moment(override.expires_at),
    }
