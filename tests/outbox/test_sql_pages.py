"""The pages that PostgreSQL reads for a table with many published entries."""

import json
from contextlib import contextmanager

import pytest
import sqlalchemy as sa

from lanes.config import LanesConfig
from lanes.outbox import EntryFilter, Operator
from lanes.outbox.entry import EntryState
from lanes.outbox.sql.database import oldest_snapshot
from tests.support.outbox import Bench

FEW = 200


@contextmanager
def pages_of(subject):
    """Count the pages that statements to the table read, each as it is explained."""
    pages = []

    def explain(_connection, cursor, statement, parameters, *_rest):
        if subject.tables.entries.name in statement:
            # A read is no transaction.
            is_change = not statement.startswith("SELECT")
            if is_change:
                cursor.execute("SAVEPOINT explained")
            cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", parameters)
            (explained,) = cursor.fetchone()
            if is_change:
                cursor.execute("ROLLBACK TO SAVEPOINT explained")
            plan = (json.loads(explained) if isinstance(explained, str) else explained)[0]["Plan"]
            pages.append(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])

    sa.event.listen(subject.engine, "before_cursor_execute", explain)
    yield pages
    sa.event.remove(subject.engine, "before_cursor_execute", explain)


@pytest.mark.parametrize("published", [10_000, pytest.param(200_000, marks=pytest.mark.deep)])
def test_what_is_published_costs_no_pages(postgresql_subject, clock, published):
    """A list, a change of priority, a claim and the counts read what waits, and less than 200 pages."""
    bench = Bench(postgresql_subject, clock)
    (row,) = bench.write("model", group="g")
    claim, owner = bench.claim()
    bench.settle(claim, owner)
    table = postgresql_subject.tables.entries
    others = [column for column in table.c if column.name not in {"position", "id"}]
    numbers = sa.func.generate_series(2, published).table_valued("number").render_derived()
    copies = sa.select(sa.func.concat("p", numbers.c.number), *others)
    copies = copies.join_from(table, numbers, sa.true()).where(table.c.id == row.id)
    with postgresql_subject.engine.begin() as connection:
        connection.execute(table.insert().from_select(["id", *(column.name for column in others)], copies))
    bench.write(*(f"w{number}" for number in range(20)), group="h")
    with postgresql_subject.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql(f"VACUUM ANALYZE {table.name}")
    operator = Operator(store=bench.operations, config=LanesConfig(), who="ops", clock=clock)
    unpublished = EntryFilter(states=frozenset(EntryState) - {EntryState.PUBLISHED})

    with pages_of(postgresql_subject) as listed:
        assert len(list(operator.find(unpublished))) == 20
    with pages_of(postgresql_subject) as changed:
        assert operator.prioritize(EntryFilter(ids=("w1", "w2")), 50) == 2
    with pages_of(postgresql_subject) as claimed:
        assert len(bench.ids(5)) == 5
    with pages_of(postgresql_subject) as counted:
        status = bench.store.status(limit=1000)

    assert (status.counts[EntryState.PUBLISHED], status.is_complete) == (1000, False)
    assert {"list": sum(listed) < FEW, "prioritize": sum(changed) < FEW, "claim": sum(claimed) < FEW} == {
        "list": True,
        "prioritize": True,
        "claim": True,
    }, (listed, changed, claimed)
    assert sum(counted) < FEW, counted


def test_a_list_reads_no_bodies(bench):
    """They may have a megabyte each; one entry is shown with its own."""
    bench.write("a")

    (listed,) = bench.operations.entries({EntryState.PENDING})
    assert listed.body == ""
    assert bench.operations.entry("a").message().data == {"id": "a"}


def test_the_transaction_that_keeps_dead_rows_is_named(postgresql_subject):
    """By its process and the name of its application."""
    engine = postgresql_subject.engine
    assert oldest_snapshot(sa.create_engine("sqlite://")) is None
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as report:
        report.exec_driver_sql("SET application_name = 'report'")
        process = report.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        held = oldest_snapshot(engine)
        report.rollback()

    assert (held.process, held.name) == (process, "report")
    assert held.seconds >= 0
