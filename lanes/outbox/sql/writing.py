"""
Statements that join a caller's transaction, and what `Outbox.add` accepts for one and refuses by name.

An entry that is committed without the data that it belongs to, or the other way round, is the fault that an outbox
exists to prevent. So nothing is accepted for having an `execute`: only what is known to join your transaction.
"""

from __future__ import annotations

import hashlib
import types
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext import asyncio

from lanes.errors import DuplicateEntryError, OutboxTransactionError
from lanes.message import plain
from lanes.outbox.sql.bridges import BRIDGES, Bridge
from lanes.outbox.sql.database import is_autocommit, sqlstate
from lanes.outbox.sql.schema import Given, as_text, entry_of, first_of, row_of

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterator, Sequence

    from sqlalchemy import Connection, Engine, Table

    from lanes.outbox.entry import Entry
    from lanes.outbox.sql.schema import OutboxTables

    Steps = Generator[Any, Any, Any]

# PostgreSQL takes 65,535 parameters in a statement, SQLite 32,766; an entry has 20.
WRITTEN_AT_ONCE = 1000
MOST_TRIES = 100
# At another level a transaction reads what was there before it waited for the lock.
LOCKING_LEVELS = ("read committed", "read uncommitted")
OUT_OF_MEMORY = "53200"


def write(
    given: object, tables: OutboxTables, entries: Sequence[Entry], *, keeps: bool = False
) -> list[Entry]:
    """
    Write entries in a caller's transaction; return them with the database's numbers, in the same order.

    Args:
        given: the transaction, a session, a connection or a bridge.
        tables: of the outbox.
        entries: the entries.
        keeps: whether an entry that waits with a unique key of these is returned in place of a new one.

    Raises:
        OutboxTransactionError: what was given has no transaction to join; nothing was written.
        DuplicateEntryError: an entry with a key waits.
    """
    joined = join(given, tables.entries)
    written: list[Entry] = _run(joined, _writes(joined, tables, entries, keeps=keeps))
    return written


async def write_async(
    given: object, tables: OutboxTables, entries: Sequence[Entry], *, keeps: bool = False
) -> list[Entry]:
    """Write entries as `write` does, in an asynchronous transaction."""
    joined = join_async(given)
    if not isinstance(joined, Bridge):
        return await joined.run_sync(lambda inner: write(inner, tables, entries, keeps=keeps))
    written: list[Entry] = await _run_async(joined, _writes(joined, tables, entries, keeps=keeps))
    return written


def lock_groups(given: object, tables: OutboxTables, groups: Sequence[str]) -> None:
    """
    Let the caller's transaction wait for others that have locked one of the groups, until it ends.

    Raises:
        OutboxTransactionError: what was given has no transaction to join, or one that would not see what it waited for.
    """
    joined = join(given, tables.entries)
    with _out_of_locks(groups):
        _run(joined, _locks(joined, tables, groups))


async def lock_groups_async(given: object, tables: OutboxTables, groups: Sequence[str]) -> None:
    """Lock groups as `lock_groups` does, in an asynchronous transaction."""
    joined = join_async(given)
    if not isinstance(joined, Bridge):
        await joined.run_sync(lambda inner: lock_groups(inner, tables, groups))
        return
    with _out_of_locks(groups):
        await _run_async(joined, _locks(joined, tables, groups))


def _run(joined: Connection | Bridge, steps: Steps) -> Any:
    """Execute the statements that a generator gives, and send it their rows; return its result."""
    rows: Any = None
    while True:
        try:
            statement, *parameters = steps.send(rows)
        except StopIteration as done:
            return done.value
        result = joined.execute(statement, *parameters)
        rows = result.all() if isinstance(result, sa.CursorResult) and result.returns_rows else result


async def _run_async(joined: Bridge, steps: Steps) -> Any:
    rows: Any = None
    while True:
        try:
            statement, *parameters = steps.send(rows)
        except StopIteration as done:
            return done.value
        rows = await joined.execute(statement, *parameters)


def _writes(
    joined: Connection | Bridge, tables: OutboxTables, entries: Sequence[Entry], *, keeps: bool
) -> Steps:
    """Give the statements that write entries."""
    plain_entries = [entry for entry in entries if entry.unique_key is None]
    if len(plain_entries) == len(entries) > 1:
        return (yield from _write_many(joined, tables, entries))
    written: list[Entry] = []
    for entry in entries:
        one = yield from _write_one(joined, tables, entry, keeps=keeps)
        written.append(one)
    return written


def _write_many(joined: Connection | Bridge, tables: OutboxTables, entries: Sequence[Entry]) -> Steps:
    table = tables.entries
    chains = {entry.chain for entry in entries if entry.chain is not None and not entry.is_scheduled}
    waiting: set[str] = set()
    if chains:
        given = Given(joined.dialect, "chains", {"chain": sa.Text()})
        has_entries = first_of(table, given.table.c.chain).is_not(None)
        found = yield (
            sa.select(given.table.c.chain).where(has_entries),
            given.parameters([(one,) for one in chains]),
        )
        waiting = {as_text(row[0]) for row in found}
    seen: set[str | None] = {*waiting}
    rows = []
    for entry in entries:
        is_in_group = entry.chain is not None and not entry.is_scheduled
        rows.append(row_of(entry, is_parked=is_in_group and entry.chain in seen))
        if is_in_group:
            seen.add(entry.chain)
    numbers: list[int] = []
    if isinstance(joined, Bridge):
        for start in range(0, len(rows), WRITTEN_AT_ONCE):
            insert = table.insert().values(rows[start : start + WRITTEN_AT_ONCE])
            found = yield (insert.returning(table.c.position, table.c.id, table.c.kind, table.c.source),)
            by_identity = {tuple(map(as_text, identity)): position for position, *identity in found}
            some = entries[start : start + WRITTEN_AT_ONCE]
            numbers += [by_identity[entry.id, entry.kind, entry.source] for entry in some]
    else:
        found = yield table.insert().returning(table.c.position, sort_by_parameter_order=True), rows
        numbers = [row[0] for row in found]
    yield from _list_groups(tables, waiting)
    return [replace(entry, position=number) for entry, number in zip(entries, numbers, strict=True)]


def _write_one(joined: Connection | Bridge, tables: OutboxTables, entry: Entry, *, keeps: bool) -> Steps:
    """
    Give the statements that write an entry, unless one with its unique key waits.

    The waiting one stays locked until the caller's transaction ends, so no relay sends it before: its message is
    handled after what the caller commits. In SQLite the insert has locked the database.
    """
    table = tables.entries
    is_in_group = entry.chain is not None and not entry.is_scheduled
    is_parked: Any = first_of(table, entry.chain).is_not(None) if is_in_group else False
    row = row_of(entry, is_parked=is_parked)
    if entry.unique_key is None:
        ((position, parked),) = yield (
            table.insert().values(row).returning(table.c.position, table.c.is_parked),
        )
        yield from _list_groups(tables, {entry.chain} if parked else ())
        return replace(entry, position=position)
    key = table.c.waiting_key
    insert: Any = (sqlite if joined.dialect.name == "sqlite" else postgresql).insert(table).values(row)
    new = insert.on_conflict_do_nothing(index_elements=[key], index_where=key.is_not(None))
    # The weakest lock: a relay's claim passes over the row, and nothing else waits for it.
    waiting = sa.select(table).where(key == entry.unique_key).with_for_update(read=True, key_share=True)
    for _ in range(MOST_TRIES):
        if rows := (yield (new.returning(table.c.position, table.c.is_parked),)):
            yield from _list_groups(tables, {entry.chain} if rows[0][1] else ())
            return replace(entry, position=rows[0][0])
        if rows := (yield (waiting,)):
            found = entry_of(dict(zip(table.c.keys(), rows[0], strict=True)))
            if not keeps:
                raise DuplicateEntryError(key=entry.unique_key, waiting=found.id)
            return found
        # A relay has claimed it between the two.
    raise OutboxTransactionError(f"the unique key {entry.unique_key!r} is taken and released again and again")


def _list_groups(tables: OutboxTables, chains: Collection[str | None]) -> Steps:
    """
    List groups whose entries of this transaction are parked.

    The relay that ends the entry before them may not see them; the next claim looks at these groups.
    """
    if chains:
        rows = [{"chain": chain} for chain in sorted(map(str, chains))]
        yield (tables.groups.insert().values(rows).returning(tables.groups.c.number),)


def _locks(joined: Connection | Bridge, tables: OutboxTables, groups: Sequence[str]) -> Steps:
    table = tables.entries
    if joined.dialect.name == "sqlite":
        # A database has one lock for all writers; this takes it and changes nothing.
        yield (
            table.update().values(position=table.c.position).where(sa.false()).returning(table.c.position),
        )
        return
    level = sa.func.current_setting("transaction_isolation")
    given = Given(joined.dialect, "locks", {"key": sa.BigInteger()})
    # In one order, so that two transactions never wait for each other.
    ordered = sa.select(given.table.c.key).order_by(given.table.c.key).subquery("ordered")
    # The lock of a transaction ends after its commit can be seen, and with a pooler it stays with its server.
    lock = sa.cast(sa.func.pg_advisory_xact_lock(ordered.c.key), sa.Text)
    sees_what_it_waits_for = sa.or_(*(level == one for one in LOCKING_LEVELS))
    keys = {_key_of(tables, group) for group in groups}
    found = yield (
        sa.select(level, sa.case((sees_what_it_waits_for, lock))),
        given.parameters((key,) for key in keys),
    )
    shown = as_text(found[0][0]) if found else LOCKING_LEVELS[0]
    if shown not in LOCKING_LEVELS:
        raise OutboxTransactionError(
            f"the transaction is {shown.upper()}: it reads what was there before it waited for the group; "
            f"use READ COMMITTED, or take a lock of your session (pg_advisory_lock) before the transaction begins"
        )


@contextmanager
def _out_of_locks(groups: Sequence[str]) -> Iterator[None]:
    """Explain the error of a server that has no room for the locks of so many groups."""
    try:
        yield
    except Exception as error:
        if sqlstate(getattr(error, "orig", None) or error) != OUT_OF_MEMORY:
            raise
        problem = f"the server has no room for the locks of {len(groups):,} groups"
        remedy = "lock fewer in a transaction, or raise max_locks_per_transaction"
        raise OutboxTransactionError(f"{problem}; {remedy}") from error


def _key_of(tables: OutboxTables, group: str) -> int:
    """Return the 64 bits of an advisory lock; groups that share them by chance wait for each other, no more."""
    digest = hashlib.sha256(f"{tables.entries.fullname}\0{plain(group)}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def join(given: object, table: Table) -> Connection | Bridge:
    """
    Return the connection whose transaction entries join.

    Args:
        given: a session or a connection of SQLAlchemy, or a bridge.
        table: the table of the entries.

    Raises:
        OutboxTransactionError: entries can't join a transaction of it.
    """
    if isinstance(given, Bridge):
        return given.checked(is_async=False)
    if isinstance(given, orm.scoped_session):
        given = given()
    if isinstance(given, orm.Session):
        given = given.connection(bind_arguments={"bind": _bind_of(given, table)})
    if isinstance(given, sa.Connection):
        return _with_transaction(given)
    raise OutboxTransactionError(_refusal(given, "outbox.add"))


def join_async(given: object) -> asyncio.AsyncSession | asyncio.AsyncConnection | Bridge:
    """
    Return the asynchronous session or connection that runs `join`.

    Raises:
        OutboxTransactionError: it is not one.
    """
    if isinstance(given, Bridge):
        return given.checked(is_async=True)
    if isinstance(given, asyncio.async_scoped_session):
        given = given()
    if isinstance(given, (asyncio.AsyncSession, asyncio.AsyncConnection)):
        return given
    raise OutboxTransactionError(_refusal(given, "outbox.add_async"))


def _with_transaction(connection: Connection) -> Connection:
    if is_autocommit(connection):
        raise OutboxTransactionError(
            "the connection is in AUTOCOMMIT: the entry would stay when your transaction fails; use a connection at "
            "another isolation level"
        )
    if connection.in_nested_transaction() and _begins_late(connection):
        raise OutboxTransactionError(
            "the connection is in a savepoint, and sqlite3 begins no transaction before one by itself: the entry would "
            "stay when your transaction fails; let SQLAlchemy begin it, with isolation_level = None in the event "
            "'connect' and BEGIN in the event 'begin', or add the entry outside of the savepoint"
        )
    return connection


def _begins_late(connection: Connection) -> bool:
    """Whether the driver begins a transaction at the first write, so that the end of a savepoint may commit it."""
    if connection.dialect.name != "sqlite":
        return False
    own: Any = connection.connection.driver_connection
    return own.isolation_level is not None and getattr(own, "autocommit", None) is not False


def _bind_of(session: orm.Session, table: Table) -> Engine | Connection:
    """Return the session's own bind for the table, if it is certain that the caller's data go there as well."""
    bind = _stated_bind(session, table)
    for pending in (*session.new, *session.dirty, *session.deleted):
        other = session.get_bind(sa.inspect(pending, raiseerr=True).mapper)
        if other is not bind:
            raise OutboxTransactionError(
                f"the session writes {type(pending).__name__} to {_named(other)} and the table {table.fullname} to "
                f"{_named(bind)}, in two transactions; bind both to one database in Session(binds=...)"
            )
    return bind


def _stated_bind(session: orm.Session, table: Table) -> Engine | Connection:
    statement = table.insert()
    if type(session).get_bind is not orm.Session.get_bind:
        return _asked_bind(session, statement)
    # SQLAlchemy 2.0 has no public name for them.
    binds: dict[Any, Any] = getattr(session, "binds", None) or getattr(session, "_Session__binds", {})
    own = [bind for key, bind in binds.items() if getattr(key, "fullname", None) == table.fullname]
    others = [bind for key, bind in binds.items() if getattr(key, "fullname", None) != table.fullname]
    if session.bind is not None:
        others.append(session.bind)
    stated = own or others
    if not stated:
        return _asked_bind(session, statement)
    if any(bind is not stated[0] for bind in stated):
        names = ", ".join(sorted({_named(bind) for bind in stated}))
        raise OutboxTransactionError(
            f"the session has several binds ({names}) and none for the table {table.fullname}; add it to "
            f"Session(binds=...), as the key OutboxTables().entries, with the database of your own data"
        )
    if others and not any(bind is stated[0] for bind in others):
        raise OutboxTransactionError(
            f"the session binds the table {table.fullname} to {_named(stated[0])} and nothing else, so your data go to "
            f"another transaction; bind it to the database of your own data"
        )
    found: Engine | Connection = stated[0]
    return found


def _asked_bind(session: orm.Session, statement: Any) -> Engine | Connection:
    try:
        return session.get_bind(clause=statement)
    except sa.exc.UnboundExecutionError as error:
        raise OutboxTransactionError(f"the session has no database for the outbox: {error}") from error


def _named(bind: Engine | Connection) -> str:
    return bind.engine.url.render_as_string(hide_password=True)


def _refusal(given: object, called: str) -> str:
    """Say what was passed, why it can't be joined, and what to pass."""
    name = f"{type(given).__module__.partition('.')[0]}.{type(given).__name__}"
    if isinstance(given, (asyncio.AsyncSession, asyncio.AsyncConnection, asyncio.async_scoped_session)):
        return f"{called} can't wait for {name}; use `await outbox.add_async(session, ...)`"
    if isinstance(given, (orm.Session, orm.scoped_session, sa.Connection)):
        return f"{called} takes asynchronous sessions and connections, not {name}; use `outbox.add(session, ...)`"
    if isinstance(given, (sa.Engine, asyncio.AsyncEngine)):
        return f"{called} takes a transaction, and {name} has none; pass a Session or `engine.begin()`'s connection"
    if isinstance(given, (orm.sessionmaker, asyncio.async_sessionmaker, type, types.FunctionType)):
        return f"{called} takes a session, not what makes one ({name}); call it, and pass your transaction's session"
    module = given.__name__ if isinstance(given, types.ModuleType) else type(given).__module__
    if bridge := BRIDGES.get(module.partition(".")[0]):
        return f"{called} does not take {name} by itself; pass {bridge} from lanes.outbox.sql.bridges"
    return (
        f"{called} takes a session or a connection of SQLAlchemy, not {name}; for Django, psycopg and asyncpg "
        f"see lanes.outbox.sql.bridges"
    )
