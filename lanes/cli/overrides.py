"""`lanes overrides`: list and withdraw overrides, and list cancelled messages."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lanes.cli.arguments import DryRun, Latest, StartingAt, operations_of, read_time
from lanes.cli.busy import busy
from lanes.cli.printing import moment, say, show_one, show_rows
from lanes.cli.target import Output, target_of
from lanes.config.table import nearest
from lanes.errors import ConfigurationError
from lanes.operate.history.audit import audited
from lanes.overrides import Action, Override

app = typer.Typer(
    no_args_is_help=True,
    help="List and withdraw the overrides that `prioritize` and `cancel` created for messages in lanes.",
)


@app.command("list")
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


@app.command()
def withdraw(
    context: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="Id of the override.")],  # noqa: A002
    *,
    dry_run: DryRun = False,
) -> None:
    """Withdraw an override, so that it changes no further messages. Changes already made stay."""
    operations = operations_of(context)
    active = operations.overrides.active()
    found = [override for override in active.overrides if override.id == id]
    # An override of a later release can be withdrawn too: it may be the reason for the call.
    if not found and id not in active.unread:
        known = nearest(id, [override.id for override in active.overrides])
        raise ConfigurationError(
            [f"no override {id!r} is active{known}; list them with `lanes overrides list`"],
            source="overrides",
        )
    details = {"override": id, "filter": found[0].wanted.to_dict() if found else None}
    if not dry_run:
        with audited(operations.audit, "overrides withdraw", id, details=details):
            operations.overrides.withdraw(id)
    show_one(target_of(context), {"override": id, "withdrawn": not dry_run})


@app.command()
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
