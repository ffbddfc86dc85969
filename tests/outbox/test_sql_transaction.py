"""What an outbox takes as your transaction, and what it refuses before anything is written."""

import asyncio
import enum
import importlib
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace

import pytest
import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from lanes.errors import DuplicateEntryError, InvalidMessageError, OutboxTransactionError
from lanes.message import Message
from lanes.outbox import EntryState, SqlOutbox
from lanes.outbox.sql.bridges import (
    asyncpg_transaction,
    django_transaction,
    psycopg_transaction,
)
from lanes.outbox.sql.schema import OutboxTables
from lanes.outbox.sql.store import SqlOutboxStore
from tests.support.outbox import bridge_of


class Base(orm.DeclarativeBase):
    """Tables of an application."""


class Order(Base):
    """An order with a key that the database makes."""

    __tablename__ = "orders"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)


class Routing(orm.Session):
    """A session that chooses its database itself."""

    def get_bind(self, mapper=None, *, clause=None, **_others):
        """Give the leader for entries."""
        return self.info["leader"] if clause is not None and clause.is_dml else self.info["follower"]


class Awaitable:
    """An object of another library that has the right methods."""

    async def execute(self, *_arguments):
        """Do nothing."""


@pytest.fixture
def outbox():
    """An outbox with the default table."""
    return SqlOutbox()


@pytest.fixture
def databases(tmp_path):
    """Two databases of an application, each with an outbox."""
    engines = [sa.create_engine(f"sqlite:///{tmp_path / name}") for name in ("a.db", "b.db")]
    for engine in engines:
        Base.metadata.create_all(engine)
        SqlOutboxStore(engine).setup()
    yield engines
    for engine in engines:
        engine.dispose()


def ids(engine):
    """Give the ids of the committed entries."""
    table = OutboxTables().entries
    with engine.connect() as connection:
        return list(connection.execute(sa.select(table.c.id).order_by(table.c.position)).scalars())


def test_a_session_of_any_form_is_joined(outbox, databases):
    """A session, a registry of them, one that is bound by its tables, and one on a connection."""
    a, b = databases
    entries = OutboxTables().entries
    sessions = [
        orm.Session(a),
        orm.scoped_session(orm.sessionmaker(a)),
        orm.Session(binds={Base: a}),
        orm.Session(binds={Order: a, entries: a}, bind=b),
        Routing(info={"leader": a, "follower": b}),
    ]
    for session in sessions:
        with closing(session):
            outbox.add(session, "k", None, id="lost")
            session.rollback()
    with a.connect() as connection, orm.Session(connection) as session:
        outbox.add(session, "k", None, id="lost")
    assert (ids(a), ids(b)) == ([], [])

    for number, session in enumerate(sessions):
        entry = outbox.add(session, "k", None, id=f"e{number}")
        assert entry.position > 0
        session.commit()
        session.close()
    assert (ids(a), ids(b)) == (["e0", "e1", "e2", "e3", "e4"], [])


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            lambda a, b: orm.Session(binds={Order: a}, bind=b),
            "several binds .*a.db.*b.db.*none for the table",
        ),
        (lambda a, b: orm.Session(binds={Order: a, OutboxTables().entries: b}), "and nothing else"),
        (lambda _a, _b: orm.Session(), "no database for the outbox"),
        (lambda a, _b: orm.Session(a.execution_options(isolation_level="AUTOCOMMIT")), "AUTOCOMMIT"),
        (lambda a, _b: a, "has none; pass a Session"),
        (lambda a, _b: orm.sessionmaker(a), "call it"),
        (lambda a, _b: async_sessionmaker(a), "call it"),
        (lambda _a, _b: AsyncSession(), r"await outbox\.add_async"),
        (lambda _a, _b: orm.Session, "call it"),
        (lambda _a, _b: Awaitable(), "not tests.Awaitable"),
        (lambda _a, _b: None, "not builtins.NoneType"),
    ],
)
def test_what_has_no_transaction_to_join_is_refused_by_name(outbox, databases, make, reason):
    """With what to pass; neither database has an entry."""
    with pytest.raises(OutboxTransactionError, match=reason):
        outbox.add(make(*databases), "k", None)

    assert [ids(engine) for engine in databases] == [[], []]


def test_a_session_with_data_for_another_database_is_refused(outbox, databases):
    """Though the outbox's table has a bind of its own, which other tables share."""
    a, b = databases
    with orm.Session(binds={Order: a, OutboxTables().entries: b}, bind=b) as session:
        session.add(Order())

        with pytest.raises(OutboxTransactionError, match=r"writes Order to .*a\.db and the table .*b\.db"):
            outbox.add(session, "k", None)


@pytest.mark.parametrize("level", ["option", "engine", "driver"])
def test_a_connection_that_commits_by_itself_is_refused(outbox, databases, level):
    """By SQLAlchemy's option or the driver's own setting: the entry would stay when your transaction fails."""
    url = databases[0].url
    engine = sa.create_engine(url, **({"isolation_level": "AUTOCOMMIT"} if level == "engine" else {}))
    if level == "driver":
        sa.event.listen(engine, "connect", lambda driver, _record: setattr(driver, "isolation_level", None))
    if level == "option":
        engine = engine.execution_options(isolation_level="AUTOCOMMIT")
    with engine.connect() as connection, pytest.raises(OutboxTransactionError, match="AUTOCOMMIT"):
        outbox.add(connection, "k", None)
    engine.dispose()

    assert ids(databases[0]) == []


def test_transactions_of_sqlite_that_sqlalchemy_begins_are_joined(outbox, databases):
    """Its documentation shows how: the driver commits by itself, and an event begins transactions."""
    engine = sa.create_engine(databases[0].url)
    sa.event.listen(engine, "connect", lambda driver, _record: setattr(driver, "isolation_level", None))
    sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    with engine.connect() as connection:
        outbox.add(connection, "k", None, id="lost")
        connection.rollback()
        outbox.add(connection, "k", None, id="kept")
        connection.commit()
    engine.dispose()

    assert ids(databases[0]) == ["kept"]


@pytest.mark.parametrize("begins", ["sqlite3", "sqlalchemy"])
def test_an_entry_in_a_savepoint_of_sqlite_is_refused_or_rolled_back(outbox, databases, begins):
    """The driver begins a transaction at the first write: the end of an earlier savepoint would commit the entry."""
    engine = sa.create_engine(databases[0].url)
    if begins == "sqlalchemy":
        sa.event.listen(engine, "connect", lambda driver, _record: setattr(driver, "isolation_level", None))
        sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    refused = [] if begins == "sqlalchemy" else ["lost", "many", "lock"]
    found = []
    for name, add in (
        ("lost", lambda session: outbox.add(session, "k", None, id="lost", unique="key")),
        ("many", lambda session: outbox.add_many(session, [Message(kind="k", id="many")])),
        ("lock", lambda session: outbox.lock_group(session, "g")),
    ):
        with orm.Session(engine) as session:
            try:
                with session.begin_nested():
                    add(session)
            except OutboxTransactionError as error:
                assert "in a savepoint" in str(error)  # noqa: PT017 - the other engine raises none
                found.append(name)
            session.add(Order())
            session.rollback()
    engine.dispose()

    assert (found, ids(databases[0])) == (refused, [])


def test_a_group_and_a_key_may_be_members_of_an_enum(outbox, postgresql_subject):
    """Another program has only their text: it takes the same lock, and meets the key that waits."""
    region = enum.Enum("Region", {"EU": "eu"}, type=str).EU
    SqlOutboxStore(postgresql_subject.engine).setup()
    with postgresql_subject.engine.connect() as first, postgresql_subject.engine.connect() as second:
        outbox.lock_group(first, region)
        second.exec_driver_sql("SET lock_timeout = 100")
        with pytest.raises(sa.exc.DBAPIError, match="lock timeout"):
            outbox.lock_group(second, "eu")

        outbox.add(first, "k", None, group=region, unique=region)
        with pytest.raises(DuplicateEntryError, match="'eu'"):
            outbox.add(first, "k", None, unique="eu")


def test_an_autocommit_connection_of_postgresql_is_refused(outbox, postgresql_subject):
    """Whoever has set it."""
    engine = postgresql_subject.engine.execution_options(isolation_level="AUTOCOMMIT")
    with engine.connect() as connection, pytest.raises(OutboxTransactionError, match="AUTOCOMMIT"):
        outbox.add(connection, "k", None)


def test_many_entries_are_one_statement_and_keep_their_order(postgresql_subject):
    """Each message with its own group and priority; one that breaks a rule stops all."""
    outbox = SqlOutbox(tables=postgresql_subject.tables)
    messages = [Message(kind="k", data=number, group=f"g{number % 7}") for number in range(1200)]
    asked = []
    engine = postgresql_subject.engine
    sa.event.listen(engine, "before_cursor_execute", lambda *given: asked.append(given[2]))
    with orm.Session(engine) as session:
        with pytest.raises(InvalidMessageError):
            outbox.add_many(session, [*messages, Message(kind="", data=None)])
        entries = outbox.add_many(session, messages)
        session.commit()

    assert len([one for one in asked if one.startswith("INSERT")]) == 2
    assert [entry.id for entry in entries] == [message.id for message in messages]
    positions = [entry.position for entry in entries]
    assert positions == sorted(set(positions))
    with orm.Session(engine) as session:
        assert outbox.add_many(session, []) == []


def test_entries_may_be_committed_in_two_phases(postgresql_subject):
    """PostgreSQL prepares their transaction as any other."""
    outbox = SqlOutbox(tables=postgresql_subject.tables)
    with orm.Session(postgresql_subject.engine, twophase=True) as session:
        outbox.add(session, "order.placed", None)
        session.commit()

    assert len(list(postgresql_subject.operations.entries(frozenset(EntryState)))) == 1


def test_a_table_may_be_in_a_schema(postgresql_subject):
    """In the name, as in the option of the command."""
    url = postgresql_subject.engine.url.render_as_string(hide_password=False)
    with postgresql_subject.engine.begin() as connection:
        connection.exec_driver_sql("CREATE SCHEMA shop")
    store = SqlOutboxStore.from_url(url, table="shop.lanes_outbox")
    store.setup()
    try:
        with store.engine.begin() as connection:
            entry = SqlOutbox(tables=OutboxTables("shop.lanes_outbox")).add(connection, "k", None)
        with store.engine.connect() as connection:
            found = connection.exec_driver_sql("SELECT id FROM shop.lanes_outbox").scalar_one()
        assert found == entry.id
    finally:
        with store.engine.begin() as connection:
            connection.exec_driver_sql("DROP SCHEMA shop CASCADE")
        store.engine.dispose()


class TestBridges:
    """Transactions without SQLAlchemy."""

    def test_a_connection_of_sqlite3_is_refused(self, outbox, databases):
        """Its transactions can't be told from autocommit; SQLAlchemy or Django write to SQLite."""
        with (
            closing(sqlite3.connect(databases[0].url.database)) as connection,
            pytest.raises(OutboxTransactionError, match=r"not sqlite3.Connection; for Django"),
        ):
            outbox.add(connection, "k", None)

    def test_a_database_of_django_needs_its_bridge(self, outbox, databases):
        """Within `transaction.atomic()`, with the order or not at all."""
        django = pytest.importorskip("django", reason="Django is not installed")
        from django.conf import settings
        from django.db import connection, transaction

        if not settings.configured:
            name = databases[0].url.database
            engine = "django.db.backends.sqlite3"
            settings.configure(DATABASES={"default": {"ENGINE": engine, "NAME": name}})
            django.setup()
        for given in (connection, connection.cursor()):
            with pytest.raises(OutboxTransactionError, match=r"django_transaction\(\)"):
                outbox.add(given, "k", None)
        with pytest.raises(OutboxTransactionError, match=r"transaction\.atomic"):
            outbox.add(django_transaction(), "k", None)
        with transaction.atomic():
            outbox.add(django_transaction(), "k", None, id="lost")
            transaction.set_rollback(True)
        with transaction.atomic():
            outbox.add(django_transaction(), "order.placed", {"order": "100 %s"}, id="kept", group="g")
        connection.close()

        assert ids(databases[0]) == ["kept"]

    def test_a_connection_of_psycopg_needs_its_bridge(self, postgresql_subject):
        """Synchronous and asynchronous; with autocommit it needs a transaction."""
        psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
        outbox = SqlOutbox(tables=postgresql_subject.tables)
        url = postgresql_subject.engine.url.set(drivername="postgresql").render_as_string()
        with psycopg.connect(url) as connection:
            with pytest.raises(OutboxTransactionError, match=r"psycopg_transaction\(connection\)"):
                outbox.add(connection, "k", None)
            outbox.add(psycopg_transaction(connection), "k", None)
            connection.rollback()
            outbox.lock_group(psycopg_transaction(connection), "g")
            first = outbox.add(psycopg_transaction(connection), "k", {"rate": "5 %"}, group="g")
        with psycopg.connect(url, autocommit=True) as connection:
            with pytest.raises(OutboxTransactionError, match="autocommit and no transaction"):
                outbox.add(psycopg_transaction(connection), "k", None)
            with connection.transaction():
                second = outbox.add(psycopg_transaction(connection), "k", None)

        class Traced(psycopg.AsyncConnection):
            """A class of an application."""

        async def write():
            async with await Traced.connect(url) as connection:
                with pytest.raises(OutboxTransactionError, match="add_async"):
                    outbox.add(psycopg_transaction(connection), "k", None)
                return await outbox.add_async(psycopg_transaction(connection), "k", None)

        third = asyncio.run(write())
        assert committed(postgresql_subject) == [first.id, second.id, third.id]

    def test_a_connection_of_psycopg_may_be_of_a_class_of_the_application(self, outbox):
        """Whether it is asynchronous is not in its name."""

        class Connection:
            autocommit = False

            async def commit(self):
                """Commit nothing."""

        with pytest.raises(OutboxTransactionError, match="add_async"):
            outbox.add(psycopg_transaction(Connection()), "k", None)

    @pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
    def test_the_rows_of_a_connection_of_psycopg_may_have_any_form(self, postgresql_subject, driver):
        """Many applications read all rows as dicts."""
        module = pytest.importorskip(driver, reason=f"{driver} is not installed")
        if driver == "psycopg":
            options = {"row_factory": importlib.import_module("psycopg.rows").dict_row}
        else:
            options = {"cursor_factory": importlib.import_module("psycopg2.extras").RealDictCursor}
        outbox = SqlOutbox(tables=postgresql_subject.tables)
        url = postgresql_subject.engine.url.set(drivername="postgresql").render_as_string()
        with closing(module.connect(url, **options)) as connection:
            first = outbox.add(psycopg_transaction(connection), "k", None, unique="u")
            kept = outbox.add(psycopg_transaction(connection), "k", None, unique="u", on_duplicate="keep")
            second = outbox.add(psycopg_transaction(connection), "k", None)
            connection.commit()

        assert kept.id == first.id
        assert committed(postgresql_subject) == [first.id, second.id]

    def test_a_pipeline_of_psycopg_is_joined(self, postgresql_subject):
        """Its cursors have no rows before they are fetched."""
        psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
        outbox = SqlOutbox(tables=postgresql_subject.tables)
        url = postgresql_subject.engine.url.set(drivername="postgresql").render_as_string()
        with psycopg.connect(url, client_encoding="sql_ascii") as connection, connection.pipeline():
            bridge = psycopg_transaction(connection)
            first = outbox.add(bridge, "k", None, unique="u")
            kept = outbox.add(bridge, "k", None, unique="u", on_duplicate="keep")
            outbox.lock_group(bridge, "g")
            second = outbox.add(bridge, "k", None, group="g")
            connection.commit()

        assert kept.id == first.id
        assert committed(postgresql_subject) == [first.id, second.id]

    def test_a_driver_may_give_texts_as_bytes(self, outbox, databases):
        """As psycopg does with the encoding SQL_ASCII."""
        with closing(sqlite3.connect(databases[0].url.database)) as connection:
            bridge = bridge_of(connection)

            def run(statement, parameters):
                rows = bridge.run(statement, parameters)
                return [[one.encode() if isinstance(one, str) else one for one in row] for row in rows]

            in_bytes = replace(bridge, run=run)
            first = outbox.add(in_bytes, "k", None, unique="u")
            kept = outbox.add(in_bytes, "k", None, unique="u", on_duplicate="keep")
            (second,) = outbox.add_many(in_bytes, [Message(kind="k")])
            connection.commit()

        assert kept.id == first.id
        assert ids(databases[0]) == [first.id, second.id]

    def test_a_connection_of_asyncpg_needs_its_bridge(self, postgresql_subject):
        """In its transaction."""
        asyncpg = pytest.importorskip("asyncpg", reason="asyncpg is not installed")
        outbox = SqlOutbox(tables=postgresql_subject.tables)
        url = postgresql_subject.engine.url.set(drivername="postgresql").render_as_string()

        async def write():
            connection = await asyncpg.connect(url)
            try:
                with pytest.raises(OutboxTransactionError, match="has no transaction"):
                    await outbox.add_async(asyncpg_transaction(connection), "k", None)
                async with connection.transaction():
                    await outbox.lock_group_async(asyncpg_transaction(connection), "g")
                    many = [Message(kind="k", data=number) for number in range(3)]
                    return await outbox.add_many_async(asyncpg_transaction(connection), many)
            finally:
                await connection.close()

        entries = asyncio.run(write())
        assert committed(postgresql_subject) == [entry.id for entry in entries]


def committed(subject):
    """Give the ids of the committed entries of a store."""
    column = subject.tables.entries.c
    with subject.engine.connect() as connection:
        return list(connection.execute(sa.select(column.id).order_by(column.position)).scalars())


@pytest.mark.parametrize("driver", ["aiosqlite", "asyncpg", "psycopg"])
def test_an_asynchronous_session_writes_with_await(driver, request):
    """Committed with the session's own data, gone with its rollback; `add` refuses it before anything is written."""
    pytest.importorskip(driver, reason=f"{driver} is not installed")
    store = "sqlite" if driver == "aiosqlite" else "postgresql"
    subject = request.getfixturevalue(f"{store}_subject")
    outbox = SqlOutbox(tables=subject.tables)
    url = subject.engine.url.set(drivername=f"{store}+{driver}")

    async def write():
        engine = create_async_engine(url)
        async with AsyncSession(engine) as session:
            with pytest.raises(OutboxTransactionError, match=r"await outbox\.add_async"):
                outbox.add(session, "k", None)
            await outbox.lock_group_async(session, "g")
            await outbox.add_async(session, "k", None, id="lost")
            await session.rollback()
            await outbox.add_async(session, "k", None, id="a")
            await session.run_sync(lambda inner: outbox.add(inner, "k", None, id="b"))
            await session.commit()
        async with engine.begin() as connection:
            await outbox.add_many_async(connection, [Message(kind="k", data=None, id="c")])
        with pytest.raises(OutboxTransactionError, match=r"outbox\.add\(session"):
            await outbox.add_async(orm.Session(), "k", None)
        autocommit = engine.execution_options(isolation_level="AUTOCOMMIT")
        async with autocommit.connect() as connection:
            with pytest.raises(OutboxTransactionError, match="AUTOCOMMIT"):
                await outbox.add_async(connection, "k", None)
        await engine.dispose()

    asyncio.run(write())
    assert committed(subject) == ["a", "b", "c"]


def test_transactions_that_lock_their_group_have_the_order_of_their_commits(postgresql_subject):
    """The second one waits for the first, whichever writes first; other groups don't wait."""
    outbox = SqlOutbox(tables=postgresql_subject.tables)
    engine = postgresql_subject.engine
    started, done = threading.Event(), []

    def second():
        with engine.begin() as connection:
            outbox.lock_group(connection, "other")
            started.set()
            outbox.lock_group(connection, "h", "g")
            done.append(outbox.add(connection, "k", None, id="second", group="g"))

    with engine.begin() as connection:
        outbox.lock_group(connection, "g")
        other = threading.Thread(target=second)
        other.start()
        started.wait()
        outbox.add(connection, "k", None, id="first", group="g")
        assert done == []
    other.join()

    assert committed(postgresql_subject) == ["first", "second"]


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_lock_that_would_not_show_what_it_waited_for_is_refused(postgresql_subject, level):
    """The transaction reads what was there before it waited: its message would say a balance that is gone."""
    outbox = SqlOutbox(tables=postgresql_subject.tables)
    engine = postgresql_subject.engine
    with engine.connect().execution_options(isolation_level=level) as connection:
        with pytest.raises(
            OutboxTransactionError, match=rf"the transaction is {level}: .*use READ COMMITTED"
        ):
            outbox.lock_group(connection, "g")
        locks = sa.text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
        assert connection.execute(locks).scalar_one() == 0


def test_a_server_without_room_for_so_many_locks_is_explained(postgresql_subject):
    """Its driver says no more than out of memory."""
    outbox = SqlOutbox(tables=postgresql_subject.tables)
    with postgresql_subject.engine.connect() as connection:
        many = [f"g{number}" for number in range(60_000)]
        with pytest.raises(
            OutboxTransactionError, match=r"no room for the locks of 60,000 groups.*max_locks"
        ):
            outbox.lock_group(connection, *many)


def test_tables_of_metadata_with_a_naming_convention_are_those_of_setup(postgresql_subject):
    """Or a tool that compares schemas would rename their constraints and indexes."""
    convention = {
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(column_0_label)s",
        "pk": "pk_%(table_name)s",
    }
    name = postgresql_subject.tables.entries.name
    tables = OutboxTables(name, metadata=sa.MetaData(naming_convention=convention))
    found = sa.inspect(postgresql_subject.engine)
    for table in tables.all:
        unique = {str(one.name) for one in table.constraints if isinstance(one, sa.UniqueConstraint)}
        assert unique == {one["name"] for one in found.get_unique_constraints(table.name)}
        assert {str(one.name) for one in table.indexes} == {
            one["name"] for one in found.get_indexes(table.name) if not one.get("duplicates_constraint")
        }


def test_a_lock_of_a_group_makes_writers_of_sqlite_wait(outbox, databases):
    """It has one lock for all."""
    with (
        databases[0].begin() as connection,
        closing(sqlite3.connect(databases[0].url.database, timeout=0)) as other,
    ):
        outbox.lock_group(connection, "g")

        with pytest.raises(sqlite3.OperationalError, match="locked"):
            outbox.lock_group(bridge_of(other), "g")
