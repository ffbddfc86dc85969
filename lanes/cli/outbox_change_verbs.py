"""Verbs of `lanes outbox` that change what waits: each shows what is meant and asks before it acts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import typer  # noqa: TC002 - Typer reads the annotations

from lanes.cli.filter_options import Chosen, Everything, entry_row, takes_filter
from lanes.cli.operating import DryRun, NewPriority, Yes  # noqa: TC001 - Typer reads the annotations
from lanes.cli.outbox_place import outbox_of
from lanes.cli.printing import confirm, console, laid_out, say, show_one
from lanes.outbox.entry import WAITING, EntryState

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.outbox.filter import EntryFilter
    from lanes.outbox.operate import Operator, Preview

REMOVED_AT_ONCE = 1_000


@takes_filter
def prioritize(
    context: typer.Context,
    priority: NewPriority,
    *,
    chosen: Chosen,
    everything: Everything = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Give waiting entries another priority, higher or lower, and with it their lane."""
    chosen.require(everything=everything)
    wanted = chosen.entries(WAITING)
    lane = outbox_of(context).config.lane_for(priority).name
    _change(
        context,
        wanted.only(WAITING),
        f"give them priority {priority} (lane {lane})",
        lambda operator, progress: operator.prioritize(wanted, priority, progress=progress),
        yes=yes,
        dry_run=dry_run,
    )


@takes_filter
def cancel(
    context: typer.Context,
    *,
    chosen: Chosen,
    everything: Everything = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Abandon waiting entries; `retry` brings them back while they are kept."""
    chosen.require(everything=everything)
    wanted = chosen.entries(WAITING)
    _change(
        context,
        wanted.only(WAITING),
        "cancel them",
        lambda operator, progress: operator.cancel(wanted, progress=progress),
        yes=yes,
        dry_run=dry_run,
    )


@takes_filter
def retry(
    context: typer.Context,
    *,
    chosen: Chosen,
    everything: Everything = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Try abandoned and failed entries again at once; with --state PUBLISHED send published ones once more."""
    chosen.require(everything=everything or bool(chosen.states))
    wanted = chosen.entries(frozenset({EntryState.ABANDONED, EntryState.FAILED}))
    _change(
        context,
        wanted,
        "try them again",
        lambda operator, progress: operator.retry(wanted, progress=progress),
        yes=yes,
        dry_run=dry_run,
    )


def cleanup(context: typer.Context, *, dry_run: DryRun = False) -> None:
    """Remove published and abandoned entries whose retention is over; in DynamoDB time to live does it anyway."""
    where = outbox_of(context)
    now = time.time()
    if dry_run:
        finished = {EntryState.PUBLISHED, EntryState.ABANDONED}
        expired = sum((entry.expires_at or now + 1) <= now for entry in where.operations.entries(finished))
        show_one(where.place, {"would_remove": expired})
        return
    removed = 0
    while batch := where.store.remove_expired(now=now, limit=REMOVED_AT_ONCE):
        removed += batch
        say(f"{removed} removed")
    show_one(where.place, {"removed": removed})


def _change(
    context: typer.Context,
    wanted: EntryFilter,
    question: str,
    change: Callable[[Operator, Callable[[int], None]], int],
    *,
    yes: bool,
    dry_run: bool,
) -> None:
    """Show what is meant, ask, do it, and tell how many it were."""
    where = outbox_of(context)
    operator = where.operator()
    preview = operator.preview(wanted)
    show_preview(preview, wanted)
    if dry_run or preview.count == 0:
        show_one(where.place, {"found": preview.count, "changed": 0})
        return
    confirm(f"{preview.count} entries of {where.name}: {question}?", yes=yes)
    changed = change(operator, lambda done: say(f"{done} of about {preview.count} changed"))
    show_one(where.place, {"found": preview.count, "changed": changed})


def show_preview(preview: Preview, wanted: EntryFilter) -> None:
    """Counts and a sample, on standard error, so that the answer alone is on standard output."""
    say(f"{preview.count} entries: {wanted.words()}")
    if not preview.count:
        return
    kinds = ", ".join(f"{kind} {count}" for kind, count in preview.kinds.items())
    lanes = ", ".join(f"{lane} {count}" for lane, count in preview.lanes.items())
    say(f"kinds: {kinds}; lanes: {lanes}; priorities {preview.lowest} to {preview.highest}; among them:")
    out = console(stderr=True)
    out.print(laid_out([entry_row(entry) for entry in preview.sample], out))
