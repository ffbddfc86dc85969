"""The outbox that options name, and `lanes outbox relay`."""

from __future__ import annotations

import contextlib
import getpass
import os
import signal
import socket
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lanes.aws.queues import LaneQueueCalls
from lanes.aws.stack import Operations
from lanes.cli.printing import one_line, say, show_json, show_one
from lanes.cli.target import UsageError
from lanes.config import LanesConfig
from lanes.errors import ConfigurationError
from lanes.installing import install_hint
from lanes.outbox.dynamodb.operations import DynamoDBOutboxOperations, begun_effects
from lanes.outbox.dynamodb.store import DynamoDBOutboxStore
from lanes.outbox.dynamodb.table import create_table, description
from lanes.outbox.operations import Operator
from lanes.outbox.publication import STORE
from lanes.outbox.relay import Relay
from lanes.outbox.telemetry import RelayTelemetry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.cli.target import Target
    from lanes.config.deployment import Deployment
    from lanes.outbox.entry import Entry
    from lanes.outbox.rules import Mark
    from lanes.outbox.sql.store import SqlOutboxStore
    from lanes.outbox.store import OperatorStore, RelayStore
    from lanes.outbox.telemetry import RelayMetric, RelayRound
    from lanes.retries import Outage

LANES_FILE = Path("lanes.toml")

Database = Annotated[
    str | None,
    typer.Option(
        envvar="LANES_OUTBOX_DATABASE",
        help="Use the outbox in this SQL database; an address for SQLAlchemy.",
    ),
]
Table = Annotated[str | None, typer.Option(help="Use the outbox in this table.")]


@dataclass
class OutboxTarget:
    """
    One outbox; connections open when they are first used.

    Attributes:
        stack: the stack that the global options name.
        database: address of a SQL database; None for DynamoDB.
        table: name of the table; None for the default one, or that of the stack.
        user: returns the name of the page's user, for the audit trail; empty for none.
    """

    stack: Target
    database: str | None = None
    table: str | None = None
    user: Callable[[], str] = field(default=lambda: "")

    @property
    def name(self) -> str:
        """Name of the outbox for messages."""
        if self.database is not None:
            return f"the outbox in {self.sql.engine.url.render_as_string(hide_password=True)}"
        return f"the outbox {self.dynamodb_table}"

    @property
    def exists(self) -> bool:
        """Whether an option or the stack names an outbox."""
        return self.database is not None or self.table is not None or self.deployment.outbox is not None

    @cached_property
    def deployment(self) -> Deployment:
        """The lanes of the stack."""
        return self.stack.deployment()

    @cached_property
    def config(self) -> LanesConfig:
        """The lanes of the stack; for a SQL database those of `lanes.toml` in this folder, if there is one."""
        # A SQL outbox may be on a machine without rights to read the stack.
        if self.database is not None and LANES_FILE.is_file():
            return LanesConfig.load(LANES_FILE, stage=self.stack.stage or None)
        return self.deployment.config

    @cached_property
    def sql(self) -> SqlOutboxStore:
        """The store of the SQL database."""
        try:
            from lanes.outbox.sql.schema import TABLE
            from lanes.outbox.sql.store import SqlOutboxStore
        except ImportError as error:
            problem = f"SQLAlchemy is not installed: {install_hint('sql')} and the database's driver"
            raise ConfigurationError([problem], source="database of the outbox") from error
        return SqlOutboxStore.from_url(self.database or "", table=self.table or TABLE)

    @cached_property
    def dynamodb_table(self) -> str:
        """Name of the DynamoDB table."""
        found = self.table or self.deployment.outbox
        if found is None:
            problem = "the stack has no outbox; name a table with --table, or a SQL database with --database"
            raise ConfigurationError([problem], source=f"stack {self.stack.stack_name}")
        return found

    @cached_property
    def dynamodb(self) -> DynamoDBOutboxStore:
        """The store in DynamoDB."""
        return DynamoDBOutboxStore(table=self.dynamodb_table, client=self.stack.clients().dynamodb())

    @property
    def store(self) -> RelayStore:
        """The store of the relay."""
        return self.dynamodb if self.database is None else self.sql

    @cached_property
    def operations(self) -> OperatorStore:
        """The store of operators."""
        if self.database is None:
            return DynamoDBOutboxOperations(self.dynamodb)
        from lanes.outbox.sql.operations import SqlOutboxOperations

        return SqlOutboxOperations(self.sql)

    def operator(self) -> Operator:
        """Return the operator that changes entries in your name."""
        return Operator(store=self.operations, config=self.config, who=self._who())

    def _who(self) -> str:
        """Return the name for the audit: your ARN on AWS, your user and machine for SQL, and the page's user."""
        if self.database is not None:
            here = f"{getpass.getuser()}@{socket.gethostname()}"
            return f"{here} for {name}" if (name := self.user()) else here
        return self._aws.audit.who()

    @cached_property
    def _aws(self) -> Operations:
        return Operations(
            deployment=self.deployment,
            clients=self.stack.clients(),
            stack_name=self.stack.stack_name,
            user=self.user,
        )

    def seen(self) -> Any:
        """Return a lookup of the entries that the consumer has handled; None without its idempotency."""
        if not self.deployment.config.consumer.idempotency:
            return None
        return partial(begun_effects, self.stack.clients().dynamodb(), self.deployment.table)


def outbox_of(context: typer.Context) -> OutboxTarget:
    """Return the outbox that the options of `lanes outbox` name."""
    outbox = context.obj
    if not isinstance(outbox, OutboxTarget):
        raise TypeError("the verb was not called through the lanes command")
    return outbox


Print = Annotated[
    bool, typer.Option("--print", help="Print the statements for a migration, and create nothing.")
]
Once = Annotated[bool, typer.Option("--once", help="Stop when no entry is due.")]
Json = Annotated[
    bool | None,
    typer.Option(
        "--json-log/--text-log",
        help="Log JSON lines, with metrics in CloudWatch's embedded format; by default if no terminal reads them.",
        show_default=False,
    ),
]


def setup(context: typer.Context, *, print_: Print = False) -> None:
    """
    Create the tables and indexes of an outbox, if they don't exist.

    Give --database, or --table for DynamoDB; `lanes cdk deploy` creates the outbox of a stack.
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


def relay(context: typer.Context, *, once: Once = False, json_log: Json = None) -> None:
    """
    Send entries to the lanes of the stack until interrupted, the most urgent first.

    You can run several relays at once. Ctrl-C or SIGTERM stops a relay within seconds; unsent entries of its batch are
    returned.
    """
    outbox = outbox_of(context)
    is_json = json_log if json_log is not None else not (once or sys.stderr.isatty())
    one = make_relay(outbox, is_json=is_json)
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
    one.run(should_stop=stopped.is_set, pause=lambda length: stopped.wait(length.total_seconds()))
    say("stopped")


def make_relay(outbox: OutboxTarget, *, is_json: bool) -> Relay:
    """Create the relay from an outbox to the lanes of the stack."""
    # Not for other verbs: they load the packages of a relay's function.
    from lanes.aws.outbox_telemetry import PowertoolsRelayTelemetry
    from lanes.outbox.dynamodb.relay_function import relay_producer

    clients = outbox.stack.clients()
    deployment = outbox.deployment
    return Relay(
        store=outbox.store,
        producer=relay_producer(deployment, outbox.stack.clients(for_relay=True)),
        config=deployment.config,
        depth_of=LaneQueueCalls(deployment=deployment, client=clients.sqs()).depth,
        name=f"{socket.gethostname()[:32]}-{os.getpid()}",
        telemetry=PowertoolsRelayTelemetry(environ=os.environ) if is_json else ConsoleTelemetry(),
        sender=ThreadPoolExecutor(1),
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


class ConsoleTelemetry(RelayTelemetry):
    """Prints telemetry for a terminal or the log of a process manager; `lanes outbox status` shows the counts."""

    def count(self, metric: RelayMetric, value: float = 1) -> None:
        """Print a count."""
        _say(f"{metric.value} {value:g}")

    def not_sent(self, entry: Entry, mark: Mark, *, reason: str) -> None:
        """Print an entry that was not sent."""
        _say(
            one_line(
                f"entry {entry.id} ({entry.kind}) is {mark.state.value} after attempt {mark.attempts}: {reason}"
            )
        )

    def slow_round(self, seconds: float) -> None:
        """Print that a round took more than half of its lock."""
        _say(f"a round took {seconds:.0f} s, more than half of its lock")

    def round(self, outcome: RelayRound, marks: Sequence[Mark], *, now: float, seconds: float) -> None:  # noqa: ARG002
        """Print the result of a batch, unless it only says again that a lane waits."""
        lost = f", {outcome.lock_lost} lost to another relay" if outcome.lock_lost else ""
        if outcome.published or outcome.failed or lost:
            oldest = max((now - mark.entry.created_at for mark in marks), default=0.0)
            _say(
                f"published {outcome.published}, failed {outcome.failed}, returned {outcome.returned}{lost}; "
                f"the oldest was {oldest:.1f} s old"
            )

    def outage(self, outage: Outage, *, now: float) -> None:
        """Print an outage, at first with the traceback."""
        where = "the outbox" if outage.of == STORE else f"lane {outage.of}"
        lasts = f", {outage.failures} failures in {now - outage.since:.0f} s" if outage.failures > 1 else ""
        _say(f"{where} waits ({outage.cause}{lasts}): {outage.reason}; trying again")
        if outage.error is not None:
            _say("".join(traceback.format_exception(outage.error)).rstrip())

    def recovered(self, outage: Outage, *, now: float) -> None:
        """Print the end of an outage."""
        where = "the outbox" if outage.of == STORE else f"lane {outage.of}"
        _say(f"{where} is back after {now - outage.since:.0f} s and {outage.failures} failures")


def _say(text: str) -> None:
    """Print a line; a relay whose log is a closed pipe or a full disk goes on."""
    with contextlib.suppress(OSError):
        say(text)
