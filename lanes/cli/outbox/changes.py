"""Verbs of `lanes outbox` that change entries; each shows a preview and asks for confirmation."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import typer  # noqa: TC002 - Typer reads the annotations

from lanes.cli.arguments import DryRun, Yes  # noqa: TC001 - Typer reads the annotations
from lanes.cli.filters import (
    Everything,
    States,
    entry_filter,
    entry_row,
    require_filter,
    takes_filter,
)
from lanes.cli.outbox.target import outbox_of
from lanes.cli.printing import confirm, console, layout, say, show_one, without_code
from lanes.message_filter import MessageFilter  # noqa: TC001 - Typer reads the annotations
from lanes.outbox.entry import FINISHED
from lanes.outbox.filter import EVERY_STATE
from lanes.outbox.operations import retried_by

if TYPE_CHECKING:
    from lanes.outbox.filter import EntryFilter
    from lanes.outbox.operations import Preview

# Keeps the transaction of one deletion short.
REMOVED_AT_ONCE = 1_000


@takes_filter
def retry(
    context: typer.Context,
    *,
    wanted: MessageFilter,
    state: States = None,
    everything: Everything = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """
    Retry abandoned and failed entries now, and cancelled ones only by --id.

    With --state PUBLISHED, published entries are sent a second time.
    """
    require_filter(wanted, everything=everything or bool(state))
    meant = retried_by(entry_filter(wanted, state, EVERY_STATE))
    outbox = outbox_of(context)
    operator = outbox.operator()
    preview = operator.preview(meant)
    show_preview(preview, meant)
    if dry_run or preview.count == 0:
        show_one(outbox.stack, {"found": preview.count, "changed": 0})
        return
    confirm(f"{preview.count} entries of {outbox.name}: retry them?", yes=yes)
    changed = operator.retry(meant, progress=lambda done: say(f"changed {done} of about {preview.count}"))
    show_one(outbox.stack, {"found": preview.count, "changed": changed})


def cleanup(context: typer.Context, *, dry_run: DryRun = False) -> None:
    """Remove finished entries after their retention; DynamoDB's time to live does so by itself."""
    outbox = outbox_of(context)
    now = time.time()
    if dry_run:
        expired = sum((entry.expires_at or now + 1) <= now for entry in outbox.operations.entries(FINISHED))
        show_one(outbox.stack, {"would_remove": expired})
        return
    removed = 0
    while batch := outbox.store.remove_expired(now=now, limit=REMOVED_AT_ONCE):
        removed += batch
        say(f"removed {removed}")
    show_one(outbox.stack, {"removed": removed})


def show_preview(preview: Preview, wanted: EntryFilter) -> None:
    """Print counts and a sample on standard error; standard output is for the result alone."""
    say(f"{preview.count} entries: {wanted.describe()}")
    if not preview.count:
        return
    kinds = ", ".join(f"{kind} {count}" for kind, count in preview.kinds.items())
    lanes = ", ".join(f"{lane} {count}" for lane, count in preview.lanes.items())
    states = ", ".join(f"{state} {count}" for state, count in preview.states.items())
    priorities = f"{preview.lowest} to {preview.highest}"
    say(f"states: {states}; kinds: {kinds}; lanes: {lanes}; priorities {priorities}; among them:")
    out = console(stderr=True)
    out.print(layout([without_code(entry_row(entry)) for entry in preview.sample], out))
