"""
Bridges to transactions without SQLAlchemy: Django's, and those of a driver's own connection.

A bridge is passed to `Outbox.add` in place of a session. It runs the statement in the transaction that is open, and
refuses a connection without one.

Example:
    with transaction.atomic():
        order.save()
        outbox.add(django_transaction(), "order.placed", {"order": order.pk})
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy.dialects import postgresql, sqlite

from lanes.errors import OutboxTransactionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import ClauseElement
    from sqlalchemy.engine import Dialect

# By the package of an object that was passed in place of a session.
BRIDGES = {
    "asyncpg": "asyncpg_transaction(connection)",
    "django": "django_transaction()",
    "psycopg": "psycopg_transaction(connection)",
    "psycopg2": "psycopg_transaction(connection)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bridge:
    """
    A transaction that is not SQLAlchemy's.

    Attributes:
        name: of the connection, for errors.
        dialect: writes the statement for the driver.
        run: executes a statement with its parameters and returns the rows, or an awaitable of them.
        problem: returns why there is no transaction to join, or an empty text.
        is_async: whether `run` returns an awaitable.
    """

    name: str
    dialect: Dialect
    run: Callable[[str, Any], Any]
    problem: Callable[[], str]
    is_async: bool = False

    def checked(self, *, is_async: bool) -> Bridge:
        """
        Return the bridge if it leads to an open transaction.

        Raises:
            OutboxTransactionError: there is none, or it needs the other form of `add`.
        """
        if self.is_async is not is_async:
            use = "`await outbox.add_async(...)`" if self.is_async else "`outbox.add(...)`"
            raise OutboxTransactionError(f"{self.name} needs {use}")
        if problem := self.problem():
            raise OutboxTransactionError(
                f"{self.name} {problem}: the entry would not be part of your transaction"
            )
        return self

    def execute(self, statement: ClauseElement, parameters: dict[str, Any] | None = None) -> Any:
        """Run a statement; return its rows, or an awaitable of them."""
        compiled: Any = statement.compile(dialect=self.dialect)
        names = compiled.positiontup
        values = compiled.construct_params(parameters)
        return self.run(str(compiled), values if names is None else [values[name] for name in names])


def django_transaction(using: str = "default") -> Bridge:
    """
    Return the transaction of a Django database, in `transaction.atomic()`.

    Args:
        using: alias of the database that your models are written to.
    """
    from django.db import connections  # type: ignore[import-not-found,import-untyped,unused-ignore]

    connection = connections[using]
    dialects: dict[str, Any] = {"postgresql": postgresql, "sqlite": sqlite}

    def run(statement: str, parameters: Any) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

    def problem() -> str:
        if connection.vendor not in dialects:
            return f"is a {connection.vendor} database, and an outbox needs PostgreSQL or SQLite"
        if not connection.in_atomic_block and connection.get_autocommit():
            return "has no transaction; write in `with transaction.atomic():`"
        return ""

    return Bridge(
        name=f"Django's database {using!r}",
        dialect=dialects.get(connection.vendor, sqlite).dialect(paramstyle="format"),
        run=run,
        problem=problem,
    )


def psycopg_transaction(connection: Any) -> Bridge:
    """
    Return the transaction of a connection of psycopg 3, also an asynchronous one, or psycopg 2.

    A connection with autocommit needs an open `connection.transaction()`.
    """
    # Not by the name of its class: an application may have one of its own.
    is_async = inspect.iscoroutinefunction(connection.commit)

    def run(statement: str, parameters: Any) -> Any:
        cursor = connection.cursor(**_tuples_of(connection))
        cursor.execute(statement, parameters)
        # All statements return rows; in a pipeline the cursor knows of them only when they are fetched.
        return cursor.fetchall()

    async def run_async(statement: str, parameters: Any) -> Any:
        cursor = connection.cursor(**_tuples_of(connection))
        await cursor.execute(statement, parameters)
        return await cursor.fetchall()

    def problem() -> str:
        # libpq: 0 is a connection without a transaction.
        if connection.autocommit and int(connection.info.transaction_status) == 0:
            return "has autocommit and no transaction; write in `with connection.transaction():`"
        return ""

    return Bridge(
        name=f"the {_named(connection)}",
        dialect=postgresql.dialect(paramstyle="pyformat"),  # type: ignore[no-untyped-call,unused-ignore]
        run=run_async if is_async else run,
        problem=problem,
        is_async=is_async,
    )


def asyncpg_transaction(connection: Any) -> Bridge:
    """Return the transaction of a connection of asyncpg, in `async with connection.transaction():`."""

    async def run(statement: str, parameters: Any) -> Any:
        return await connection.fetch(statement, *parameters)

    def problem() -> str:
        if not connection.is_in_transaction():
            return "has no transaction; write in `async with connection.transaction():`"
        return ""

    return Bridge(
        name=f"the {_named(connection)}",
        dialect=postgresql.dialect(paramstyle="numeric_dollar"),  # type: ignore[no-untyped-call,unused-ignore]
        run=run,
        problem=problem,
        is_async=True,
    )


def _tuples_of(connection: Any) -> dict[str, Any]:
    """Return the arguments of a cursor of psycopg that gives tuples, for any row factory of its connection."""
    if hasattr(connection, "row_factory"):
        from psycopg.rows import tuple_row  # type: ignore[import-not-found,unused-ignore]

        return {"row_factory": tuple_row}
    from psycopg2.extensions import cursor  # type: ignore[import-not-found,import-untyped,unused-ignore]

    return {"cursor_factory": cursor}


def _named(connection: Any) -> str:
    return f"{type(connection).__module__.partition('.')[0]} connection"
