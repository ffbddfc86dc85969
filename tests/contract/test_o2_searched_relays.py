"""
O2: relays killed at any step, two and four at once, with clocks that differ by seconds.

Each entry is published at least once, never before an earlier one of its group and lane, and twice only where a lock
ran out.
"""

import itertools
import time

import pytest
import sqlalchemy as sa

from lanes.outbox.sql import store as sql_store
from lanes.outbox.sql import writing
from lanes.outbox.sql.store import NO_POSITION, SqlOutboxStore
from tests.support.outbox import DynamoDBSubject
from tests.support.relay_search import LOCK, DynamoDBRelays, SqlRelays, World, check

KILLS = 6
_names = itertools.count()


@pytest.fixture
def postgresql(postgresql_subject):
    """Relays on PostgreSQL."""
    relays = SqlRelays(postgresql_subject)
    yield lambda: relays
    relays.close()


@pytest.fixture
def sqlite(sqlite_subject):
    """Relays on a file of SQLite, which has one lock for all writers."""
    relays = SqlRelays(sqlite_subject)
    yield lambda: relays
    relays.close()


@pytest.fixture
def dynamodb(dynamodb_subject):
    """Relays on a table of their own in DynamoDB for each run."""
    client = dynamodb_subject.client
    return lambda: DynamoDBRelays(DynamoDBSubject(client, f"searched-{next(_names)}"))


def search(subject, seed):
    """Run a seed with two relays, or four if it is odd; check it, and return its record."""
    world = World(subject, seed, relays=4 if seed % 2 else 2, kills=KILLS)
    found = world.run()
    check(world, found)
    return found


@pytest.mark.parametrize(
    ("store", "seeds"),
    [
        ("sqlite", 6),
        *(pytest.param(*one, marks=pytest.mark.deep) for one in (("postgresql", 6), ("dynamodb", 2))),
    ],
)
def test_killed_relays_publish_everything_in_order(store, seeds, request):
    """A few seeds; together they have kills, slow relays and entries sent twice."""
    subject = request.getfixturevalue(store)
    runs = [search(subject(), seed) for seed in range(seeds)]

    assert sum(found.kills for found in runs) == KILLS * seeds
    assert sum(found.slow for found in runs) > 0
    assert any(found.doubled for found in runs)


@pytest.mark.parametrize(
    ("store", "seeds"), [("postgresql", 4), pytest.param("dynamodb", 1, marks=pytest.mark.deep)]
)
def test_four_relays_share_the_work_and_send_every_entry_once_and_in_order(store, seeds, request):
    """Their clocks differ, and none of them is killed or slow."""
    subject = request.getfixturevalue(store)
    for seed in range(seeds):
        assert_shared(subject(), seed)


def assert_shared(subject, seed):
    """Run four relays and check what each of them claimed."""
    world = World(subject, seed, relays=4, kills=0)
    found = world.run()
    check(world, found)
    owners = [claim.relay for claims in found.claims.values() for claim in claims]

    assert found.doubled == []
    # Some may be claimed once more: a slow round returns its rest untried.
    assert len(found.claims) == len(world.entries)
    assert len(set(owners)) > 1


def out_of_order(monkeypatch):
    """Let every entry be a candidate, whatever is before it in its group."""
    row_of = writing.row_of
    monkeypatch.setattr(writing, "row_of", lambda entry, **_: row_of(entry))
    monkeypatch.setattr(sql_store, "first_of", lambda _table, _chain: sa.literal(NO_POSITION))


def test_the_search_without_faults_notices_a_broken_store(postgresql, monkeypatch):
    """Several relays alone are enough to break it."""
    out_of_order(monkeypatch)

    def share_all():
        for seed in range(10):
            assert_shared(postgresql(), seed)

    with pytest.raises(AssertionError):
        share_all()


def without_locks(monkeypatch):
    """End each lock long before its time."""
    ripen = SqlOutboxStore._ripen
    monkeypatch.setattr(
        SqlOutboxStore,
        "_ripen",
        lambda store, connection, now, limit: ripen(store, connection, now + LOCK, limit),
    )
    monkeypatch.setattr(SqlOutboxStore, "_look", lambda _store, _now: (True, True, True))


@pytest.mark.deep
@pytest.mark.parametrize("break_store", [out_of_order, without_locks])
def test_the_search_notices_a_broken_store(postgresql, monkeypatch, break_store):
    """One that ignores the order of groups, and one that does not keep its locks."""
    break_store(monkeypatch)

    def search_all():
        for seed in range(10):
            search(postgresql(), seed)

    with pytest.raises(AssertionError):
        search_all()


# All of 16 such seeds notice each of the broken stores above.
@pytest.mark.deep
@pytest.mark.parametrize(("store", "seeds"), [("postgresql", 20), ("sqlite", 20), ("dynamodb", 4)])
def test_no_seed_breaks_a_promise(store, seeds, request):
    """Many more of them."""
    subject = request.getfixturevalue(store)
    for seed in range(1_000, 1_000 + seeds):
        search(subject(), seed)


@pytest.mark.nightly
@pytest.mark.timeout(0)
@pytest.mark.parametrize("store", ["postgresql", "sqlite", "dynamodb"])
def test_no_new_seed_breaks_a_promise(store, request):
    """For a third of the time each; a failure names its seed."""
    subject = request.getfixturevalue(store)
    ends = time.monotonic() + 20 * request.config.getoption("--minutes")
    for seed in itertools.count(int(time.time())):
        if time.monotonic() >= ends:
            break
        try:
            search(subject(), seed)
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise
