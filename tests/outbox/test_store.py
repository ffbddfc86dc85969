"""Reading entries and counting them, on every store."""

import re
import sqlite3
from collections import Counter
from contextlib import closing, contextmanager
from random import Random

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import IntegrityError

from lanes.config import LanesConfig
from lanes.outbox import EntryFilter, Operator
from lanes.outbox.dynamodb.table import (
    DUE,
    PARTS,
    READY,
    claim_order,
    create_table,
    item_of,
    part_of,
    part_of_key,
    parts_of,
)
from lanes.outbox.entry import EntryState
from lanes.outbox.rules import Mark
from lanes.outbox.sql.operations import PAGE
from tests.support.outbox import LOCK, SHARES, Bench, abandoned, failed, new_outbox


def test_a_group_that_is_moved_beside_a_relay_comes_to_its_new_lane_in_order(dynamodb_subject, clock):
    """Though its later entry is parked, and listed first."""
    bench = Bench(dynamodb_subject, clock)
    bench.write("a", group="g")
    bench.write("b", group="g", priority=1)
    assert bench.ids(1) == []
    operator = Operator(store=bench.operations, config=LanesConfig(), who="ops", clock=clock)
    claims = []

    def claim_once(**_):
        if not claims:
            claims.append(None)
            claims.append(bench.claim(shares=SHARES[:1]))

    dynamodb_subject.client.meta.events.register("after-call.dynamodb.UpdateItem", claim_once)
    assert operator.prioritize(EntryFilter(), 100) == 2
    first, owner = claims[1]
    bench.settle(first, owner)

    assert [*(entry.id for entry in first.entries), *bench.ids()] == ["a", "b"]


def test_a_group_that_is_moved_during_a_claim_keeps_its_order(postgresql_subject, clock):
    """The claim passes over entries that an operator is changing, and finds them in order afterwards."""
    bench = Bench(postgresql_subject, clock)
    bench.write("a", "b", group="g")
    bench.write("x")
    operator = Operator(store=bench.operations, config=LanesConfig(), who="ops", clock=clock)
    changes, beside = [], []

    def claim_now(_connection, _cursor, statement, *_):
        if statement.startswith("UPDATE"):
            changes.append(statement)
            # The operator's transaction has changed both entries, and ends after this.
            if len(changes) == 2:
                beside.append(bench.ids())

    sa.event.listen(postgresql_subject.engine, "after_cursor_execute", claim_now)
    assert operator.prioritize(EntryFilter(group="g"), 100) == 2
    sa.event.remove(postgresql_subject.engine, "after_cursor_execute", claim_now)

    assert beside == [["x"]]
    assert bench.sent() == ["a", "b"]


def test_entries_are_found_by_state_and_only_once(bench):
    """Each state on its own, however many there are."""
    bench.write(*(f"p{number}" for number in range(120)))
    claim, owner = bench.claim(2)
    bench.settle(claim, owner, p1=failed(claim.entries[1], due_at=bench.clock() + 60))

    found = [entry.id for entry in bench.operations.entries({EntryState.PENDING})]
    assert len(found) == len(set(found)) == 118
    assert [entry.id for entry in bench.operations.entries({EntryState.PUBLISHED})] == ["p0"]
    assert [entry.id for entry in bench.operations.entries({EntryState.FAILED})] == ["p1"]


def test_many_entries_of_a_database_are_read_in_pages(sqlite_subject, clock):
    """Each entry once, in order, when a page ends at its last one."""
    bench = Bench(sqlite_subject, clock)
    bench.write(*(f"p{number:04}" for number in range(2 * PAGE)))

    found = [entry.id for entry in bench.operations.entries({EntryState.PENDING})]

    assert found == [f"p{number:04}" for number in range(2 * PAGE)]


# What SQLite calls an index, a row without a table, and the rows that a claim has chosen.
OF_NO_TABLE = re.compile("INDEX|CONSTANT ROW|SCAN top")


def test_a_relay_searches_a_database_by_its_indexes(sqlite_subject, clock):
    """So a claim costs the same at any backlog, as far as SQLite says how it reads the table."""
    bench = Bench(sqlite_subject, clock)
    bench.write("a", "b", group="g")
    with asked_of(sqlite_subject) as asked:
        claim, owner = bench.claim(1)
        bench.claim(1)
        bench.settle(claim, owner)
        bench.store.remove_expired(now=clock(), limit=5)

    with sqlite_subject.engine.connect() as connection:
        plans = [
            row.detail
            for statement, parameters in asked
            for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
        ]
    assert len(asked) > 6
    assert [plan for plan in plans if plan.startswith("SCAN") and not OF_NO_TABLE.search(plan)] == []


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_a_round_takes_as_many_statements_for_many_groups_as_for_one(store, request, clock):
    """A statement for each group would take most of the round."""
    subject = request.getfixturevalue(f"{store}_subject")
    bench = Bench(subject, clock)
    counts = []
    for groups in (1, 50):
        for number in range(50):
            bench.write(f"{groups}-{number}", group=f"g{number % groups}")
        with asked_of(subject) as asked:
            claim, owner = bench.claim(50)
            assert len(bench.settle(claim, owner)) == 50
        counts.append(len(asked))

    # A look, the candidates, the marks, and the first entries of their groups. For one group also the entries behind
    # its candidate, in two, and the rows of the writers that parked them, in three.
    assert counts == [9, 4]


def test_a_due_entry_comes_before_less_urgent_ones_that_wait(bench):
    """Also where a claim finds enough entries without it."""
    bench.write("urgent", priority=100)
    claim, owner = bench.claim(1)
    bench.settle(claim, owner, urgent=failed(claim.entries[0], due_at=bench.clock() + 60))
    bench.write("p0", "p1", "p2")

    before, _ = bench.claim(1)
    bench.clock.advance(60)
    after, _ = bench.claim(1)

    assert [entry.id for entry in (*before.entries, *after.entries)] == ["p0", "urgent"]


@contextmanager
def asked_of(subject):
    """Note the statements to the table and their parameters."""
    asked = []

    def listen(_connection, _cursor, statement, parameters, _context, _many):
        if subject.tables.entries.name in statement:
            asked.append((statement, parameters))

    sa.event.listen(subject.engine, "before_cursor_execute", listen)
    yield asked
    sa.event.remove(subject.engine, "before_cursor_execute", listen)


def test_relays_read_past_entries_that_another_one_has_locked(sqlite_subject):
    """Or they would wait for each other; SQLite, which has one lock, leaves the words out."""
    store = sqlite_subject.store
    for statement in (store.claim_statement(None, None), store._claim_places, store._make_ready):
        assert "SKIP LOCKED" in str(statement.compile(dialect=postgresql.dialect()))


def test_a_database_takes_an_id_once(sqlite_subject, clock):
    """A transaction that writes it again fails as a whole, so the first entry is the only one."""
    bench = Bench(sqlite_subject, clock)
    bench.write("a")

    with pytest.raises(IntegrityError):
        bench.write("b", "a")

    assert [entry.id for entry in bench.operations.entries({EntryState.PENDING})] == ["a"]


def test_two_kinds_with_one_id_are_two_entries(bench):
    """They are two messages; a claim takes one of them, since a relay marks by id."""
    bench.subject.write(
        *(bench.outbox.prepare(kind, None, id="a") for kind in ("order.placed", "order.paid"))
    )
    kinds = []
    for _ in range(2):
        claim, owner = bench.claim()
        kinds += [entry.kind for entry in claim.entries]
        bench.settle(claim, owner)

    assert kinds == ["order.placed", "order.paid"]


def test_a_scan_in_pages_removes_no_more_than_asked_for(dynamodb_subject, clock):
    """AWS: a scan answers at most 1 MB at a time (API_Scan); here each answer has two items."""
    bench = Bench(dynamodb_subject, clock)
    bench.write(*(f"e{number}" for number in range(8)))
    claim, owner = bench.claim()
    marks = [
        Mark(entry=entry, state=EntryState.PUBLISHED, attempts=0, sequence_number="7", expires_at=clock())
        for entry in claim.entries
    ]
    bench.store.settle(marks, owner=owner, now=clock())
    pages = dynamodb_subject.client.meta.events
    pages.register("provide-client-params.dynamodb.Scan", lambda params, **_: {**params, "Limit": 2})

    assert bench.store.remove_expired(now=clock() + 1, limit=5) == 5
    assert bench.store.remove_expired(now=clock() + 1, limit=5) == 3


def test_the_standing_counts_what_is_unfinished(bench):
    """Counts by state and the age of the oldest that still waits: nobody waits for an abandoned one."""
    bench.write("a")
    bench.clock.advance(60)
    bench.write("b", "c", "d")
    oldest = bench.clock()
    claim, owner = bench.claim(3)
    a, b, _ = claim.entries
    bench.store.settle([abandoned(a), failed(b, due_at=bench.clock() + 9)], owner=owner, now=bench.clock())

    status = bench.store.status()
    counted = {state: status.counts.get(state, 0) for state in EntryState if state != EntryState.PUBLISHED}
    assert counted == {
        EntryState.PENDING: 1,
        EntryState.PROCESSING: 1,
        EntryState.FAILED: 1,
        EntryState.ABANDONED: 1,
        EntryState.CANCELLED: 0,
    }
    assert status.oldest_at == pytest.approx(oldest, abs=0.001)


@pytest.fixture
def dynamodb_bench(dynamodb_subject, clock):
    """DynamoDB alone, with indexes in parts."""
    return Bench(dynamodb_subject, clock)


def in_one_part(count):
    """Return groups with entries in the same part of an index."""
    names = (f"group-{number}" for number in range(100 * count))
    return [name for name in names if part_of_key(READY, f"group#{name}") == f"{READY}#0"][:count]


def test_a_table_is_made_once(dynamodb_subject):
    """Making it again changes nothing."""
    assert not create_table(dynamodb_subject.client, dynamodb_subject.name)


def test_a_transaction_that_writes_to_sqlite_is_alone_from_its_beginning(sqlite_subject):
    """Two relays that had read the same candidates would fail when they lock them."""
    path = sqlite_subject.engine.url.database

    with (
        sqlite_subject.store.writing(),
        closing(sqlite3.connect(path, timeout=0)) as other,
        pytest.raises(sqlite3.OperationalError, match="locked"),
    ):
        other.execute("BEGIN IMMEDIATE")


def test_an_entry_that_becomes_ready_while_entries_are_listed_is_listed_once(dynamodb_bench):
    """It is read from one index while its lock lasts, and stands in another one when that is read."""
    dynamodb_bench.write("a", priority=-50)
    dynamodb_bench.claim()
    listed = dynamodb_bench.operations.entries({EntryState.PENDING, EntryState.PROCESSING})
    first = next(listed)

    dynamodb_bench.clock.advance(LOCK + 1)
    assert dynamodb_bench.ids(shares=SHARES[:1]) == []
    assert dynamodb_bench.state("a") is EntryState.PENDING

    assert [first.id, *(entry.id for entry in listed)] == ["a"]


@pytest.mark.parametrize("limit", [3, 25])
def test_claims_follow_priority_and_age_over_all_parts(dynamodb_bench, limit):
    """Also where the first entries are all in one part, which is read again until another part has the next one."""
    random = Random(limit)
    groups = iter(in_one_part(20))
    entries = []
    for number in range(40):
        group = next(groups) if number % 2 else None
        priority = 100 if number % 4 == 1 else random.randrange(-100, 100)
        entries += dynamodb_bench.write(f"e{number}", group=group, priority=priority)

    claimed = []
    while ids := dynamodb_bench.ids(limit):
        claimed += ids

    assert claimed == [
        entry.id for entry in sorted(entries, key=lambda entry: claim_order(entry, entry.priority))
    ]


def test_due_entries_of_all_parts_are_candidates_again_the_earliest_first(dynamodb_bench):
    """As many as a claim takes."""
    dynamodb_bench.write(*(f"e{number}" for number in range(30)))
    claim, owner = dynamodb_bench.claim(30)
    now = dynamodb_bench.clock()
    marks = {entry.id: failed(entry, due_at=now + 10 + number) for number, entry in enumerate(claim.entries)}
    dynamodb_bench.settle(claim, owner, **marks)
    dynamodb_bench.clock.advance(60)

    taken = [set(dynamodb_bench.ids(10)) for _ in range(3)]

    assert taken == [{f"e{number}" for number in range(first, first + 10)} for first in (0, 10, 20)]


def test_no_key_of_an_index_has_much_more_than_its_part_of_the_entries(clock):
    """A key takes 1,000 write units a second, and the caller's own transaction waits for the slowest one."""
    outbox = new_outbox(LanesConfig(), clock)
    entries = [
        outbox.prepare("order.placed", {}, group=f"customer-{number}" if number % 2 else None)
        for number in range(4000)
    ]

    counts = Counter(item_of(entry)["ready"]["S"] for entry in entries)

    assert set(counts) == set(parts_of(READY))
    assert max(counts.values()) <= 1.3 * len(entries) / PARTS
    assert {part_of(DUE, entry) for entry in entries} == set(parts_of(DUE))
