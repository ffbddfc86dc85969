"""Errors of PostgreSQL that pass, and those that do not."""

import pytest
import sqlalchemy as sa

from lanes.errors import OutboxStoreError
from lanes.outbox.sql.database import sql_errors
from tests.support.outbox_relay import Run

PASSES = {
    "08006": "connection failure",
    "25006": "read-only after a failover",
    "25P03": "idle in transaction for too long",
    "40001": "serialization failure",
    "40P01": "deadlock",
    "53300": "too many connections",
    "55P03": "lock timeout",
    "57014": "cancelled, or statement timeout",
    "57P01": "shutdown",
    "57P02": "shutdown after a crash",
    "57P03": "starting up",
}
STAYS = {
    "22001": "too long",
    "23505": "not unique",
    "28P01": "wrong password",
    "42501": "missing right",
    "42P01": "no such table",
    "57P04": "database dropped",
}


@pytest.mark.parametrize(
    ("state", "retryable"), [*((one, True) for one in PASSES), *((one, False) for one in STAYS)]
)
def test_a_server_error_is_retried_if_it_passes(postgresql_subject, state, retryable):
    """By its SQLSTATE: the driver has one class for all of them."""
    fail = f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{state}'; END $$"

    with (
        pytest.raises(OutboxStoreError) as raised,
        sql_errors(),
        postgresql_subject.engine.connect() as connection,
    ):
        connection.exec_driver_sql(fail)

    assert raised.value.retryable is retryable


class RefusedError(Exception):
    """An error of another driver, which has the SQLSTATE as an attribute."""

    sqlstate = "25P03"


def test_the_sqlstate_of_other_drivers_counts_as_well():
    """They have fewer errors in the class that is always retried."""
    with pytest.raises(OutboxStoreError) as raised, sql_errors():
        raise sa.exc.InternalError("SELECT 1", {}, RefusedError())

    assert raised.value.retryable


@pytest.mark.parametrize("limit", ["lock_timeout", "statement_timeout"])
def test_a_relay_goes_on_after_a_table_was_locked_for_long(postgresql_subject, clock, limit):
    """By a migration, for example."""
    run = Run(postgresql_subject, clock)
    run.write("a")
    engine, table = postgresql_subject.engine, postgresql_subject.tables.entries
    sa.event.listen(engine, "begin", lambda begun: begun.exec_driver_sql(f"SET LOCAL {limit} = '50ms'"))
    others = sa.create_engine(engine.url)
    with others.connect() as migration:
        migration.exec_driver_sql(f"LOCK TABLE {table.name}")
        pauses = []

        def pause(length):
            pauses.append(length)
            migration.rollback()

        run.relay.run(should_stop=lambda: run.sent() == ["a"], pause=pause)
    others.dispose()

    assert len(pauses) == 1


def test_a_relay_goes_on_after_the_server_has_ended_its_connection(postgresql_subject, clock):
    """In the middle of a claim; the next one has a new connection."""
    run = Run(postgresql_subject, clock)
    run.write("a")
    engine, others = postgresql_subject.engine, sa.create_engine(postgresql_subject.engine.url)

    def end_connections(*_):
        with others.connect() as other:
            other.exec_driver_sql(
                "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity "
                "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )

    sa.event.listen(engine, "before_cursor_execute", end_connections, once=True)
    pauses = []
    run.relay.run(should_stop=lambda: run.sent() == ["a"], pause=pauses.append)
    others.dispose()

    assert len(pauses) == 1


def test_a_relay_leaves_a_server_that_became_read_only(postgresql_subject, clock):
    """After a failover: only a new connection reaches the new primary."""
    run = Run(postgresql_subject, clock)
    run.write("a")
    engine, pauses = postgresql_subject.engine, []
    with engine.connect() as demoted:
        demoted.exec_driver_sql("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
        demoted.commit()

    run.relay.run(should_stop=lambda: run.sent() == ["a"] or len(pauses) > 1, pause=pauses.append)

    assert run.sent() == ["a"]
    assert len(pauses) == 1
