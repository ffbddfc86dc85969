"""
The transaction that entries are written in: what `Outbox.add` accepts, and what it refuses by name.

An entry that is committed without the data that it belongs to, or the other way round, is the fault that an outbox
exists to prevent. So nothing is accepted for having an `execute`: only what is known to join your transaction.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.ext import asyncio

from lanes.errors import OutboxTransactionError
from lanes.outbox.sql.bridges import BRIDGES, Bridge

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Table

AUTOCOMMIT = "AUTOCOMMIT"


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


def is_autocommit(connection: Connection) -> bool:
    """Whether a connection commits each statement by itself, by SQLAlchemy's options or the driver's own."""
    if connection.get_execution_options().get("isolation_level") == AUTOCOMMIT:
        return True
    driver: Any = connection.connection.dbapi_connection
    if connection.dialect.name != "sqlite":
        return bool(connection.dialect.detect_autocommit_setting(driver))
    # Many switch sqlite3's own transactions off and begin them in an event of SQLAlchemy, so ask for a transaction.
    own: Any = connection.connection.driver_connection
    by_itself = own.isolation_level is None or getattr(own, "autocommit", None) is True
    if by_itself and not connection.in_transaction():
        connection.begin()
    return by_itself and not own.in_transaction


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
