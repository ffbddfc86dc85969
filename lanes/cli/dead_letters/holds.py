"""Verbs of `lanes dead-letters` for groups that a dead letter holds."""

from __future__ import annotations

from typing import Annotated

import typer

from lanes.cli.arguments import DryRun, LaneName, Yes, lane_named, operations_of
from lanes.cli.printing import confirm, moment, say, show_one, show_rows
from lanes.cli.target import target_of
from lanes.errors import ConfigurationError
from lanes.operate.dead_letters.listing import reason_code
from lanes.operate.history.audit import audited

OneLane = Annotated[
    str | None, typer.Argument(metavar="LANE", help="Name of the lane; all lanes if you leave it out.")
]
TheGroup = Annotated[str, typer.Option("--group", help="Release this group.")]


def held(context: typer.Context, lane: OneLane = None) -> None:
    """List the groups that a dead letter holds, the longest held first."""
    operations = operations_of(context)
    name = None if lane is None else lane_named(operations, lane)
    rows = [
        {
            "lane": hold.lane,
            "group": hold.group,
            "behind": hold.id,
            "code": reason_code(hold.reason),
            "reason": hold.reason,
            "since": moment(hold.since),
            "followed": hold.behind,
            "state": hold.state.value,
        }
        for hold in operations.holds.held(name)
    ]
    show_rows(target_of(context), rows, empty="no group is held")


def release(
    context: typer.Context,
    lane: LaneName,
    *,
    group: TheGroup,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """
    Release a held group without its dead letters, so that its later messages are handled.

    The dead letters stay; a later redrive puts them after the messages handled meanwhile. To keep the order, use
    `redrive` instead: it sends the dead letters first and then releases the group.
    """
    target, operations = target_of(context), operations_of(context)
    name = lane_named(operations, lane)
    hold = operations.holds.read(name, [group]).get(group)
    if hold is None:
        raise ConfigurationError(
            [f"group {group!r} of {name} is not held; list held groups with `lanes dead-letters held`"],
            source="dead letters",
        )
    say(
        f"held behind {hold.id} ({hold.reason}); {hold.behind} more messages of the group are in the dead-letter queue"
    )
    released = False
    if not dry_run:
        confirm(
            f"{target.stack_name}: release group {group} of {name} before its dead letters?",
            yes=yes,
        )
        with audited(operations.audit, "dead-letters release", name, details={"group": group}) as entry:
            entry["released"] = released = operations.holds.end(name, group)
    show_one(target, {"lane": name, "group": group, "behind": hold.id, "released": released})
