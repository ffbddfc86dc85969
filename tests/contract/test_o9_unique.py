"""
O9: unique entries, of which at most one with a key waits for a relay to take it.

A second one is refused, or the waiting one is kept. The message of a kept entry is handled after the second writer's
commit.
"""

import contextlib
import json
import sqlite3
import threading
from datetime import timedelta
from types import SimpleNamespace

import pytest
import sqlalchemy as sa
from botocore.exceptions import ClientError, EndpointConnectionError

from lanes.errors import AwsError, ConfigurationError, DuplicateEntryError, InvalidMessageError
from lanes.message import Message
from lanes.outbox import DynamoOutbox, EntryFilter, EntryState, Operator
from lanes.outbox.dynamodb.transaction import OutboxTransaction
from lanes.outbox.entry import WAITING, Positions
from lanes.outbox.rules import lane_shares
from lanes.testing.clock import FakeClock
from tests.support.outbox import Run, SqlSubject, bridge_of, new_outbox, published
from tests.support.outbox_faults import CAUSES
from tests.support.sending import ACCEPT, FAIL_CALL, LOSE_CALL, REFUSE, THROTTLE

KEY = "nightly-42"


class Writer:
    """Writes entries with a key, in a transaction of its own each, on any store."""

    def __init__(self, subject, clock, plan=lambda _: ACCEPT):
        self.run = Run(subject, clock, plan=plan, max_attempts=50)
        self.subject = subject
        self.outbox = new_outbox(self.run.config, clock, tables=getattr(subject, "tables", None))

    def add(self, id, **options):
        """Write and commit; give the id of the entry that waits."""
        options = {"unique": KEY, **options}
        if isinstance(self.subject, SqlSubject):
            with self.subject.engine.begin() as connection:
                return self.outbox.add(connection, "k", None, id=id, **options).id
        transaction = self.transaction()
        entry = transaction.add("k", None, id=id, **options)
        transaction.commit()
        return transaction.kept.get(KEY, entry.id)

    def transaction(self, client=None):
        """Begin a transaction of DynamoDB."""
        client = client or self.subject.client
        return OutboxTransaction(
            prepare=self.outbox.prepare_unique, table=self.subject.name, client=client, pause=lambda _: None
        )

    def ids(self):
        """Give the ids of all entries."""
        return sorted(entry.id for entry in self.subject.operations.entries(frozenset(EntryState)))


@pytest.fixture
def writer(subject, clock):
    """Each store."""
    return Writer(subject, clock)


def test_a_second_waiting_entry_is_refused_or_the_first_is_kept(writer):
    """Another key, and entries without one, have nothing to do with it."""
    assert writer.add("a") == "a"
    with pytest.raises(
        DuplicateEntryError, match="the entry 'a' with the unique key 'nightly-42' waits already"
    ):
        writer.add("b")
    assert writer.add("c", on_duplicate="keep") == "a"
    assert writer.add("d", unique="other") == "d"
    assert writer.add("e", unique=None) == "e"
    assert writer.ids() == ["a", "d", "e"]
    assert writer.subject.operations.entry("a").unique_key == KEY


@pytest.mark.parametrize("until", ["claimed", "published", "cancelled"])
def test_the_key_is_free_once_a_relay_has_taken_the_entry(subject, clock, until):
    """From then on its message may have been handled before the second writer commits."""
    writer = Writer(subject, clock)
    writer.add("a")
    if until == "claimed":
        subject.store.claim(shares(writer), owner="o", now=clock(), locked_until=clock() + 60, limit=9)
    elif until == "cancelled":
        Operator(store=subject.operations, config=writer.run.config, who="ops", clock=clock).cancel(
            EntryFilter()
        )
    else:
        writer.run.relay.run_once()

    assert writer.add("b") == "b"
    with pytest.raises(DuplicateEntryError):
        writer.add("c")


def test_a_cancelled_entry_that_is_retried_waits_without_its_key(writer, clock):
    """A later entry has it meanwhile, and keeps it."""
    operations = writer.subject.operations
    operator = Operator(store=operations, config=writer.run.config, who="ops", clock=clock)
    writer.add("a")
    operator.cancel(EntryFilter())
    writer.add("b")
    assert operator.retry(EntryFilter(ids=("a",))) == 1

    assert [operations.entry(one).unique_key for one in ("a", "b")] == [None, KEY]
    assert writer.add("c", on_duplicate="keep") == "b"


@pytest.mark.parametrize("fails_at", [1, 2, 3])
def test_a_cancel_that_fails_at_any_call_leaves_one_that_waits(dynamodb_subject, clock, fails_at):
    """The key and its entry end together."""
    writer, calls = Writer(dynamodb_subject, clock), []
    operations = dynamodb_subject.operations
    operator = Operator(store=operations, config=writer.run.config, who="ops", clock=clock)
    writer.add("a")

    def die(**_):
        calls.append(None)
        if len(calls) == fails_at:
            raise KeyboardInterrupt

    events = dynamodb_subject.client.meta.events
    for call in ("UpdateItem", "TransactWriteItems"):
        events.register(f"before-call.dynamodb.{call}", die)
    with contextlib.suppress(KeyboardInterrupt):
        operator.cancel(EntryFilter())
    for call in ("UpdateItem", "TransactWriteItems"):
        events.unregister(f"before-call.dynamodb.{call}", die)

    writer.add("b", on_duplicate="keep")
    waiting = [one for one in ("a", "b") if (found := operations.entry(one)) and found.state in WAITING]
    assert waiting == (["a"] if fails_at < 3 else ["b"])


@pytest.mark.parametrize("fails", [REFUSE, FAIL_CALL])
def test_an_entry_that_was_claimed_and_not_sent_waits_with_its_key_again(subject, clock, fails):
    """Of half an hour of adds, one a minute, one entry waits; also where SQS refused it alone."""
    writer = Writer(subject, clock, plan=lambda _: fails)
    for number in range(31):
        assert writer.add(f"e{number:02}", on_duplicate="keep") == "e00"
        writer.run.relay.run_once()
        clock.advance(60)

    assert writer.ids() == ["e00"]


@pytest.mark.parametrize("lost", ["answer", "relay"])
def test_an_entry_that_may_have_been_sent_is_not_kept(subject, clock, lost):
    """Its message may have been handled before this commit, also if a later attempt clearly fails."""
    answers = iter([LOSE_CALL, THROTTLE])
    writer = Writer(subject, clock, plan=lambda _: next(answers, ACCEPT))
    writer.add("a")
    if lost == "answer":
        writer.run.relay.run_once()
        clock.advance(60)
    else:
        next(answers)
        subject.store.claim(shares(writer), owner="o", now=clock(), locked_until=clock() + 60, limit=9)
        clock.advance(60)
        writer.run.relay.run_once()
    writer.run.relay.run_once()

    assert writer.add("b", on_duplicate="keep") == "b"
    assert writer.add("c", on_duplicate="keep") == "b"
    clock.advance(60)
    writer.run.relay.run_until(clock() + 1)
    assert sorted(writer.run.sent()) == ["a", "b"]


def test_few_entries_of_a_key_wait_while_no_answer_comes(subject, clock):
    """Only those that a relay has tried, one at a time, and one more."""
    writer = Writer(subject, clock, plan=lambda _: LOSE_CALL)
    for number in range(31):
        writer.add(f"e{number:02}", on_duplicate="keep")
        writer.run.relay.run_once()
        clock.advance(60)

    assert len(writer.ids()) < 5


@pytest.mark.parametrize(
    ("store", "is_open"),
    [("sqlite", False), ("postgresql", False), ("postgresql", True), ("dynamodb", False)],
)
def test_an_entry_comes_back_while_another_one_has_its_key(store, request, clock, is_open):
    """Both are sent: no writer was told otherwise. The relay does not wait for the other one's open transaction."""
    subject = request.getfixturevalue(f"{store}_subject")
    writer = Writer(subject, clock)
    writer.add("a", group="g")
    writer.add("other", group="g", unique=None)
    send = writer.run.sqs.send_batch
    with contextlib.ExitStack() as opened:

        def add_meanwhile(_url, entries):
            writer.run.sqs.send_batch = send
            if is_open:
                connection = opened.enter_context(subject.engine.begin())
                writer.outbox.add(connection, "k", None, id="b", unique=KEY)
            else:
                writer.add("b")
            return CAUSES["throttled"](entries)

        writer.run.sqs.send_batch = add_meanwhile
        writer.run.relay.run_once()

    assert writer.add("c", on_duplicate="keep") == "b"
    for _ in range(3):
        clock.advance(400)
        writer.run.relay.run_until(clock() + 1)
    sent = writer.run.sent()
    assert sorted(sent) == ["a", "b", "other"]
    assert sent.index("a") < sent.index("other")


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_many_entries_may_have_keys(store, request, clock):
    """One of them waits already."""
    writer = Writer(request.getfixturevalue(f"{store}_subject"), clock)
    writer.add("a", unique="1")
    messages = [Message(kind="k", data=number, id=f"m{number}") for number in range(3)]
    with writer.subject.engine.begin() as connection:
        entries = writer.outbox.add_many(
            connection,
            messages,
            unique=lambda message: str(message.data) if message.data else None,
            on_duplicate="keep",
        )
    with writer.subject.engine.connect() as connection, pytest.raises(DuplicateEntryError):
        writer.outbox.add_many(connection, [Message(kind="k")], unique=lambda _: "2")

    assert [entry.id for entry in entries] == ["m0", "a", "m2"]
    assert writer.ids() == ["a", "m0", "m2"]


def test_an_action_of_your_own_transaction_may_have_a_key(dynamodb_subject, clock):
    """It is two actions; the transaction fails while an entry with the key waits, and a relay frees the key."""
    writer = Writer(dynamodb_subject, clock)
    outbox = DynamoOutbox(dynamodb_subject.name, positions=Positions(clock))
    write = dynamodb_subject.client.transact_write_items
    write(TransactItems=outbox.entry("k", None, id="a", unique=KEY))
    with pytest.raises(ClientError, match="ConditionalCheckFailed"):
        write(TransactItems=outbox.entry("k", None, id="b", unique=KEY))
    with pytest.raises(ConfigurationError, match="use `transaction`"):
        outbox.entry("k", None, unique=KEY, on_duplicate="keep")
    writer.run.relay.run_once()
    write(TransactItems=outbox.entry("k", None, id="c", unique=KEY))

    assert writer.run.sent() == ["a"]


def test_an_entry_with_a_key_never_expires():
    """A second writer who keeps it may not know that it does."""
    with pytest.raises(InvalidMessageError, match="an entry that others may keep can't expire"):
        new_outbox().prepare_unique("k", None, {"unique": KEY, "expires": timedelta(hours=1)})


def shares(writer):
    """Give the priorities of all lanes."""
    return lane_shares(writer.run.config)


def test_a_scheduled_entry_has_its_key_until_it_is_taken(writer, clock):
    """So that many changes within a minute are one message at its end."""
    writer.add("a", not_before=timedelta(minutes=1))
    for number in range(3):
        clock.advance(20.1)
        assert writer.add(f"more-{number}", on_duplicate="keep") == "a"
    writer.run.relay.run_once()

    assert writer.run.sent() == ["a"]
    assert writer.add("b") == "b"


@pytest.mark.parametrize("wrong", ["", "x" * 129, 7])
def test_a_wrong_key_is_refused(wrong):
    """As is another choice."""
    with pytest.raises(InvalidMessageError, match=r"unique is .* must be a text of 1 to 128 characters"):
        new_outbox().prepare_unique("k", None, {"unique": wrong})
    with pytest.raises(InvalidMessageError, match="on_duplicate is 'drop'; must be 'refuse' or 'keep'"):
        new_outbox().prepare_unique("k", None, {"unique": KEY, "on_duplicate": "drop"})


@pytest.mark.parametrize(("ends", "waiting"), [("commit", "a"), ("rollback", "b")])
@pytest.mark.parametrize("isolation", ["READ COMMITTED", "READ UNCOMMITTED"])
def test_a_writer_waits_for_an_open_transaction_with_the_key(
    postgresql_subject, clock, ends, waiting, isolation
):
    """It takes the key if that is rolled back, and keeps its entry if not."""
    writer = Writer(postgresql_subject, clock)
    first = postgresql_subject.engine.connect()
    writer.outbox.add(first, "k", None, id="a", unique=KEY)
    found = []

    def second():
        with postgresql_subject.engine.connect().execution_options(isolation_level=isolation) as connection:
            found.append(writer.outbox.add(connection, "k", None, id="b", unique=KEY, on_duplicate="keep").id)
            connection.commit()

    thread = threading.Thread(target=second)
    thread.start()
    thread.join(0.2)
    assert found == []
    getattr(first, ends)()
    thread.join(20)
    first.close()

    assert found == [waiting]
    assert writer.ids() == [waiting]


def test_of_many_writers_at_once_one_has_the_key(postgresql_subject, clock):
    """Some of them roll back."""
    writer = Writer(postgresql_subject, clock)

    def write(number):
        with postgresql_subject.engine.connect() as connection:
            writer.outbox.add(connection, "k", None, id=f"e{number}", unique=KEY, on_duplicate="keep")
            if number % 3:
                connection.commit()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert len(writer.ids()) == 1
    writer.run.relay.run_once()
    assert len(writer.run.sent()) == 1


def test_a_kept_entry_is_not_sent_before_the_second_writer_commits(postgresql_subject, clock):
    """Or its handler could miss what that one has changed."""
    writer = Writer(postgresql_subject, clock)
    writer.add("a")
    with postgresql_subject.engine.connect() as connection:
        assert writer.outbox.add(connection, "k", None, unique=KEY, on_duplicate="keep").id == "a"
        writer.run.relay.run_once()
        assert writer.run.sent() == []
        connection.commit()
    writer.run.relay.run_once()

    assert writer.run.sent() == ["a"]


def test_an_entry_that_a_relay_claims_beside_the_insert_is_not_kept(postgresql_subject, clock):
    """It waited when the key was found taken, and does not any more when it is to be locked."""
    writer = Writer(postgresql_subject, clock)
    writer.add("a")

    def relay(_connection, _cursor, statement, *_rest):
        if "FOR KEY SHARE" in statement and not writer.run.sent():
            writer.run.relay.run_once()

    sa.event.listen(postgresql_subject.engine, "before_cursor_execute", relay)
    assert writer.add("b", on_duplicate="keep") == "b"
    assert writer.run.sent() == ["a"]


@pytest.fixture
def impatient(postgresql_subject):
    """PostgreSQL, where a statement that waits for a lock fails."""

    def limit(connection, _record):
        with contextlib.closing(connection.cursor()) as cursor:
            cursor.execute("SET lock_timeout = '500ms'")
        connection.commit()

    sa.event.listen(postgresql_subject.engine, "connect", limit)
    postgresql_subject.engine.dispose()
    return postgresql_subject


@pytest.mark.parametrize("open_is", ["a writer", "an operator"])
@pytest.mark.parametrize("first_is", ["woken", "due"])
def test_no_relay_waits_for_an_open_transaction(impatient, clock, open_is, first_is):
    """It keeps or changes an entry of a waiting group, whose relay goes on with all others."""
    writer = Writer(impatient, clock)
    relay = writer.run.relay
    for one in ("a", "b", "c"):
        writer.add(one, group="g", unique=one)
    held = impatient.store.claim(
        shares(writer), owner="slow", now=clock(), locked_until=clock() + 60, limit=1
    )
    relay.run_until(clock() + 1)
    writer.add("other", unique=None)
    with impatient.engine.connect() as connection:
        for kept in ("b", "c"):
            if open_is == "a writer":
                writer.outbox.add(connection, "k", None, unique=kept, on_duplicate="keep")
            else:
                connection.execute(
                    sa.update(impatient.tables.entries).values(changed_at=1).filter_by(id=kept)
                )
        if first_is == "woken":
            impatient.store.settle([published(one) for one in held.entries], owner="slow", now=clock())
        clock.advance(400)
        relay.run_until(clock() + 1)
        sent = set(writer.run.sent())
        connection.commit()
    clock.advance(1)
    relay.run_until(clock() + 1)

    first = ["a"] if first_is == "due" else []
    assert sent == {*first, "other"}
    assert [one for one in writer.run.sent() if one != "other"] == [*first, "b", "c"]


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_a_savepoint_that_is_rolled_back_frees_the_key(store, request, clock):
    """Also a refusal leaves the transaction usable."""
    writer = Writer(request.getfixturevalue(f"{store}_subject"), clock)
    engine = sa.create_engine(writer.subject.engine.url)
    if store == "sqlite":
        # As SQLAlchemy's documentation shows it, since the driver begins nothing before a savepoint.
        sa.event.listen(engine, "connect", lambda driver, _record: setattr(driver, "isolation_level", None))
        sa.event.listen(engine, "begin", lambda begun: begun.exec_driver_sql("BEGIN"))
    with engine.begin() as connection:
        savepoint = connection.begin_nested()
        writer.outbox.add(connection, "k", None, id="a", unique=KEY)
        savepoint.rollback()
        writer.outbox.add(connection, "k", None, id="b", unique=KEY)
        with pytest.raises(DuplicateEntryError):
            writer.outbox.add(connection, "k", None, id="c", unique=KEY)
        writer.outbox.add(connection, "k", None, id="d")
    engine.dispose()

    assert writer.ids() == ["b", "d"]


def test_a_bridge_has_unique_entries_too(sqlite_subject, clock):
    """Here one around a connection of sqlite3."""
    writer = Writer(sqlite_subject, clock)
    connection = sqlite3.connect(sqlite_subject.engine.url.database)
    for one in ("a", "b"):
        kept = writer.outbox.add(bridge_of(connection), "k", None, id=one, unique=KEY, on_duplicate="keep")
        assert (kept.id, kept.is_scheduled) == ("a", False)
    with pytest.raises(DuplicateEntryError):
        writer.outbox.add(bridge_of(connection), "k", None, unique=KEY)
    connection.commit()
    connection.close()

    assert writer.ids() == ["a"]


def test_a_relay_that_dies_at_any_call_of_a_claim_leaves_the_key_free(dynamodb_subject, clock):
    """A key whose entry is taken would refuse all others for ever."""
    writer = Writer(dynamodb_subject, clock)
    events = dynamodb_subject.client.meta.events
    for dies_at in (1, 2, 3):
        calls = []

        def die(dies_at=dies_at, calls=calls, **_):
            calls.append(None)
            if len(calls) == dies_at:
                raise KeyboardInterrupt

        writer.add(f"a{dies_at}", on_duplicate="keep")
        events.register("before-call.dynamodb.UpdateItem", die)
        with contextlib.suppress(KeyboardInterrupt):
            writer.run.relay.run_once()
        events.unregister("before-call.dynamodb.UpdateItem", die)
        clock.advance(400)
        writer.run.relay.run_until(clock() + 1)
        assert f"a{dies_at}" in writer.run.sent()
        assert writer.add(f"b{dies_at}") == f"b{dies_at}"
        writer.run.relay.run_until(clock() + 1)


def test_an_entry_that_a_relay_could_not_take_has_its_key(dynamodb_subject, clock):
    """Its partition is throttled: it waits on, so no other entry with the key is written."""
    writer = Writer(dynamodb_subject, clock)
    writer.add("a")

    def refuse(params, **_):
        if json.loads(params["body"])["Key"]["pk"]["S"].startswith("entry#"):
            error = {"Code": "ThrottlingException", "Message": "slow down"}
            return SimpleNamespace(status_code=400), {
                "Error": error,
                "ResponseMetadata": {"HTTPStatusCode": 400},
            }
        return None

    events = dynamodb_subject.client.meta.events
    events.register("before-call.dynamodb.UpdateItem", refuse)
    with pytest.raises(AwsError, match="slow down"):
        writer.run.relay.run_once()
    events.unregister("before-call.dynamodb.UpdateItem", refuse)

    assert writer.add("b", on_duplicate="keep") == "a"


def test_an_entry_that_a_relay_takes_beside_the_commit_is_not_kept(dynamodb_subject, clock):
    """The second entry is written then: the first one's message may be handled before this commit."""
    writer = Writer(dynamodb_subject, clock)
    writer.add("a")
    events = dynamodb_subject.client.meta.events

    def relay(**_):
        # After the try that found the key taken.
        events.unregister("after-call.dynamodb.TransactWriteItems", relay)
        writer.run.relay.run_once()

    events.register("after-call.dynamodb.TransactWriteItems", relay)

    assert writer.add("b", on_duplicate="keep") == "b"
    assert writer.ids() == ["a", "b"]


class LosesAnAnswer:
    """A client whose first write is made, and whose answer is lost."""

    def __init__(self, client):
        self._client = client
        self.tokens = []

    def transact_write_items(self, **parameters):
        self.tokens.append(parameters["ClientRequestToken"])
        if len(self.tokens) > 1 and self.tokens[-1] == self.tokens[0]:
            return {}  # AWS: the same token within ten minutes writes nothing (API_TransactWriteItems).
        answer = self._client.transact_write_items(**parameters)
        if len(self.tokens) == 1:
            raise EndpointConnectionError(endpoint_url="https://dynamodb")
        return answer


@pytest.mark.parametrize("guard", ["key", "group"])
def test_a_lost_answer_to_a_commit_writes_nothing_twice(dynamodb_subject, clock, guard):
    """Neither is its own key taken for that of another entry."""
    writer = Writer(dynamodb_subject, clock)
    client = LosesAnAnswer(dynamodb_subject.client)
    transaction = writer.transaction(client)
    if guard == "group":
        transaction.lock_group("g")
    transaction.add("k", None, id="a", group="g", unique=KEY if guard == "key" else None)
    transaction.commit()

    assert writer.ids() == ["a"]


def test_one_transaction_has_a_key_once(dynamodb_subject, clock):
    """DynamoDB takes one action for an item."""
    transaction = Writer(dynamodb_subject, FakeClock()).transaction()
    transaction.add("k", None, id="a", unique=KEY)
    with pytest.raises(DuplicateEntryError):
        transaction.add("k", None, id="b", unique=KEY)
    assert transaction.add("k", None, id="c", unique=KEY, on_duplicate="keep").id == "a"
