"""`lanes outbox setup` and `lanes outbox relay`: make an outbox where no stack does, and run its relay."""

from __future__ import annotations

import signal
import socket
import threading
import time
from typing import TYPE_CHECKING, Annotated

import typer

from lanes.aws.lane_queue import LaneQueueCalls
from lanes.aws.outbox_relay import LaneDepths, relay_producer
from lanes.aws.outbox_table import create_table, description
from lanes.cli.outbox_place import OutboxPlace, outbox_of
from lanes.cli.outbox_telemetry import SpokenTelemetry
from lanes.cli.printing import say, show_json, show_one
from lanes.cli.usage import WrongUsage
from lanes.outbox.relay import Relay

if TYPE_CHECKING:
    from datetime import timedelta

    from lanes.outbox.relay import RelayRound

CLEANUP_EVERY_SECONDS = 3600.0

Print = Annotated[
    bool, typer.Option("--print", help="Print what would be made, as a migration takes it, and make nothing.")
]
Once = Annotated[bool, typer.Option("--once", help="End when nothing is due any more.")]


def setup(context: typer.Context, *, print_: Print = False) -> None:
    """
    Make the tables and indexes of an outbox, where they do not exist yet.

    Needs --database, or --table for DynamoDB; the outbox of a stack is made by its deploy.
    """
    where = outbox_of(context)
    if where.database is not None:
        statements = where.sql.tables.ddl(where.sql.engine.dialect)
        if print_:
            typer.echo("\n\n".join(f"{statement};" for statement in statements))
            return
        where.sql.setup()
        show_one(where.place, {"made": where.name, "statements": len(statements)})
        return
    if where.table is None:
        problem = "name a SQL database with --database, or a DynamoDB table with --table"
        raise WrongUsage([problem], source="lanes outbox")
    if print_:
        show_json(description(where.table))
        return
    made = create_table(where.place.clients().dynamodb(), where.table)
    say("" if made else f"there is a table {where.table} already; it was left as it is")
    show_one(where.place, {"table": where.table, "made": made})


def relay(context: typer.Context, *, once: Once = False) -> None:
    """
    Bring entries to the lanes of the stack until interrupted, the most urgent first.

    Several may run at once, on one machine or on many. It ends after the batch at hand on Ctrl-C or SIGTERM.
    """
    where = outbox_of(context)
    one = make_relay(where)
    if once:
        done = one.run_until(float("inf"))
        show_one(where.place, outcome_row(done))
        return
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    say(f"relaying from {where.name} to stack {where.place.stack_name}; stop with Ctrl-C")
    cleaner = Cleaner(one, is_needed=where.database is not None)

    def pause(length: timedelta) -> None:
        cleaner.run_if_due()
        stopped.wait(length.total_seconds())

    one.run(should_stop=stopped.is_set, pause=pause)
    say("stopped")


def make_relay(where: OutboxPlace) -> Relay:
    """Make the relay of an outbox to the lanes of the stack."""
    clients = where.place.clients()
    deployment = where.deployment
    return Relay(
        store=where.store,
        producer=relay_producer(deployment, clients),
        config=deployment.config,
        depths=LaneDepths(LaneQueueCalls(deployment=deployment, client=clients.sqs())),
        name=socket.gethostname(),
        telemetry=SpokenTelemetry(),
    )


def outcome_row(done: RelayRound) -> dict[str, int]:
    """Give what a run did, as a row."""
    return {
        "published": done.published,
        "failed": done.failed,
        "abandoned": done.abandoned,
        "lock_lost": done.lock_lost,
    }


class Cleaner:
    """
    Removes what has expired, now and then, while a relay has nothing else to do.

    Args:
        relay: whose store it is.
        is_needed: False where the database does so by itself.
    """

    def __init__(self, relay: Relay, *, is_needed: bool) -> None:
        self._relay = relay
        self._is_needed = is_needed
        self._next = 0.0

    def run_if_due(self) -> None:
        """Remove one batch, and soon the next one where there is more."""
        if not self._is_needed or time.monotonic() < self._next:
            return
        more = self._relay.remove_expired() > 0
        self._next = time.monotonic() + (0.0 if more else CLEANUP_EVERY_SECONDS)
