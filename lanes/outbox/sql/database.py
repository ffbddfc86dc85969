"""The SQL database of an outbox: opening it, and its errors as errors of this library."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import sqlalchemy as sa

from lanes.errors import ConfigurationError, OutboxStoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine


# PostgreSQL's codes and classes of codes (its documentation, appendix A): connections, read-only servers, idle
# transactions, serialization failures and deadlocks, resources, lock timeouts, cancelled statements and shutdowns.
READ_ONLY = "25006"
PASSING = ("08", READ_ONLY, "25P03", "40", "53", "55P03", "57")
DATABASE_DROPPED = "57P04"


def open_engine(url: str) -> Engine:
    """
    Open a database by its URL.

    Raises:
        ConfigurationError: SQLAlchemy cannot read the URL, or the driver is not installed.
    """
    try:
        return sa.create_engine(url)
    except ImportError as error:
        raise ConfigurationError([str(error)], source="database of the outbox") from error
    except sa.exc.ArgumentError as error:
        # Before the last @ there may be a password.
        problem = (
            f"{url.rpartition('@')[2]!r} is not a URL of SQLAlchemy ({error}); "
            f"use postgresql+psycopg://user:password@host/name or sqlite:///file.db, for example"
        )
        raise ConfigurationError([problem], source="database of the outbox") from error


@contextmanager
def sql_errors() -> Iterator[None]:
    """
    Convert the errors of SQLAlchemy inside the block.

    Raises:
        OutboxStoreError: with SQLAlchemy's error as the cause.
    """
    try:
        yield
    except sa.exc.SQLAlchemyError as error:
        raise OutboxStoreError(_first_line(error), retryable=_may_pass(error)) from error


@contextmanager
def leaving_read_only(connection: Connection) -> Iterator[None]:
    """Close the connection if its server is read-only: after a failover only a new one reaches the new primary."""
    try:
        yield
    except sa.exc.DBAPIError as error:
        if _sqlstate(error.orig) == READ_ONLY:
            connection.invalidate(error)
        raise


def _may_pass(error: sa.exc.SQLAlchemyError) -> bool:
    # Connections, locks and timeouts may pass. SQLite reports a missing table as one of these, so the text explains it.
    if isinstance(error, (sa.exc.OperationalError, sa.exc.InterfaceError, sa.exc.TimeoutError)):
        return True
    state = _sqlstate(getattr(error, "orig", None))
    return state.startswith(PASSING) and state != DATABASE_DROPPED


def _sqlstate(error: BaseException | None) -> str:
    """Return PostgreSQL's code: an attribute in psycopg; a field in pg8000, which has one class for all errors."""
    answer = error.args[0] if error is not None and error.args else None
    fields = answer if isinstance(answer, dict) else {}
    return str(getattr(error, "sqlstate", None) or fields.get("C", ""))


def _first_line(error: Exception) -> str:
    message = str(error).partition("\n")[0]
    # The messages of SQLite and of PostgreSQL.
    is_missing = "no such table" in message or ('relation "' in message and "does not exist" in message)
    remedy = "; `lanes outbox --database ... setup` creates the tables" if is_missing else ""
    return f"the database of the outbox: {message}{remedy}"
