"""
O1: an entry is written in your transaction.

An entry is written in the caller's own database transaction; a relay publishes it to its lane afterwards. Stores:
DynamoDB (the default on AWS) and any SQL database through SQLAlchemy (PostgreSQL, SQLite tested).
"""

from dataclasses import replace

import boto3
import pytest
from moto import mock_aws

from lanes import LanesConfig, Message, Priority, PriorityRules, processing_priority
from lanes.config.deployment import Deployment
from lanes.errors import (
    AwsError,
    ConfigurationError,
    EntryTooLargeError,
    InvalidMessageError,
    MessageTooLargeError,
    TransactionTooLargeError,
)
from lanes.outbox import DynamoOutbox, SqlOutbox
from lanes.outbox.dynamodb.table import LARGEST_ITEM_BYTES, RESERVED_BYTES, create_table, item_bytes
from lanes.outbox.entry import EntryState
from lanes.outbox.sql.schema import row_of
from lanes.testing.clock import START
from lanes.trace_context import continuing_trace
from tests.support.outbox import Run
from tests.support.sending import make_deployment


@pytest.fixture
def dynamodb():
    """A client with an outbox and a table of orders."""
    with mock_aws():
        client = boto3.client("dynamodb")
        create_table(client, "outbox")
        client.create_table(
            TableName="orders",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        yield client


@pytest.fixture
def outbox(dynamodb):
    """An outbox on that table."""
    return DynamoOutbox("outbox", client=dynamodb)


def count(dynamodb, table="outbox"):
    return dynamodb.scan(TableName=table)["Count"]


def test_the_priority_is_resolved_when_the_entry_is_written():
    """Explicit, block, rule, NORMAL, in this order, as for a producer."""
    outbox = SqlOutbox(rules=PriorityRules({"payment": 70}))
    with processing_priority(Priority.LOW):
        inside = [
            outbox.prepare("payment", None).priority,
            outbox.prepare("payment", None, priority=9).priority,
        ]

    assert inside == [-50, 9]
    assert [outbox.prepare(kind, None).priority for kind in ("payment", "other")] == [70, 0]


def test_the_message_of_an_entry_is_that_of_a_producer():
    """Id, group, time and trace come along."""
    entry = SqlOutbox(source="shop").prepare("k", {"a": 1}, group="g", id="one", traceparent="00-1")
    message = entry.message()

    assert (message.id, message.group, message.source, message.traceparent) == ("one", "g", "shop", "00-1")
    assert message.message_deduplication_id == "shop#k#one"
    assert abs(message.time.timestamp() - entry.created_at) < 1


def test_an_entry_continues_the_trace_that_it_was_written_in():
    """The relay, which sends it later, has no part in that trace."""
    outbox, current, own = SqlOutbox(), f"00-{'a' * 32}-{'b' * 16}-00", f"00-{'1' * 32}-{'2' * 16}-01"
    with continuing_trace(current):
        entries = [outbox.prepare("k", None), outbox.prepare("k", None, traceparent=own)]

    assert [entry.message().traceparent for entry in entries] == [current, own]


@pytest.mark.parametrize(
    "fields",
    [{"kind": "has space"}, {"group": ""}, {"priority": "high"}, {"priority": 2**40}, {"data": {1, 2}}],
)
def test_a_message_that_breaks_a_rule_is_refused_when_it_is_written(fields):
    """Not by a relay much later."""
    fields = {"kind": "k", "data": None, **fields}

    with pytest.raises(InvalidMessageError):
        SqlOutbox().prepare(fields.pop("kind"), fields.pop("data"), **fields)


@pytest.mark.parametrize("name", ["id", "source", "unique"])
@pytest.mark.parametrize("character", ["\0", "\ud800"])
def test_a_text_that_no_database_holds_is_refused_before_it_reaches_your_connection(
    postgresql_subject, name, character
):
    """After half of a surrogate pair the driver's connection is out of step, and your transaction fails elsewhere."""
    options = {name: f"a{character}"}
    wrong = SqlOutbox(tables=postgresql_subject.tables, source=options.pop("source", "shop"))
    with postgresql_subject.engine.begin() as connection:
        with pytest.raises(InvalidMessageError, match=f"^{name} is 'a"):
            wrong.add(connection, "k", None, **options)
        SqlOutbox(tables=postgresql_subject.tables).add(connection, "k", None)

    assert len(list(postgresql_subject.operations.entries({EntryState.PENDING}))) == 1


@pytest.mark.parametrize("messages", ["text", [{"kind": "k"}]])
def test_what_is_not_a_message_is_refused(messages):
    """By its name, and before anything is written."""
    with pytest.raises(TypeError, match=r"add_many accepts Message\(kind=..., data=...\), not (str|dict)"):
        SqlOutbox().add_many(None, messages)


@pytest.mark.parametrize("messages", [None, Message(kind="k")])
def test_several_messages_are_asked_for(messages):
    """One alone, or none, is named."""
    with pytest.raises(TypeError, match=r"add_many accepts an iterable of Message.*, not (None|one Message)"):
        SqlOutbox().add_many(None, messages)


def test_an_entry_over_400_kb_is_refused_before_any_call():
    """With what the relay notes later kept free."""
    outbox = DynamoOutbox("outbox")
    limit = LARGEST_ITEM_BYTES - RESERVED_BYTES

    assert item_bytes(outbox.entry("k", "x" * (limit - 2000))[0]["Put"]["Item"]) <= limit
    with pytest.raises(EntryTooLargeError, match="put the data into S3"):
        outbox.entry("k", "x" * limit)
    with pytest.raises(MessageTooLargeError):
        outbox.prepare("k", "x" * 2**20)


def test_a_transaction_commits_business_data_and_messages_together(outbox, dynamodb):
    """In one call."""
    with outbox.transaction() as tx:
        tx.put("orders", {"id": "7", "total": 12})
        tx.add("order.placed", {"order": 7})

    assert (count(dynamodb), count(dynamodb, "orders")) == (1, 1)


def test_a_transaction_whose_block_fails_writes_nothing(outbox, dynamodb):
    """The exception goes on to the caller."""
    with pytest.raises(ZeroDivisionError), outbox.transaction() as tx:
        tx.add("order.placed", {"order": 7 // len(tx._actions)})

    assert count(dynamodb) == 0


def test_a_transaction_that_dynamodb_cancels_writes_nothing(outbox, dynamodb):
    """The error says so."""
    dynamodb.put_item(TableName="orders", Item={"id": {"S": "7"}})

    def place():
        with outbox.transaction() as tx:
            tx.add("order.placed", {"order": 7})
            tx.put("orders", {"id": "7"}, ConditionExpression="attribute_not_exists(id)")

    with pytest.raises(AwsError, match="TransactionCanceledException"):
        place()
    assert count(dynamodb) == 0


def test_over_a_hundred_actions_are_refused_before_any_call(outbox, dynamodb):
    """A hundred go."""

    def add(number):
        with outbox.transaction() as tx:
            for one in range(number):
                tx.add("k", one)

    add(100)
    with pytest.raises(TransactionTooLargeError, match="100 actions"):
        add(101)
    assert count(dynamodb) == 100


def test_over_four_megabytes_are_refused_before_any_call(outbox, dynamodb):
    """Whatever they are made of."""

    def add():
        with outbox.transaction() as tx:
            for number in range(12):
                tx.add("k", "x" * 350_000)
                tx.put("orders", {"id": str(number)})

    with pytest.raises(TransactionTooLargeError, match="4,194,304 bytes"):
        add()
    assert count(dynamodb) == 0


def test_a_large_item_of_the_application_is_refused_too(outbox):
    """400 KB an item."""

    def add():
        with outbox.transaction() as tx:
            tx.put("orders", {"id": "7", "text": "x" * 410_000})

    with pytest.raises(TransactionTooLargeError, match="409,600"):
        add()


def test_an_empty_transaction_makes_no_call(outbox):
    """There is nothing to commit."""
    with outbox.transaction():
        pass


def test_an_outbox_is_found_by_its_deployment(monkeypatch):
    """And one that is not there is said so."""
    deployment = make_deployment(LanesConfig.from_dict({"outbox": {"enabled": True}}))
    with_outbox = Deployment(
        config=deployment.config, queues=deployment.queues, table=deployment.table, outbox="entries"
    )
    again = Deployment.from_json(with_outbox.to_json())

    assert again == with_outbox
    assert DynamoOutbox.from_deployment(again).table == "entries"
    with pytest.raises(ConfigurationError, match="has no outbox"):
        DynamoOutbox.from_deployment(deployment)
    monkeypatch.setenv("LANES_DEPLOYMENT", with_outbox.to_json())
    assert DynamoOutbox.from_env().table == "entries"


def test_what_is_written_comes_back_as_it_was(bench):
    """Every field survives the store."""
    (entry,) = bench.write("a", group="g", priority=-7)

    (claimed,) = bench.claim()[0].entries
    assert claimed.message() == entry.message()
    assert (claimed.id, claimed.group, claimed.priority, claimed.lane) == ("a", "g", -7, "MAIN")
    assert claimed.created_at == entry.created_at


def test_nothing_of_a_rolled_back_transaction_is_sent(sqlite_subject, clock):
    """Business data and message commit together or not at all."""
    run = Run(sqlite_subject, clock)
    with sqlite_subject.engine.connect() as connection:
        run.outbox.add(connection, "k", {"n": 1})
        connection.rollback()
    with sqlite_subject.engine.begin() as connection:
        entry = run.outbox.add(connection, "k", {"n": 2})

    assert run.relay.run_once().published == 1
    assert run.sent() == [entry.id]
    assert row_of(entry)["created_at"] >= START


def test_entries_reach_their_lanes_under_their_ids(subject, clock):
    """The deduplication id is the entry's, and the entry says that SQS has it."""
    run = Run(subject, clock)
    run.write("a", "b")
    run.write("h", priority=50)

    outcome = run.relay.run_once()
    assert (outcome.published, outcome.failed, outcome.is_idle) == (3, 0, False)
    assert run.sent("HIGH") == ["h"]
    assert run.sent() == ["a", "b"]
    assert subject.operations.entry("a").state is EntryState.PUBLISHED
    assert subject.operations.entry("h").sequence_number == f"{0:020}"
    assert run.relay.run_once().is_idle


def test_the_message_has_the_id_of_its_entry(subject, clock):
    """Also where whoever wrote the entry gave another one to the body: no entry stops a relay."""
    run = Run(subject, clock)
    entry = run.outbox.prepare("k", None, id="mine")
    subject.write(replace(entry, body=entry.body.replace("mine", "other")))
    run.write("a")

    assert run.relay.run_once().published == 2
    assert run.sent() == ["mine", "a"]
    assert run.state("mine") is EntryState.PUBLISHED


def test_an_id_that_was_written_twice_is_sent_under_that_id(dynamodb_subject, clock):
    """One claim takes one of the two, so that each is marked; SQS drops the second message."""
    run = Run(dynamodb_subject, clock)
    run.write("a")
    run.write("a")

    outcomes = [run.relay.run_once() for _ in range(2)]
    assert [(one.published, one.lock_lost) for one in outcomes] == [(1, 0), (1, 0)]
    assert run.relay.run_once().is_idle


def test_two_databases_have_a_relay_each(tmp_path, clock):
    """They share nothing but the lanes."""
    from tests.support.outbox import SqlSubject

    subjects = [SqlSubject(f"sqlite:///{tmp_path / name}") for name in ("one.db", "two.db")]
    runs = [Run(subject, clock) for subject in subjects]
    runs[0].write("a")
    runs[1].write("b")

    for run in runs:
        run.relay.run_once()
    assert [run.sent() for run in runs] == [["a"], ["b"]]
    for subject in subjects:
        subject.close()
