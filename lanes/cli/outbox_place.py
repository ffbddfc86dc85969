"""Which outbox the verbs of `lanes outbox` work on: that of the stack, a table, or a SQL database."""

from __future__ import annotations

import getpass
import socket
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lanes.aws.operations import Operations
from lanes.aws.outbox_operations import DynamoDBOutboxOperations
from lanes.aws.outbox_store import DynamoDBOutboxStore
from lanes.config import LanesConfig
from lanes.errors import ConfigurationError
from lanes.outbox.operate import Operator

if TYPE_CHECKING:
    from lanes.cli.place import Place
    from lanes.deployment import Deployment
    from lanes.outbox.sql_store import SqlOutboxStore
    from lanes.outbox.store import OperatorStore, RelayStore

LANES_FILE = Path("lanes.toml")

Database = Annotated[
    str | None,
    typer.Option(
        envvar="LANES_OUTBOX_DATABASE",
        help="Address of a SQL database with an outbox, as SQLAlchemy takes it.",
    ),
]
Table = Annotated[str | None, typer.Option(help="Name of the outbox's table.")]


@dataclass
class OutboxPlace:
    """
    One outbox, found when it is first needed.

    Attributes:
        place: the options before the verb.
        database: address of a SQL database, None for DynamoDB.
        table: name of the table; None for the usual one, or that of the stack.
    """

    place: Place
    database: str | None = None
    table: str | None = None

    @property
    def name(self) -> str:
        """What the outbox is called in messages."""
        if self.database is not None:
            return f"the outbox in {self.sql.engine.url.render_as_string(hide_password=True)}"
        return f"the outbox {self.dynamodb_table}"

    @cached_property
    def deployment(self) -> Deployment:
        """The lanes of the stack."""
        return self.place.deployment()

    @cached_property
    def config(self) -> LanesConfig:
        """The lanes: those of the stack, or for a SQL database those of a `lanes.toml` here."""
        if self.database is not None and LANES_FILE.is_file():
            return LanesConfig.load(LANES_FILE, stage=self.place.stage or None)
        return self.deployment.config

    @cached_property
    def sql(self) -> SqlOutboxStore:
        """The store of the SQL database."""
        try:
            from lanes.outbox.sql_schema import TABLE
            from lanes.outbox.sql_store import SqlOutboxStore
        except ImportError as error:
            problem = (
                "SQLAlchemy is not installed: pip install 'priority-lanes[sql]' and the database's driver"
            )
            raise ConfigurationError([problem], source="database of the outbox") from error
        return SqlOutboxStore.from_url(self.database or "", table=self.table or TABLE)

    @cached_property
    def dynamodb_table(self) -> str:
        """Name of the DynamoDB table."""
        found = self.table or self.deployment.outbox
        if found is None:
            problem = "the stack has no outbox; name a table with --table, or a SQL database with --database"
            raise ConfigurationError([problem], source=f"stack {self.place.stack_name}")
        return found

    @cached_property
    def dynamodb(self) -> DynamoDBOutboxStore:
        """The store in DynamoDB."""
        return DynamoDBOutboxStore(table=self.dynamodb_table, client=self.place.clients().dynamodb())

    @property
    def store(self) -> RelayStore:
        """The relay's side."""
        return self.dynamodb if self.database is None else self.sql

    @cached_property
    def operations(self) -> OperatorStore:
        """The operators' side."""
        if self.database is None:
            return DynamoDBOutboxOperations(self.dynamodb)
        from lanes.outbox.sql_operations import SqlOutboxOperations

        return SqlOutboxOperations(self.sql)

    def operator(self) -> Operator:
        """Make what changes entries in the caller's name."""
        return Operator(store=self.operations, config=self.config, who=self._who())

    def _who(self) -> str:
        """Name the caller: the ARN on AWS, the user and machine for a database that knows no ARNs."""
        if self.database is not None:
            return f"{getpass.getuser()}@{socket.gethostname()}"
        return self._aws.audit.who()

    @cached_property
    def _aws(self) -> Operations:
        return Operations(
            deployment=self.deployment, clients=self.place.clients(), stack_name=self.place.stack_name
        )

    def seen(self) -> Any:
        """Give what tells which entries a consumer has finished, or None where its idempotency is off."""
        from lanes.aws.outbox_seen import ConsumerEffects

        if not self.deployment.config.consumer.idempotency:
            return None
        return ConsumerEffects(table=self.deployment.table, client=self.place.clients().dynamodb())


def outbox_of(context: typer.Context) -> OutboxPlace:
    """Return the outbox that the options of `lanes outbox` named."""
    where = context.obj
    if not isinstance(where, OutboxPlace):
        raise TypeError("the verb was not called through the lanes command")
    return where
