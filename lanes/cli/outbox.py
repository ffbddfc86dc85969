"""`lanes outbox`."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated

import typer

from lanes.cli.arguments import (
    DryRun,
    Everything,
    States,
    Yes,
    duration,
    entry_filter,
    entry_row,
    filter_of,
    require_filter,
    takes,
)
from lanes.cli.printing import confirm, console, layout, say, show_one, show_rows, without_code
from lanes.cli.relay import Database, OutboxTarget, Table, outbox_of, relay, setup
from lanes.cli.target import ExitCode, target_of
from lanes.message_filter import MessageFilter  # noqa: TC001 - Typer reads the annotations
from lanes.operate.descriptions import moment
from lanes.outbox.entry import FINISHED, EntryState
from lanes.outbox.operations import EVERY_STATE, retried_by

if TYPE_CHECKING:
    from lanes.outbox.operations import EntryFilter, Preview

# Counting reads index pages; beyond this the result says that it is not complete.
COUNTED = 100_000
# Keeps the transaction of one deletion short.
REMOVED_AT_ONCE = 1_000

# Vacuum keeps all that such a transaction may see; ordinary ones take seconds.
OLD_SNAPSHOT_SECONDS = 300.0

app = typer.Typer(
    no_args_is_help=True,
    help="Set up an outbox, run its relay, and look after its entries. Without --database and --table, it is "
    "the outbox of the stack.",
)

EntryId = Annotated[str, typer.Argument(metavar="ID", help="Id of the entry, which is that of its message.")]


@app.callback()
def outbox(context: typer.Context, *, database: Database = None, table: Table = None) -> None:
    """Store the target outbox."""
    context.obj = OutboxTarget(stack=target_of(context), database=database, table=table)


app.command()(setup)
app.command()(relay)


@app.command()
def status(context: typer.Context) -> None:
    """Count entries by state, and show the age of the oldest unfinished one and what each relay holds."""
    outbox = outbox_of(context)
    found = outbox.store.status(limit=COUNTED)
    age = None if found.oldest_at is None else max(0.0, time.time() - found.oldest_at)
    counted = {state.value: found.counts.get(state, 0) for state in EntryState}
    if outbox.database is None:
        del counted[EntryState.PUBLISHED.value]  # No index counts them: that keeps a publish cheap.
    show_one(
        outbox.stack,
        {
            **counted,
            "held_groups": found.held_groups,
            "scheduled": found.scheduled,
            "oldest_seconds": None if age is None else round(age, 1),
            "complete": found.is_complete,
            "relays": {
                one.relay: {
                    "entries": one.entries,
                    "lanes": one.lanes,
                    "locked_until": moment(one.locked_until),
                }
                for one in outbox.operator().relays()
            },
        },
    )
    if outbox.database is not None:
        _warn_of_old_snapshot(outbox)


def _warn_of_old_snapshot(outbox: OutboxTarget) -> None:
    from lanes.outbox.sql.database import oldest_snapshot

    held = oldest_snapshot(outbox.sql.engine)
    if held is not None and held.seconds >= OLD_SNAPSHOT_SECONDS:
        say(
            f"process {held.process} ({held.name}) has a transaction open for {held.seconds:.0f} s, and the server "
            f"keeps all entries published since for it, which claims read past; end it with "
            f"pg_terminate_backend({held.process})"
        )


@app.command("list")
@takes(wanted=filter_of)
def list_(
    context: typer.Context,
    *,
    wanted: MessageFilter,
    state: States = None,
    limit: Annotated[int, typer.Option(min=1, help="List at most this many.")] = 50,
) -> None:
    """List entries; those that are not published unless you name a state."""
    outbox = outbox_of(context)
    meant = entry_filter(wanted, state, frozenset(EntryState) - {EntryState.PUBLISHED})
    rows = []
    for entry in outbox.operations.entries(meant.states):
        if not meant.meets(entry):
            continue
        rows.append(entry_row(entry))
        if len(rows) == limit:
            say(f"these are the first {limit}; list more with --limit")
            break
    show_rows(outbox.stack, rows, empty=f"no entries match: {meant.describe()}")


@app.command()
def show(context: typer.Context, entry_id: EntryId) -> None:
    """Show one entry with its message. Exit code 3: there is no such entry."""
    outbox = outbox_of(context)
    entry = outbox.operations.entry(entry_id)
    if entry is None:
        say(f"{outbox.name} has no entry {entry_id!r}; list entries with `lanes outbox list`")
        raise typer.Exit(ExitCode.NO)
    details = {
        **entry_row(entry),
        "source": entry.source,
        **({} if entry.unique_key is None else {"unique_key": entry.unique_key}),
        "locked_by": entry.locked_by or "none",
        "locked_until": moment(entry.locked_until),
        "next_attempt_at": moment(entry.next_attempt_at),
        "changed_at": moment(entry.changed_at),
        "published_at": moment(entry.published_at),
        "sequence_number": entry.sequence_number,
        "expires_at": moment(entry.expires_at),
        "message": json.loads(entry.body),
    }
    show_one(outbox.stack, {name: value for name, value in details.items() if value is not None})


@app.command()
def reconcile(
    context: typer.Context,
    *,
    after: Annotated[str, typer.Option(help="Ignore events of this last time.")] = "15m",
) -> None:
    """
    Find entries in an inconsistent state. Exit code 3: there are some.

    These are published entries that SQS never acknowledged or, with the idempotency of the consumer, that were never
    handled, and entries with an expired lock that no relay has taken over.
    """
    outbox = outbox_of(context)
    seen = None if outbox.database is not None else outbox.seen()
    found = outbox.operator().reconcile(settled_for=duration(after, "--after").total_seconds(), seen=seen)
    if found.unseen is None:
        say(
            "handled messages are unknown: the idempotency of the consumer is off, or its table can't be read"
        )
    rows = [
        {**entry_row(entry), "code": problem.replace(" ", "_"), "problem": problem}
        for problem, entries in (
            ("not acknowledged", found.unacknowledged),
            ("never handled", found.unseen or ()),
            ("lock expired", found.dead_locks),
        )
        for entry in entries
    ]
    show_rows(outbox.stack, rows, empty="all entries are consistent")
    if rows:
        raise typer.Exit(ExitCode.NO)


@app.command()
def audit(context: typer.Context) -> None:
    """List the changes that operators made, the latest first."""
    outbox = outbox_of(context)
    rows = [
        {
            "at": moment(one.at),
            "who": one.who,
            "action": one.action,
            "filter": one.filter,
            "from": one.before,
            "to": one.after,
            "changed": one.changed,
        }
        for one in outbox.operations.audits()
    ]
    show_rows(outbox.stack, rows, empty="no changes")


@app.command()
@takes(wanted=filter_of)
def retry(
    context: typer.Context,
    *,
    wanted: MessageFilter,
    state: States = None,
    everything: Everything = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Retry abandoned and failed entries now, and cancelled ones only by --id."""
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


@app.command()
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
