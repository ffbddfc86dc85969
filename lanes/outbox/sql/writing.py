"""Statements that join a caller's transaction: new entries, and the lock of a group."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from lanes.errors import DuplicateEntryError, OutboxTransactionError
from lanes.message import plain
from lanes.outbox.sql.bridges import Bridge
from lanes.outbox.sql.schema import as_text, entry_of, row_of
from lanes.outbox.sql.transaction import join, join_async

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from sqlalchemy import Column, Connection, Select, Table, Update
    from sqlalchemy.sql.dml import ReturningInsert

    from lanes.outbox.entry import Entry

# PostgreSQL takes 65,535 parameters in a statement, SQLite 32,766; an entry has 22.
WRITTEN_AT_ONCE = 1000
MOST_TRIES = 100


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


def write_one(given: object, table: Table, entry: Entry, keeps: bool) -> Entry:  # noqa: FBT001 - as prepared
    """
    Write one entry, which may have a unique key; return it, or the waiting one that is kept.

    Raises:
        OutboxTransactionError: what was given has no transaction to join; nothing was written.
        DuplicateEntryError: an entry with this key waits; nothing was written.
    """
    if entry.unique_key is None:
        return write(given, table, [entry])[0]
    joined = join(given, table)
    steps = _unless_waiting(joined.dialect.name, table, entry)
    rows = None
    while True:
        try:
            rows = list(joined.execute(steps.send(rows)))
        except StopIteration as done:
            return _kept(table, entry, done.value, keeps=keeps)


async def write_one_async(given: object, table: Table, entry: Entry, keeps: bool) -> Entry:  # noqa: FBT001
    """Write one entry as `write_one` does, in an asynchronous transaction."""
    joined = join_async(given)
    if not isinstance(joined, Bridge):
        return await joined.run_sync(lambda inner: write_one(inner, table, entry, keeps))
    if entry.unique_key is None:
        return (await write_async(joined, table, [entry]))[0]
    steps = _unless_waiting(joined.dialect.name, table, entry)
    rows = None
    while True:
        try:
            rows = list(await joined.execute(steps.send(rows)))
        except StopIteration as done:
            return _kept(table, entry, done.value, keeps=keeps)


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


def _unless_waiting(dialect: str, table: Table, entry: Entry) -> Generator[Any, Any, tuple[Any, bool]]:
    """
    Give statements that insert an entry, unless one with its unique key waits, and take their rows.

    The waiting one stays locked until the caller's transaction ends, so no relay sends it before: its message is
    handled after what the caller commits. In SQLite the insert has locked the database.

    Returns:
        The row of either, and whether it was inserted.
    """
    key = table.c.waiting_key
    insert: Any = (sqlite if dialect == "sqlite" else postgresql).insert(table).values(row_of(entry))
    new = insert.on_conflict_do_nothing(index_elements=[key], index_where=key.is_not(None))
    # The weakest lock: a relay's claim passes over the row, and nothing else waits for it.
    waiting = sa.select(table).where(key == entry.unique_key).with_for_update(read=True, key_share=True)
    for _ in range(MOST_TRIES):
        if rows := (yield new.returning(*table.c)):
            return rows[0], True
        if rows := (yield waiting):
            return rows[0], False
        # A relay has claimed it between the two.
    raise OutboxTransactionError(f"the unique key {entry.unique_key!r} is taken and released again and again")


def _kept(table: Table, entry: Entry, found_row: tuple[Any, bool], *, keeps: bool) -> Entry:
    """Return the entry of the row that was inserted, or that waited already."""
    row, is_own = found_row
    found = entry_of(dict(zip(table.c.keys(), row, strict=True)))
    if not is_own and not keeps:
        raise DuplicateEntryError(key=entry.unique_key or "", waiting=found.id)
    return found


def _numbered(entries: Sequence[Entry], rows: Sequence[Any]) -> list[Entry]:
    positions = {tuple(map(as_text, identity)): position for position, *identity in rows}
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
    digest = hashlib.sha256(f"{table.fullname}\0{plain(group)}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
