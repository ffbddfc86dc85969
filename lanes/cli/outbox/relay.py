"""`lanes outbox setup` and `lanes outbox relay`: create an outbox, and run its relay."""

from __future__ import annotations

import os
import signal
import socket
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from lanes.aws.queues.lane_queue import LaneQueueCalls
from lanes.cli.outbox.target import OutboxTarget, outbox_of
from lanes.cli.outbox.telemetry import ConsoleTelemetry
from lanes.cli.printing import say, show_json, show_one
from lanes.cli.usage import UsageError
from lanes.outbox.context import RelayContext
from lanes.outbox.dynamodb.relay_function import LaneDepths, relay_producer
from lanes.outbox.dynamodb.table import create_table, description
from lanes.outbox.relay import Relay

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from lanes.outbox.sql.listening import CommitListener
    from lanes.outbox.telemetry import RelayRound

Print = Annotated[
    bool, typer.Option("--print", help="Print the statements for a migration, and create nothing.")
]
Once = Annotated[bool, typer.Option("--once", help="Stop when no entry is due.")]


def setup(context: typer.Context, *, print_: Print = False) -> None:
    """
    Create the tables and indexes of an outbox, if they don't exist.

    Give --database, or --table for DynamoDB; `cdk deploy` creates the outbox of a stack.
    """
    outbox = outbox_of(context)
    if outbox.database is not None:
        statements = outbox.sql.tables.ddl(outbox.sql.engine.dialect)
        if print_:
            typer.echo("\n\n".join(f"{statement};" for statement in statements))
            return
        outbox.sql.setup()
        show_one(outbox.stack, {"made": outbox.name, "statements": len(statements)})
        return
    if outbox.table is None:
        problem = "no outbox is named; give a SQL database with --database, or a DynamoDB table with --table"
        raise UsageError([problem], source="lanes outbox")
    if print_:
        show_json(description(outbox.table))
        return
    made = create_table(outbox.stack.clients().dynamodb(), outbox.table)
    say("" if made else f"table {outbox.table} exists already; it was not changed")
    show_one(outbox.stack, {"table": outbox.table, "made": made})


def relay(context: typer.Context, *, once: Once = False) -> None:
    """
    Send entries to the lanes of the stack until interrupted, the most urgent first.

    You can run several relays at once. Ctrl-C or SIGTERM stops a relay within seconds; unsent entries of its batch are
    returned.
    """
    outbox = outbox_of(context)
    one = make_relay(outbox)
    if once:
        done = one.run_until(float("inf"))
        show_one(outbox.stack, outcome_row(done))
        return
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        # No call starts any more, and the claimed batch is marked: an entry without a mark is locked until its lock
        # ends.
        signal.signal(number, lambda *_: stopped.set())
    say(f"relaying from {outbox.name} to stack {outbox.stack.stack_name}; stop with Ctrl-C")
    listener = listener_of(outbox, should_stop=stopped.is_set)

    def pause(length: timedelta) -> None:
        if listener is None:
            stopped.wait(length.total_seconds())
        else:
            listener.wait(length.total_seconds())

    one.run(
        should_stop=stopped.is_set,
        pause=pause,
        wakes=lambda: listener is not None and listener.is_listening,
    )
    if listener is not None:
        listener.close()
    say("stopped")


def listener_of(outbox: OutboxTarget, *, should_stop: Callable[[], bool]) -> CommitListener | None:
    """Return what waits for commits in PostgreSQL; None for other databases and drivers, which are polled."""
    if outbox.database is None:
        return None
    from lanes.outbox.sql.listening import CommitListener

    engine = outbox.sql.engine
    if not CommitListener.serves(engine):
        return None
    return CommitListener(engine, outbox.sql.tables, should_stop=should_stop)


def make_relay(outbox: OutboxTarget) -> Relay:
    """Create the relay from an outbox to the lanes of the stack."""
    clients = outbox.stack.clients()
    deployment = outbox.deployment
    return Relay(
        store=outbox.store,
        producer=relay_producer(deployment, outbox.stack.clients(for_relay=True)),
        config=deployment.config,
        depths=LaneDepths(LaneQueueCalls(deployment=deployment, client=clients.sqs())),
        context=RelayContext(name=f"{socket.gethostname()[:32]}-{os.getpid()}", telemetry=ConsoleTelemetry()),
    )


def outcome_row(done: RelayRound) -> dict[str, int]:
    """Return the counts of a run as a row."""
    return {
        "published": done.published,
        "failed": done.failed,
        "returned": done.returned,
        "abandoned": done.abandoned,
        "lock_lost": done.lock_lost,
    }
