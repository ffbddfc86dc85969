"""`lanes pause` and `lanes resume`: stop and start what takes messages out of a lane."""

from __future__ import annotations

import typer  # noqa: TC002 - Typer reads the annotations

from lanes.cli.operating import DryRun, LaneName, lane_called, operations_of
from lanes.cli.place import place_of
from lanes.cli.printing import say, show_one
from lanes.operate.audit import audited
from lanes.operate.mappings import DISABLED, ENABLED, switch, the_mapping


def pause(context: typer.Context, lane: LaneName, *, dry_run: DryRun = False) -> None:
    """
    Stop taking messages out of a lane, and wait until that holds.

    Its messages stay in the queue, and new ones are accepted. Batches that run are finished. Lower lanes go on after
    about a second: what nobody takes does not hold them back. A later deploy leaves the lane paused.
    """
    _switch(context, lane, enabled=False, dry_run=dry_run)


def resume(context: typer.Context, lane: LaneName, *, dry_run: DryRun = False) -> None:
    """Take messages out of a paused lane again, and wait until that holds."""
    _switch(context, lane, enabled=True, dry_run=dry_run)


def _switch(context: typer.Context, name: str, *, enabled: bool, dry_run: bool) -> None:
    place = place_of(context)
    operations = operations_of(context)
    lane = lane_called(operations, name)
    verb, wanted = ("resume", ENABLED) if enabled else ("pause", DISABLED)
    before = the_mapping(operations.mappings, lane)
    if before.state == wanted:
        say(f"{lane} is {wanted} already; nothing was changed")
    elif dry_run:
        say(f"would {verb} {lane}: mapping {before.uuid} is {before.state} and would become {wanted}")
    else:
        with audited(operations.audit, verb, lane, details={"mapping": before.uuid, "before": before.state}):
            after = switch(
                operations.mappings,
                lane,
                enabled=enabled,
                report=lambda state: say(f"{lane} is {state}"),
            )
        show_one(place, {"lane": lane, "mapping": after.state, "before": before.state})
        return
    show_one(place, {"lane": lane, "mapping": before.state, "before": before.state})
