"""A claim beside an operator's change, in PostgreSQL's own interleavings."""

import threading

import pytest
import sqlalchemy as sa

from lanes.config import LanesConfig
from lanes.outbox import EntryFilter, Operator
from tests.support.outbox_bench import Bench
from tests.support.waiting import until

LATCH = 77


@pytest.fixture
def latched(postgresql_subject):
    """Let statements of the store that select candidates wait at the second entry, as long as the latch is held."""
    engine, table = postgresql_subject.engine, postgresql_subject.tables.entries.name
    with engine.begin() as connection:
        connection.exec_driver_sql(
            f"CREATE OR REPLACE FUNCTION pass_latch(entry bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN "
            f"IF entry = 2 THEN PERFORM pg_advisory_xact_lock_shared({LATCH}); END IF; RETURN true; END $$"
        )

    def search_by_index(connection, _record):
        cursor = connection.cursor()
        # A sort would come before the locks, and the latch before the sort.
        cursor.execute("SET enable_seqscan = off")
        cursor.execute("SET enable_sort = off")
        connection.commit()

    def wait_there(_connection, _cursor, statement, parameters, _context, _many):
        condition = f"WHERE {table}.is_ready"
        return statement.replace(
            condition, f"WHERE pass_latch({table}.position) AND {table}.is_ready"
        ), parameters

    engine.dispose()
    sa.event.listen(engine, "connect", search_by_index)
    sa.event.listen(engine, "before_cursor_execute", wait_there, retval=True)
    yield engine
    sa.event.remove(engine, "before_cursor_execute", wait_there)


def waits_at_the_latch(connection):
    """Whether a claim has come to the second entry."""
    statement = sa.text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
    return connection.execute(statement).scalar_one() > 0


def test_a_group_that_is_moved_during_a_claim_keeps_its_order(postgresql_subject, clock, latched):
    """The claim passes over the first entry, which an operator changes, and finds the second one moved."""
    bench = Bench(postgresql_subject, clock)
    bench.write("a", "b", group="g")
    operator = Operator(store=bench.operations, config=LanesConfig(), who="ops", clock=clock)
    claimed = []
    claim = threading.Thread(target=lambda: claimed.append(bench.claim()))
    holder = sa.create_engine(latched.url, isolation_level="AUTOCOMMIT").connect()
    holder.execute(sa.select(sa.func.pg_advisory_lock(LATCH)))
    changes = []

    def claim_now(_connection, _cursor, statement, *_):
        if statement.startswith("UPDATE"):
            changes.append(statement)
            # The operator's transaction has changed both entries, and ends after this.
            if len(changes) == 2:
                claim.start()
                until(lambda: waits_at_the_latch(holder))

    sa.event.listen(latched, "after_cursor_execute", claim_now)
    try:
        assert operator.prioritize(EntryFilter(), 100) == 2
    finally:
        holder.execute(sa.select(sa.func.pg_advisory_unlock(LATCH)))
        holder.close()
        holder.engine.dispose()
        claim.join()

    order = []
    first, owner = claimed.pop()
    while first.entries or not order:
        order += [entry.id for entry in first.entries]
        bench.settle(first, owner)
        first, owner = bench.claim()
    assert order == ["a", "b"]
