"""Verbs of `lanes dead-letters` about groups that are held behind a dead letter."""

from __future__ import annotations

from typing import Annotated

import typer

from lanes.cli.operating import DryRun, LaneName, Yes, lane_called, operations_of
from lanes.cli.place import place_of
from lanes.cli.printing import confirm, moment, say, show_one, show_rows
from lanes.errors import ConfigurationError
from lanes.operate.audit import audited

OneLane = Annotated[str | None, typer.Argument(metavar="[LANE]", help="The lane; all lanes without.")]
TheGroup = Annotated[str, typer.Option("--group", help="The group.")]


def held(context: typer.Context, lane: OneLane = None) -> None:
    """List groups whose later messages follow a dead letter, those held longest first."""
    operations = operations_of(context)
    name = None if lane is None else lane_called(operations, lane)
    rows = [
        {
            "lane": hold.lane,
            "group": hold.group,
            "behind": hold.id,
            "reason": hold.reason,
            "since": moment(hold.since),
            "followed": hold.behind,
            "ends": "with the last redriven one" if hold.releasing else "by redrive or release",
        }
        for hold in operations.holds.held(name)
    ]
    show_rows(place_of(context), rows, nothing="no group is held")


def release(
    context: typer.Context,
    lane: LaneName,
    *,
    group: TheGroup,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """
    Let a held group go without its dead letters: what comes later is handled again.

    Its dead letters stay; redriven afterwards, they come behind what was handled meanwhile. `redrive` instead brings
    them back first and releases the group by itself.
    """
    place, operations = place_of(context), operations_of(context)
    name = lane_called(operations, lane)
    hold = operations.holds.read(name, [group]).get(group)
    if hold is None:
        raise ConfigurationError([f"group {group!r} of {name} is not held"], source="dead letters")
    say(
        f"held behind {hold.id} ({hold.reason}), which {hold.behind} have followed into the dead-letter queue"
    )
    released = False
    if not dry_run:
        confirm(
            f"{place.stack_name}: handle what comes in group {group} of {name} from now on, before its dead letters?",
            yes=yes,
        )
        with audited(operations.audit, "dead-letters release", name, details={"group": group}) as noted:
            noted["released"] = released = operations.holds.end(name, group)
    show_one(place, {"lane": name, "group": group, "behind": hold.id, "released": released})
