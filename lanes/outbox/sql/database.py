"""The SQL database of an outbox: opening it, and its errors as errors of this library."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from lanes.errors import ConfigurationError, OutboxStoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine

# PostgreSQL's codes and classes of codes (its documentation, appendix A): connections, read-only servers, idle
# transactions, serialization failures and deadlocks, resources, lock timeouts, cancelled statements and shutdowns.
READ_ONLY = "25006"
# A prepared statement that exists already, and one that does not exist: with a pooler in transaction mode each
# transaction may have another server, and the driver prepares its statements for one.
POOLED = ("26000", "42P05")
LOCK_TIMEOUT = "55P03"
PASSING = ("08", READ_ONLY, "25P03", "40", "53", LOCK_TIMEOUT, "57", *POOLED)
DATABASE_DROPPED = "57P04"
# A statement timeout, and a lock timeout.
CANCELLED = ("57014", LOCK_TIMEOUT)
READ_COMMITTED = "read committed"
OLDEST_SNAPSHOT = """
    SELECT extract(epoch FROM now() - xact_start), pid, coalesce(nullif(application_name, ''), usename, '')
    FROM pg_stat_activity
    WHERE backend_xmin IS NOT NULL AND xact_start IS NOT NULL AND pid <> pg_backend_pid()
    ORDER BY age(backend_xmin) DESC LIMIT 1
"""
# Of the engine that `open_engine` makes. A connection that dies without a word is noticed within half a minute: TCP by
# itself takes a quarter of an hour for data that nobody confirms, and asks an idle peer after two hours.
DRIVER_SETTINGS: dict[str, dict[str, int | None]] = {
    "psycopg": {
        # A statement that is prepared for one server fails on the next one behind a pooler in transaction mode.
        "prepare_threshold": None,
        "connect_timeout": 10,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 25_000,
    },
    # The limit of each wait for its socket, so also of a statement.
    "pg8000": {"timeout": 30},
}
# In `Connection.info`, for as long as the connection is open.
SETS_LEVEL = "lanes.sets_isolation_level"


def open_engine(url: str) -> Engine:
    """
    Open a database by its URL, whose query overrides `DRIVER_SETTINGS`.

    Raises:
        ConfigurationError: SQLAlchemy cannot read the URL, or the driver is not installed.
    """
    try:
        address = sa.make_url(url)
        settings = _driver_settings(address)
        return sa.create_engine(address.difference_update_query(settings), connect_args=settings)
    except ImportError as error:
        raise ConfigurationError([str(error)], source="database of the outbox") from error
    except sa.exc.ArgumentError as error:
        # Before the last @ there may be a password.
        problem = (
            f"{url.rpartition('@')[2]!r} is not a URL of SQLAlchemy ({error}); "
            f"use postgresql+psycopg://user:password@host/name or sqlite:///file.db, for example"
        )
        raise ConfigurationError([problem], source="database of the outbox") from error


def _driver_settings(address: sa.URL) -> dict[str, Any]:
    """Return the settings of the driver, with those of the URL, which has texts alone."""
    defaults = DRIVER_SETTINGS.get(address.get_driver_name(), {})
    return {name: _setting(address, name, default) for name, default in defaults.items()}


def _setting(address: sa.URL, name: str, default: int | None) -> int | None:
    given = address.query.get(name)
    if given is None:
        return default
    if given == "none":
        return None
    if isinstance(given, str) and given.isdecimal():
        return int(given)
    problem = f"{name} is {given!r} in the URL; use a whole number or none"
    raise ConfigurationError([problem], source="database of the outbox")


def at_read_committed(connection: Connection) -> None:
    """
    Set the isolation level of a transaction of PostgreSQL that has just begun, if it is another one.

    At a higher level concurrent claims fail instead of passing over each other's rows.

    Raises:
        ConfigurationError: the engine commits each statement by itself.
    """
    if is_autocommit(connection):
        problem = (
            "the engine is in AUTOCOMMIT, so a claim locks nothing; create it without this isolation level"
        )
        raise ConfigurationError([problem], source="database of the outbox")
    if SETS_LEVEL not in connection.info:
        level = connection.exec_driver_sql("SHOW transaction_isolation").scalar_one()
        connection.info[SETS_LEVEL] = level != READ_COMMITTED
    if connection.info[SETS_LEVEL]:
        # Of the transaction and not of the session, which behind a pooler others have afterwards.
        connection.exec_driver_sql(f"SET TRANSACTION ISOLATION LEVEL {READ_COMMITTED}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSnapshot:
    """
    An open transaction, for which the server keeps all rows that it may see.

    Attributes:
        seconds: since it began.
        process: id of the server's process, for `pg_terminate_backend`.
        name: of the application, or of the user.
    """

    seconds: float
    process: int
    name: str


def oldest_snapshot(engine: Engine) -> OpenSnapshot | None:
    """
    Return the transaction with the oldest snapshot in a server of PostgreSQL; None if there is no other one.

    Raises:
        OutboxStoreError: the database can't be read.
    """
    if engine.dialect.name != "postgresql":
        return None
    with sql_errors(), engine.connect() as connection:
        row = connection.exec_driver_sql(OLDEST_SNAPSHOT).first()
    return None if row is None else OpenSnapshot(seconds=float(row[0]), process=row[1], name=row[2])


@contextmanager
def sql_errors() -> Iterator[None]:
    """
    Convert the errors of SQLAlchemy inside the block, and those of a socket, which pg8000 passes on.

    Raises:
        OutboxStoreError: with SQLAlchemy's error as the cause.
    """
    try:
        yield
    except sa.exc.SQLAlchemyError as error:
        is_cancelled = sqlstate(getattr(error, "orig", None)) in CANCELLED
        raise OutboxStoreError(
            _first_line(error), retryable=_may_pass(error), is_cancelled=is_cancelled
        ) from error
    except OSError as error:
        problem = f"the database of the outbox: its connection failed ({error})"
        raise OutboxStoreError(problem, retryable=True) from error


@contextmanager
def leaving_bad_server(connection: Connection) -> Iterator[None]:
    """
    Close the connection if its server is the wrong one, or silent.

    After a failover only a new connection reaches the new primary, and one behind a pooler has statements of its own.
    """
    try:
        yield
    except OSError:
        connection.invalidate()
        raise
    except sa.exc.DBAPIError as error:
        if sqlstate(error.orig) in {READ_ONLY, *POOLED}:
            connection.invalidate(error)
        raise


def _may_pass(error: sa.exc.SQLAlchemyError) -> bool:
    # Connections, locks and timeouts may pass. SQLite reports a missing table as one of these, so the text explains it.
    if isinstance(error, (sa.exc.OperationalError, sa.exc.InterfaceError, sa.exc.TimeoutError)):
        return True
    state = sqlstate(getattr(error, "orig", None))
    return state.startswith(PASSING) and state != DATABASE_DROPPED


def sqlstate(error: BaseException | None) -> str:
    """Return PostgreSQL's code: an attribute in psycopg; a field in pg8000, which has one class for all errors."""
    answer = error.args[0] if error is not None and error.args else None
    fields = answer if isinstance(answer, dict) else {}
    return str(getattr(error, "sqlstate", None) or fields.get("C", ""))


def _first_line(error: Exception) -> str:
    message = str(error).partition("\n")[0]
    if sqlstate(getattr(error, "orig", None)) in POOLED:
        message += "; behind a pooler in transaction mode open the database without prepared statements"
    # The messages of SQLite and of PostgreSQL.
    is_missing = "no such table" in message or ('relation "' in message and "does not exist" in message)
    remedy = "; `lanes outbox --database ... setup` creates the tables" if is_missing else ""
    return f"the database of the outbox: {message}{remedy}"


def is_autocommit(connection: Connection) -> bool:
    """Whether a connection commits each statement by itself, by SQLAlchemy's options or the driver's own."""
    if connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT":
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
