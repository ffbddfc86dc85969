"""`lanes rollback`: go back to an earlier version of the function."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lanes.cli.arguments import DryRun, Yes, operations_of
from lanes.cli.printing import confirm, say, show_one, show_rows
from lanes.cli.target import target_of
from lanes.operate.history.audit import audited
from lanes.operate.lanes.releases import Release, release_to_return_to


def rollback(
    context: typer.Context,
    *,
    to: Annotated[
        int | None, typer.Option(help="Go to this version instead of the one before.", min=1)
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """
    Go back to the version of the function before the live one: its code, variables, memory and timeout.

    Running invocations finish with the version that they began with. Queues, mappings, table and permissions stay as
    they are. Go forward again with --to, or by a deployment that changes the function.
    """
    target = target_of(context)
    operations = operations_of(context)
    releases = operations.releases()
    live, found = releases.live(), releases.all()
    chosen = release_to_return_to(found, live=live, to=to)
    function = operations.function().name
    if dry_run or not yes:
        rows = [_row(one, live=live, chosen=chosen) for one in _newest_first(found)]
        show_rows(target, rows, empty="no versions")
    if dry_run:
        say(f"would make version {chosen.version} of {function} live in place of {live}")
        return
    confirm(f"make version {chosen.version} of {function} live in place of {live}?", yes=yes)
    with audited(operations.audit, "rollback", function, details={"before": live, "after": chosen.version}):
        releases.make_live(chosen.version)
    show_one(target, {"function": function, "live": chosen.version, "before": live})
    say("a deployment without a change of the function leaves this version live; fix the cause, then deploy")


def _newest_first(releases: list[Release]) -> list[Release]:
    return sorted(releases, key=lambda one: one.version, reverse=True)


def _row(release: Release, *, live: int, chosen: Release) -> dict[str, Any]:
    states = {live: "live", chosen.version: "next"}
    return {
        "version": release.version,
        "changed": release.changed,
        "code": release.code[:12],
        "state": states.get(release.version),
    }
