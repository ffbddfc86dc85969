"""A relay that wakes at a commit in PostgreSQL."""

import statistics
import threading
import time

import pytest
import sqlalchemy as sa

from lanes.outbox.sql.listening import CommitListener
from tests.support.outbox_relay import Run
from tests.support.waiting import until

ENOUGH = 30


@pytest.fixture
def listener(postgresql_subject):
    """It listens for the commits of the subject's table."""
    stopped = threading.Event()
    made = CommitListener(postgresql_subject.engine, postgresql_subject.tables, should_stop=stopped.is_set)
    made.stop = stopped.set
    yield made
    made.close()


def waits(listener):
    """Start to wait in a thread; give what is called when the wait ends."""
    ended = threading.Event()

    def wait():
        listener.wait(ENOUGH)
        ended.set()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return ended, thread


def test_a_commit_ends_the_wait_and_an_open_transaction_does_not(postgresql_subject, listener, clock):
    """Nor does one that is rolled back."""
    run = Run(postgresql_subject, clock)
    assert listener.is_listening
    ended, thread = waits(listener)
    with postgresql_subject.engine.connect() as connection:
        run.outbox._sql = postgresql_subject.tables
        run.outbox.add(connection, "k", None)
        assert not ended.is_set()
        connection.rollback()
        run.outbox.add(connection, "k", None)
        assert not ended.is_set()
        connection.commit()
    assert ended.wait(ENOUGH)
    thread.join()


def test_a_stop_ends_the_wait(listener):
    """A signal is noticed at once, more or less."""
    assert listener.is_listening
    ended, thread = waits(listener)
    listener.stop()
    assert ended.wait(ENOUGH)
    thread.join()


def test_without_its_trigger_a_relay_polls(postgresql_subject, listener):
    """A migration may have left it out: no wait may rest on it."""
    tables = postgresql_subject.tables
    with postgresql_subject.engine.begin() as connection:
        connection.exec_driver_sql(
            f"ALTER TABLE {tables.entries.name} DISABLE TRIGGER {tables.entries.name}_committed"
        )

    assert not listener.is_listening


def test_a_lost_connection_ends_the_wait_and_the_relay_polls(postgresql_subject, listener):
    """Until it is connected again."""
    assert listener.is_listening
    ended, thread = waits(listener)
    with postgresql_subject.engine.connect() as other:
        other.exec_driver_sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        assert ended.wait(ENOUGH)
    thread.join()
    assert not listener.is_listening


def test_sqlite_has_nobody_who_tells(sqlite_subject):
    """It is polled."""
    assert not CommitListener.serves(sqlite_subject.engine)


def test_the_tables_of_metadata_have_the_trigger_too(postgres):
    """As those that `setup` makes."""
    from lanes.outbox.sql.schema import OutboxTables

    engine, metadata = sa.create_engine(postgres.url), sa.MetaData()
    tables = OutboxTables("of_metadata", metadata=metadata)
    metadata.create_all(engine)
    with engine.connect() as connection:
        assert connection.execute(tables.has_trigger()).scalar() == 1
    metadata.drop_all(engine)
    engine.dispose()


class RealTime:
    """The clock of this machine."""

    def __call__(self):
        return time.time()

    def advance(self, seconds):
        """Sleep."""
        time.sleep(seconds)


class Sender:
    """A relay in a thread, and when it sent each entry."""

    def __init__(self, subject, clock):
        self.run = Run(subject, clock, tick="1s")
        self.at = {}
        send = self.run.sqs.send_batch

        def noted(url, entries):
            answers = send(url, entries)
            self.at.update((entry.message_group_id, time.monotonic()) for entry in entries)
            return answers

        self.run.sqs.send_batch = noted


@pytest.mark.nightly
def test_a_relay_sends_within_milliseconds_of_a_commit_and_asks_little_while_idle(
    postgresql_subject, listener
):
    """The median from commit to send, and the statements of an idle relay: figures of this machine."""
    sender = Sender(postgresql_subject, RealTime())
    engine, statements = postgresql_subject.engine, []
    sa.event.listen(engine, "before_cursor_execute", lambda *arguments: statements.append(arguments[2]))
    relay = sender.run.relay
    stopped = threading.Event()
    thread = threading.Thread(
        target=lambda: relay.run(
            should_stop=stopped.is_set,
            pause=lambda length: listener.wait(length.total_seconds()),
            wakes=lambda: listener.is_listening,
        ),
        daemon=True,
    )
    thread.start()
    delays = []
    for number in range(30):
        with engine.connect() as connection:
            sender.run.outbox._sql = postgresql_subject.tables
            sender.run.outbox.add(connection, "k", None, group=f"g{number}")
            connection.commit()
            committed = time.monotonic()
        until(lambda name=f"g{number}": name in sender.at, why="not sent")
        delays.append(sender.at[f"g{number}"] - committed)
        time.sleep(0.05)
    time.sleep(25)  # its pauses have grown by then
    statements.clear()
    began = time.monotonic()
    time.sleep(31)
    rate = len(statements) / (time.monotonic() - began)
    stopped.set()
    listener.stop()
    thread.join(ENOUGH)

    print(f"median {1000 * statistics.median(delays):.1f} ms, {rate:.2f} statements a second idle")  # noqa: T201
    assert rate < 0.5
