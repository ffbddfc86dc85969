"""Errors of PostgreSQL that pass, and those that do not."""

import contextlib
import socket
import threading

import pytest
import sqlalchemy as sa

from lanes.config import LanesConfig
from lanes.errors import ConfigurationError, OutboxStoreError
from lanes.outbox.rules import lane_shares
from lanes.outbox.sql.database import DRIVER_SETTINGS, _driver_settings, open_engine, sql_errors
from lanes.outbox.sql.store import SqlOutboxStore
from lanes.outbox.telemetry import RelayTelemetry
from tests.support.outbox import Bench, Run
from tests.support.outbox_faults import Told

PSYCOPG = DRIVER_SETTINGS["psycopg"]
PASSES = {
    "08006": "connection failure",
    "25006": "read-only after a failover",
    "25P03": "idle in transaction for too long",
    "26000": "no such prepared statement, behind a pooler",
    "42P05": "a prepared statement of another client, behind a pooler",
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


@pytest.mark.parametrize("state", ["26000", "42P05"])
def test_a_relay_goes_on_after_a_pooler_has_mixed_up_prepared_statements(postgresql_subject, clock, state):
    """With a new connection; the error says how to open the database."""
    run = Run(postgresql_subject, clock)
    run.write("a")
    engine, told, servers = postgresql_subject.engine, [], []

    def mix_up(connection, _cursor, statement, *_):
        if "FOR UPDATE" in statement:
            servers.append(connection.connection.dbapi_connection)
            if len(servers) == 1:
                connection.exec_driver_sql(
                    f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{state}'; END $$"
                )

    sa.event.listen(engine, "before_cursor_execute", mix_up)
    run.relay._telemetry = TellingTelemetry(told)
    run.relay.run(should_stop=lambda: run.sent() == ["a"] or len(told) > 1, pause=lambda _: None)

    assert run.sent() == ["a"]
    assert servers[1] is not servers[0]
    assert ["without prepared statements" in str(error) for error in told] == [True]


@pytest.mark.parametrize(
    ("url", "settings"),
    [
        ("postgresql+psycopg://u:p@h/d", PSYCOPG),
        ("postgresql+psycopg://u:p@h/d?prepare_threshold=none&sslmode=require", PSYCOPG),
        (
            "postgresql+psycopg://u:p@h/d?prepare_threshold=5&keepalives_idle=60",
            {**PSYCOPG, "prepare_threshold": 5, "keepalives_idle": 60},
        ),
        ("postgresql+pg8000://u:p@h/d?timeout=60", {"timeout": 60}),
        ("postgresql+pg8000://u:p@h/d?timeout=none", {"timeout": None}),
        ("postgresql+pg8000://u:p@h/d", {"timeout": 30}),
        ("sqlite:///a.db", {}),
    ],
)
def test_settings_of_the_driver_are_reached_by_the_url(url, settings):
    """As numbers; psycopg prepares nothing by default, so that a pooler can be used, and both notice a dead server."""
    assert _driver_settings(sa.make_url(url)) == settings


def test_a_setting_of_the_driver_that_is_no_number_is_refused():
    """With what is allowed."""
    with pytest.raises(
        ConfigurationError, match="prepare_threshold is 'often' in the URL; use a whole number or"
    ):
        open_engine("postgresql+psycopg://h/d?prepare_threshold=often")


@pytest.mark.parametrize("level", ["SERIALIZABLE", "REPEATABLE READ"])
@pytest.mark.parametrize("place", ["database", "engine"])
def test_two_relays_claim_side_by_side_whatever_the_default_level(postgresql_subject, clock, level, place):
    """The store sets its own level, for its transactions alone: at a higher one the second claim fails."""
    engine = postgresql_subject.engine
    if place == "engine":
        other = sa.create_engine(engine.url, isolation_level=level)
    else:
        other = sa.create_engine(engine.url)
        default = f"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {level}"
        sa.event.listen(other, "connect", lambda driver, _record: set_default(driver, default))
    store = SqlOutboxStore(other, postgresql_subject.tables)
    bench = Bench(postgresql_subject, clock)
    bench.store = store
    bench.write("a", "b", group="g")
    bench.write("c")
    with store.writing() as held:
        assert held.exec_driver_sql("SHOW transaction_isolation").scalar_one() == "read committed"
    with other.connect() as connection:
        shown = connection.exec_driver_sql("SHOW transaction_isolation").scalar_one()
    assert shown == level.lower()

    with store.writing() as first:
        lock = {"owner": "first", "now": clock(), "until": clock() + 60}
        rows = first.execute(store.claim_statement(None, None), {"limit": 1, **lock}).all()
        claim, owner = bench.claim()
        assert [entry.id for entry in claim.entries] == ["c"]
        assert bench.settle(claim, owner) == {"c"}
    other.dispose()

    assert [row.id for row in rows] == ["a"]


def set_default(driver, statement):
    """Set the default of new transactions, as the settings of a database do."""
    cursor = driver.cursor()
    cursor.execute(statement)
    driver.commit()


def test_an_engine_that_commits_each_statement_is_refused(postgresql_subject, clock):
    """Its claims would lock nothing."""
    engine = postgresql_subject.engine.execution_options(isolation_level="AUTOCOMMIT")
    bench = Bench(postgresql_subject, clock)
    bench.store = SqlOutboxStore(engine, postgresql_subject.tables)
    bench.write("a")

    with pytest.raises(ConfigurationError, match="AUTOCOMMIT"):
        bench.claim()


class TellingTelemetry(RelayTelemetry):
    """Telemetry that keeps the reasons of outages."""

    def __init__(self, told):
        self._told = told

    def outage(self, outage, *, now):
        """Keep its reason."""
        self._told.append(outage.reason)


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
    engine.dispose()
    sa.event.listen(engine, "connect", lambda driver, _record: set_default(driver, f"SET {limit} = '50ms'"))
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


def test_a_round_that_the_server_cancels_is_reported_by_name_and_tried_smaller(postgresql_subject, clock):
    """A role with a statement timeout sends on, if only a few entries at a time."""
    told = Told()
    run = Run(postgresql_subject, clock, context={"telemetry": told}, batch=40)
    run.write(*(f"e{number}" for number in range(40)))
    table, slow = postgresql_subject.tables.entries.name, 11
    with postgresql_subject.engine.begin() as connection:
        # As an update of many rows on a busy server: each takes 20 ms.
        connection.exec_driver_sql(
            f"CREATE FUNCTION {table}_slow() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN PERFORM pg_sleep(0.02); RETURN NEW; END $$"
        )
        connection.exec_driver_sql(
            f"CREATE TRIGGER slow BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION {table}_slow()"
        )
    limit = f"SET statement_timeout = '{slow * 20}ms'"
    postgresql_subject.engine.dispose()
    sa.event.listen(postgresql_subject.engine, "connect", lambda driver, _record: set_default(driver, limit))
    pauses = []
    run.relay.run(should_stop=lambda: len(run.sent()) == 40 or len(pauses) > 40, pause=pauses.append)
    postgresql_subject.engine.dispose()

    assert sorted(run.sent()) == sorted(f"e{number}" for number in range(40))
    first = told.outages[0][1]
    assert (first.of, first.cause) == ("outbox", "RoundCancelled")
    assert "statement timeout" in first.reason
    assert "the next round claims at most 20" in first.reason


def test_a_claim_whose_answer_is_lost_is_sent_by_the_next_round(subject, clock):
    """Not only when its lock ends."""
    run = Run(subject, clock)
    run.write("a", "b", group="g")
    run.write("c")
    claim = subject.store.claim

    def lose(*args, **options):
        subject.store.claim = claim
        claim(*args, **options)
        raise OutboxStoreError("connection lost", retryable=True)

    subject.store.claim = lose
    pauses = []
    run.relay.run(should_stop=lambda: len(pauses) == 2, pause=pauses.append)

    assert sorted(run.sent()) == ["a", "b", "c"]


class SilentProxy:
    """Passes bytes on to a server, until it keeps them: TCP's connections stay open, and nobody answers."""

    def __init__(self, port):
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port, self._to = self._server.getsockname()[1], port
        self.is_silent, self._open = False, []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                server = socket.create_connection(("127.0.0.1", self._to))
                self._open += [client, server]
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, one, other):
        with contextlib.suppress(OSError):
            while data := one.recv(65_536):
                if not self.is_silent:
                    other.sendall(data)

    def close(self):
        """Close all connections."""
        for one in (self._server, *self._open):
            one.close()


def test_a_server_that_falls_silent_is_an_outage_within_the_limit_of_the_socket(postgres):
    """And a new connection goes on."""
    proxy = SilentProxy(sa.make_url(postgres.url).port)
    store = SqlOutboxStore.from_url(f"postgresql+pg8000://postgres@127.0.0.1:{proxy.port}/postgres?timeout=1")
    shares = lane_shares(LanesConfig())
    store.setup()
    try:
        assert store.claim(shares, owner="o", now=1.0, locked_until=2.0, limit=1).is_idle
        proxy.is_silent = True
        with pytest.raises(OutboxStoreError) as raised:
            store.claim(shares, owner="o", now=1.0, locked_until=2.0, limit=1)
        assert raised.value.retryable
        proxy.is_silent = False
        assert store.claim(shares, owner="o", now=1.0, locked_until=2.0, limit=1).is_idle
    finally:
        store.engine.dispose()
        proxy.close()


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
