"""Statements that join a caller's transaction: new entries, and the lock of a group."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from lanes.outbox.sql.bridges import Bridge
from lanes.outbox.sql.schema import row_of
from lanes.outbox.sql.transaction import join, join_async

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Column, Connection, Select, Table, Update
    from sqlalchemy.sql.dml import ReturningInsert

    from lanes.outbox.entry import Entry

# PostgreSQL takes 65,535 parameters in a statement, SQLite 32,766; an entry has 17.
WRITTEN_AT_ONCE = 1000


def write(given: object, table: Table, entries: Sequence[Entry]) -> list[Entry]:
    """
    Write entries in a caller's transaction; return them with the database's numbers, in the same order.

    Raises:
        OutboxTransactionError: what was given has no transaction to join; nothing was written.
    """
    joined = join(given, table)
    if isinstance(joined, Bridge):
        rows = [row for insert in _inserts(table, entries) for row in joined.execute(insert)]
        return _numbered(entries, rows)
    if not entries:
        return []
    insert = table.insert().returning(table.c.position, sort_by_parameter_order=True)
    positions = joined.execute(insert, [row_of(entry) for entry in entries]).scalars()
    return [replace(entry, position=one) for entry, one in zip(entries, positions, strict=True)]


async def write_async(given: object, table: Table, entries: Sequence[Entry]) -> list[Entry]:
    """Write entries as `write` does, in an asynchronous transaction."""
    joined = join_async(given)
    if isinstance(joined, Bridge):
        rows = [row for insert in _inserts(table, entries) for row in await joined.execute(insert)]
        return _numbered(entries, rows)
    return await joined.run_sync(lambda inner: write(inner, table, entries))


def lock_groups(given: object, table: Table, groups: Sequence[str]) -> None:
    """
    Let the caller's transaction wait for others that have locked one of the groups, until it ends.

    Raises:
        OutboxTransactionError: what was given has no transaction to join.
    """
    joined = join(given, table)
    for statement in _locks(joined, table, groups):
        joined.execute(statement)


async def lock_groups_async(given: object, table: Table, groups: Sequence[str]) -> None:
    """Lock groups as `lock_groups` does, in an asynchronous transaction."""
    joined = join_async(given)
    if not isinstance(joined, Bridge):
        await joined.run_sync(lambda inner: lock_groups(inner, table, groups))
        return
    for statement in _locks(joined, table, groups):
        await joined.execute(statement)


def _inserts(table: Table, entries: Sequence[Entry]) -> Iterator[ReturningInsert[Any]]:
    for start in range(0, len(entries), WRITTEN_AT_ONCE):
        some = entries[start : start + WRITTEN_AT_ONCE]
        yield table.insert().values([row_of(entry) for entry in some]).returning(*_returned(table))


def _numbered(entries: Sequence[Entry], rows: Sequence[Any]) -> list[Entry]:
    positions = {tuple(identity): position for position, *identity in rows}
    return [replace(entry, position=positions[entry.id, entry.kind, entry.source]) for entry in entries]


def _returned(table: Table) -> tuple[Column[Any], ...]:
    column = table.c
    return column.position, column.id, column.kind, column.source


def _locks(
    joined: Connection | Bridge, table: Table, groups: Sequence[str]
) -> Iterator[Update | Select[Any]]:
    if joined.dialect.name == "sqlite":
        # A database has one lock for all writers; this takes it and changes nothing.
        yield table.update().values(position=table.c.position).where(sa.false())
        return
    # In one order, so that two transactions never wait for each other.
    for key in sorted({_key_of(table, group) for group in groups}):
        # The lock of a transaction ends after its commit can be seen, and with a pooler it stays with its server.
        yield sa.select(sa.func.pg_advisory_xact_lock(sa.cast(key, sa.BigInteger)))


def _key_of(table: Table, group: str) -> int:
    """Return the 64 bits of an advisory lock; groups that share them by chance wait for each other, no more."""
    digest = hashlib.sha256(f"{table.fullname}\0{group}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
