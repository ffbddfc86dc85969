"""Stores of an outbox behind one interface, and a queue service to publish to."""

from __future__ import annotations

import boto3
import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from lanes.config import LanesConfig
from lanes.outbox.dynamodb.item import put_action
from lanes.outbox.dynamodb.operations import DynamoDBOutboxOperations
from lanes.outbox.dynamodb.store import DynamoDBOutboxStore
from lanes.outbox.dynamodb.table import create_table
from lanes.outbox.dynamodb.transaction import OutboxTransaction
from lanes.outbox.entry import Positions
from lanes.outbox.sql.bridges import Bridge
from lanes.outbox.sql.operations import SqlOutboxOperations
from lanes.outbox.sql.outbox import SqlOutbox
from lanes.outbox.sql.schema import OutboxTables
from lanes.outbox.sql.store import SqlOutboxStore
from lanes.outbox.sql.writing import write
from lanes.producer import Pacing, Producer
from lanes.retries import RetryPolicy
from lanes.testing.clock import FakeClock
from tests.support.sending import ACCEPT, FakeSqs, make_deployment


class SqlSubject:
    """An outbox in a SQL database."""

    def __init__(self, url, name="lanes_outbox"):
        self.engine = sa.create_engine(url)
        if url.startswith("sqlite"):
            # Tests needn't survive a power cut.
            sa.event.listen(self.engine, "connect", _without_sync)
        self.tables = OutboxTables(name)
        self.store = SqlOutboxStore(self.engine, self.tables)
        self.operations = SqlOutboxOperations(self.store)
        self.store.setup()

    def write(self, *entries):
        """Commit entries in one transaction; return them with their numbers."""
        with self.engine.begin() as connection:
            return write(connection, self.tables, entries)

    def write_locked(self, outbox, messages):
        """Commit entries in a transaction that locks their groups."""
        with self.engine.begin() as connection:
            outbox.lock_group(connection, *{one.group for one in messages if one.group is not None})
            return outbox.add_many(connection, messages)

    def close(self):
        """Drop the tables and the connections."""
        with self.engine.begin() as connection:
            for table in self.tables.all:
                table.drop(connection)
        self.engine.dispose()


def bridge_of(connection):
    """Return a bridge to the open transaction of a connection of sqlite3."""
    return Bridge(
        name="a connection of sqlite3",
        dialect=sqlite.dialect(paramstyle="named"),
        run=lambda statement, parameters: connection.execute(statement, parameters).fetchall(),
        problem=str,
    )


def _without_sync(connection, _record):
    connection.execute("PRAGMA synchronous = OFF")


class DynamoDBSubject:
    """An outbox in DynamoDB, as moto plays it or in the service of the client."""

    def __init__(self, client=None, name="outbox"):
        self.client = client or boto3.client("dynamodb")
        self.name = name
        create_table(self.client, name)
        self.store = DynamoDBOutboxStore(table=name, client=self.client, concurrency=1)
        self.operations = DynamoDBOutboxOperations(self.store)

    def write(self, *entries):
        """Commit entries in one transaction; return them."""
        actions = [put_action(self.name, entry) for entry in entries]
        for start in range(0, len(actions), 100):
            self.client.transact_write_items(TransactItems=actions[start : start + 100])
        return list(entries)

    def write_locked(self, outbox, messages):
        """Commit entries in a transaction that locks their groups."""
        transaction = OutboxTransaction(prepare=outbox.prepare_unique, table=self.name, client=self.client)
        transaction.lock_group(*{one.group for one in messages if one.group is not None})
        entries = [
            transaction.add(one.kind, one.data, group=one.group, priority=one.priority) for one in messages
        ]
        transaction.commit()
        return entries

    def close(self):
        """Nothing is left to free."""


def new_outbox(config=None, clock=None, **more):
    """Make an outbox for SQL that dates its entries by the clock."""
    return SqlOutbox(config=config or LanesConfig(), positions=Positions(clock or FakeClock()), **more)


def publisher(config=None, plan=lambda _: ACCEPT, retries=None):
    """Return a producer and the queues that it fills; it never waits and tries once."""
    sqs = FakeSqs(plan)
    producer = Producer(
        deployment=make_deployment(config),
        sqs=sqs,
        pacing=Pacing(retries=retries or RetryPolicy(max_attempts=1), pause=lambda _: None),
    )
    return producer, sqs
