"""
Wait for the commits of entries in PostgreSQL, by LISTEN and NOTIFY.

A trigger of the outbox's table notifies at commit. A relay that can't hear it, since the trigger is missing, a pooler
is in between or the connection is lost, polls as before.
"""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Engine, PoolProxiedConnection

    from lanes.outbox.sql.schema import OutboxTables

# A signal is noticed within this time.
LOOKS_EVERY_SECONDS = 0.25
RECONNECTS_AFTER_SECONDS = 60.0
HEARD_WITHIN_SECONDS = 1.0
DRIVERS = ("pg8000", "psycopg")


class CommitListener:
    """
    Waits for the next commit of an entry.

    Args:
        engine: of PostgreSQL, with the driver pg8000 or psycopg.
        tables: of the outbox.
        should_stop: asked while it waits.
    """

    def __init__(self, engine: Engine, tables: OutboxTables, *, should_stop: Callable[[], bool]) -> None:
        self._engine = engine
        self._tables = tables
        self._should_stop = should_stop
        self._connection: PoolProxiedConnection | None = None
        self._connects_at = 0.0

    @staticmethod
    def serves(engine: Engine) -> bool:
        """Whether this database and driver can tell of commits."""
        return engine.dialect.name == "postgresql" and engine.dialect.driver in DRIVERS

    @property
    def is_listening(self) -> bool:
        """Whether it is connected; without a connection the relay has to poll more often."""
        if self._connection is None and time.monotonic() >= self._connects_at:
            self._connects_at = time.monotonic() + RECONNECTS_AFTER_SECONDS
            self._try(self._connect)
        return self._connection is not None

    def wait(self, seconds: float) -> None:
        """Wait until an entry is committed, the time is over, or the relay has to stop."""
        ends = time.monotonic() + seconds
        while not self._should_stop() and (left := ends - time.monotonic()) > 0:
            length = min(left, LOOKS_EVERY_SECONDS)
            if not self.is_listening:
                time.sleep(length)
            elif self._is_readable(length):
                self._try(self._take)
                return

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            # It listens, so nobody else may get it from the pool.
            connection.invalidate()

    def _connect(self) -> None:
        """Listen, and hear a notification of our own: a pooler in transaction mode takes LISTEN and passes none on."""
        with self._engine.begin() as other:
            if not other.execute(self._tables.has_trigger()).scalar():
                raise LookupError
        self._connection = self._engine.raw_connection()
        channel = self._engine.dialect.identifier_preparer.quote(self._tables.channel)
        self._run(self._connection, f"LISTEN {channel}")
        with self._engine.begin() as other:
            other.execute(sa.select(sa.func.pg_notify(self._tables.channel, "")))
        if not self._is_readable(HEARD_WITHIN_SECONDS):
            raise LookupError
        self._take()

    def _is_readable(self, seconds: float) -> bool:
        driver: Any = self._connection.driver_connection if self._connection is not None else None
        # pg8000 has no method for its socket.
        socket = driver._usock if self._engine.dialect.driver == "pg8000" else driver  # noqa: SLF001
        try:
            return bool(select.select([socket], [], [], seconds)[0])
        except (OSError, ValueError):
            self.close()
            return True

    def _take(self) -> None:
        """Read what the server has sent: a statement without a result takes the notifications along."""
        if self._connection is not None:
            self._run(self._connection, "SELECT 1")
            driver: Any = self._connection.driver_connection
            if self._engine.dialect.driver == "pg8000":
                driver.notifications.clear()

    def _run(self, connection: PoolProxiedConnection, statement: str) -> None:
        cursor = connection.cursor()
        cursor.execute(statement)
        cursor.close()
        connection.commit()

    def _try(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception:  # noqa: BLE001 - of any driver; the relay polls, and reports an outage itself
            self.close()
