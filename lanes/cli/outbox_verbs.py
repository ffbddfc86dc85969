"""`lanes outbox`: see what waits in an outbox; its other verbs run the relay and change what waits."""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer

from lanes.cli import outbox_change_verbs, outbox_relay_verbs
from lanes.cli.filter_options import Chosen, entry_row, takes_filter
from lanes.cli.operating import duration
from lanes.cli.outbox_place import Database, OutboxPlace, Table, outbox_of
from lanes.cli.place import place_of
from lanes.cli.printing import moment, say, show_one, show_rows
from lanes.errors import ConfigurationError
from lanes.outbox.entry import EntryState

COUNTED = 100_000

app = typer.Typer(
    no_args_is_help=True,
    help="See what waits in an outbox, run its relay, and change what waits. Without --database and --table it is the "
    "outbox of the stack.",
)

EntryId = Annotated[str, typer.Argument(metavar="ID", help="The entry's id, which is the message's.")]


@app.callback()
def outbox(context: typer.Context, *, database: Database = None, table: Table = None) -> None:
    """Remember which outbox is meant."""
    context.obj = OutboxPlace(place=place_of(context), database=database, table=table)


app.command()(outbox_relay_verbs.setup)
app.command()(outbox_relay_verbs.relay)
app.command()(outbox_change_verbs.prioritize)
app.command()(outbox_change_verbs.cancel)
app.command()(outbox_change_verbs.retry)
app.command()(outbox_change_verbs.cleanup)


@app.command()
def status(context: typer.Context) -> None:
    """Show how many entries are in which state, and the age of the oldest unfinished one."""
    where = outbox_of(context)
    standing = where.store.standing(limit=COUNTED)
    age = None if standing.oldest_at is None else max(0.0, time.time() - standing.oldest_at)
    counted = {state.value: standing.counts.get(state, 0) for state in EntryState}
    if where.database is None:
        del counted[EntryState.PUBLISHED.value]  # they are in no index, to keep a publish cheap
    show_one(
        where.place,
        {
            **counted,
            "oldest_seconds": None if age is None else round(age, 1),
            "complete": standing.is_complete,
        },
    )


@app.command("list")
@takes_filter
def list_(
    context: typer.Context,
    *,
    chosen: Chosen,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50,
) -> None:
    """List entries: without a state those that are not published."""
    where = outbox_of(context)
    wanted = chosen.entries(frozenset(EntryState) - {EntryState.PUBLISHED})
    rows = []
    for entry in where.operations.entries(wanted.states):
        if not wanted.meets(entry):
            continue
        rows.append(entry_row(entry))
        if len(rows) == limit:
            say(f"the first {limit}; --limit shows more")
            break
    show_rows(where.place, rows, nothing=f"no entries: {wanted.words()}")


@app.command()
def show(context: typer.Context, entry_id: EntryId) -> None:
    """Show one entry with its message."""
    where = outbox_of(context)
    entry = where.operations.entry(entry_id)
    if entry is None:
        raise ConfigurationError([f"there is no entry {entry_id!r}"], source=where.name)
    details = {
        **entry_row(entry),
        "source": entry.source,
        "locked_by": entry.locked_by or "nobody",
        "locked_until": moment(entry.locked_until),
        "next_attempt_at": moment(entry.next_attempt_at),
        "changed_at": moment(entry.changed_at),
        "published_at": moment(entry.published_at),
        "sequence_number": entry.sequence_number,
        "expires_at": moment(entry.expires_at),
        "message": json.loads(entry.body),
    }
    show_one(where.place, {name: value for name, value in details.items() if value is not None})


@app.command()
def reconcile(
    context: typer.Context,
    *,
    after: Annotated[str, typer.Option(help="Leave out what happened within this time.")] = "15m",
) -> None:
    """
    Look for what does not add up; status 3 where there is something.

    Entries marked published that SQS never acknowledged or, where the consumer's idempotency is on, that it never
    handled; and entries whose lock ended long ago without a relay taking them over.
    """
    where = outbox_of(context)
    seen = None if where.database is not None else where.seen()
    found = where.operator().reconcile(settled_for=duration(after).total_seconds(), seen=seen)
    if found.unseen is None:
        say("whether messages were handled is not known: the consumer's idempotency is off, or out of reach")
    rows = [
        {"problem": problem, **entry_row(entry)}
        for problem, entries in (
            ("not acknowledged by SQS", found.unacknowledged),
            ("never handled", found.unseen or ()),
            ("lock ended long ago", found.dead_locks),
        )
        for entry in entries
    ]
    show_rows(where.place, rows, nothing="everything adds up")
    if rows:
        raise typer.Exit(3)


@app.command()
def audit(context: typer.Context) -> None:
    """Show who changed what and when, latest first."""
    where = outbox_of(context)
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
        for one in where.operations.audits()
    ]
    show_rows(where.place, rows, nothing="nobody has changed anything")
