"""`lanes pause` and `lanes resume`: stop and start the processing of a lane."""

from __future__ import annotations

import typer  # noqa: TC002 - Typer reads the annotations

from lanes.cli.arguments import DryRun, LaneName, lane_named, operations_of
from lanes.cli.printing import say, show_one
from lanes.cli.target import target_of
from lanes.operate.history.audit import audited
from lanes.operate.lanes.mappings import DISABLED, ENABLED, PAUSE, RESUME, others_stay, switch, the_mapping


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
        with audited(operations.audit, verb, lane, details={"mapping": before.uuid, "before": before.state}):
            after = switch(
                operations.mappings,
                lane,
                enabled=enabled,
                report=lambda state: say(f"{lane} is {state}"),
            )
        show_one(target, {"lane": lane, "mapping": after.state, "before": before.state})
        return
    show_one(target, {"lane": lane, "mapping": before.state, "before": before.state})
