"""Stores of an outbox behind one interface, each in turn, on a bench of their own or with a relay and its queues."""

from __future__ import annotations

import itertools

import boto3
import pytest
import sqlalchemy as sa
from moto import mock_aws
from sqlalchemy.dialects import sqlite

from lanes.config import LanesConfig
from lanes.outbox.dynamodb.operations import DynamoDBOutboxOperations
from lanes.outbox.dynamodb.store import DynamoDBOutboxStore
from lanes.outbox.dynamodb.table import create_table, put_action
from lanes.outbox.dynamodb.transaction import OutboxTransaction
from lanes.outbox.entry import EntryState, Positions
from lanes.outbox.relay import ONE_TRY, Relay
from lanes.outbox.rules import Mark, lane_shares
from lanes.outbox.sql.bridges import Bridge
from lanes.outbox.sql.operations import SqlOutboxOperations
from lanes.outbox.sql.outbox import SqlOutbox
from lanes.outbox.sql.schema import OutboxTables
from lanes.outbox.sql.store import SqlOutboxStore
from lanes.outbox.sql.writing import write
from lanes.producer import Pacing, Producer
from lanes.retries import RetryPolicy
from lanes.testing.clock import FakeClock
from tests.support.sending import ACCEPT, FakeSqs, make_deployment, queue_url


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


class Repeats:
    """A client that has lost its first answer to each update, and repeats it."""

    def __init__(self, client):
        self._client = client

    def __getattr__(self, name):
        return getattr(self._client, name)

    def update_item(self, **parameters):
        """Update twice."""
        self._client.update_item(**parameters)
        return self._client.update_item(**parameters)


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


CONFIG = LanesConfig()
SHARES = lane_shares(CONFIG)
LOCK = 300.0


class Bench:
    """An outbox, its store and a clock."""

    def __init__(self, stores, time):
        self.subject = stores
        self.store = stores.store
        self.operations = stores.operations
        self.clock = time
        self.outbox = new_outbox(CONFIG, time)
        self.owners = 0

    def write(self, *ids, group=None, priority=0):
        """Write entries one after the other."""
        entries = [
            self.outbox.prepare("order.placed", {"id": one}, id=one, group=group, priority=priority)
            for one in ids
        ]
        return self.subject.write(*entries)

    def claim(self, limit=10, *, shares=SHARES):
        """Claim as one relay; give the claim and its owner."""
        self.owners += 1
        owner = f"relay/{self.owners}"
        now = self.clock()
        claim = self.store.claim(shares, owner=owner, now=now, locked_until=now + LOCK, limit=limit)
        return claim, owner

    def ids(self, limit=10, *, shares=SHARES):
        """Claim and give the ids."""
        return [entry.id for entry in self.claim(limit, shares=shares)[0].entries]

    def sent(self, limit=10):
        """Claim and publish until nothing is left; give the ids in order."""
        ids = []
        while True:
            claim, owner = self.claim(limit)
            if claim.is_idle:
                return ids
            ids += [entry.id for entry in claim.entries]
            self.settle(claim, owner)

    def settle(self, claim, owner, **marks):
        """Mark what was claimed, as published unless told otherwise."""
        return self.store.settle(
            [marks.get(entry.id, published(entry)) for entry in claim.entries], owner=owner, now=self.clock()
        )

    def state(self, entry_id):
        """Read an entry's state."""
        return self.operations.entry(entry_id).state


def published(entry):
    return Mark(entry=entry, state=EntryState.PUBLISHED, attempts=entry.attempts, sequence_number="7")


def failed(entry, *, due_at):
    return Mark(
        entry=entry,
        state=EntryState.FAILED,
        attempts=entry.attempts + 1,
        last_error="refused",
        due_at=due_at,
    )


def abandoned(entry):
    return Mark(entry=entry, state=EntryState.ABANDONED, attempts=3, last_error="gone", expires_at=1.0)


class Run:
    """An outbox with a relay on it."""

    def __init__(self, subject, clock, plan=lambda _: ACCEPT, depth_of=None, context=None, **outbox):
        self.config = LanesConfig.from_dict({"outbox": {"retry_jitter": 0, **outbox}})
        self.subject, self.clock = subject, clock
        self.outbox = new_outbox(self.config, clock)
        producer, self.sqs = publisher(self.config, plan, retries=ONE_TRY)
        self.relay = Relay(
            store=subject.store,
            producer=producer,
            config=self.config,
            depth_of=depth_of,
            clock=clock,
            pause=clock.advance,
            **(context or {}),
        )

    def write(self, *ids, **settings):
        """Write entries."""
        self.subject.write(*(self.outbox.prepare("k", {"n": one}, id=one, **settings) for one in ids))

    def sent(self, lane="MEDIUM"):
        """Give the deduplication ids in a lane's queue."""
        return self.sqs.ids(queue_url(lane))

    def state(self, entry_id):
        """Read an entry's state."""
        return self.subject.operations.entry(entry_id).state


STORES = ("sqlite", "postgresql", "dynamodb")
_numbers = itertools.count()


@pytest.fixture
def sqlite_subject(tmp_path):
    """A file of SQLite."""
    subject = SqlSubject(f"sqlite:///{tmp_path / 'outbox.db'}")
    yield subject
    subject.close()


@pytest.fixture
def postgresql_subject(postgres):
    """Tables of their own in the PostgreSQL server."""
    subject = SqlSubject(postgres.url, f"outbox_{next(_numbers)}")
    yield subject
    subject.close()


@pytest.fixture
def dynamodb_subject():
    """A table in moto's DynamoDB."""
    with mock_aws():
        yield DynamoDBSubject()


@pytest.fixture(params=STORES)
def subject(request):
    """Each store in turn."""
    return request.getfixturevalue(f"{request.param}_subject")


@pytest.fixture
def clock():
    """A clock that the test moves."""
    return FakeClock()


@pytest.fixture
def bench(subject, clock):
    """A store to work on."""
    return Bench(subject, clock)
