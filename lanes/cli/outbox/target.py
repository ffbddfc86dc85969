"""The target outbox of a verb: that of the stack, a DynamoDB table, or a SQL database."""

from __future__ import annotations

import getpass
import socket
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lanes.aws.stack.operations import Operations
from lanes.config import LanesConfig
from lanes.errors import ConfigurationError
from lanes.installing import install_hint
from lanes.outbox.dynamodb.operations import DynamoDBOutboxOperations, begun_effects
from lanes.outbox.dynamodb.store import DynamoDBOutboxStore
from lanes.outbox.operations import Operator

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.cli.target import Target
    from lanes.config.deployment import Deployment
    from lanes.outbox.sql.store import SqlOutboxStore
    from lanes.outbox.store import OperatorStore, RelayStore

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
