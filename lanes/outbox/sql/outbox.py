"""The outbox in a SQL database: entries in your own session or connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Unpack

from lanes.outbox.outbox import Outbox
from lanes.outbox.sql.schema import OutboxTables
from lanes.outbox.sql.writing import lock_groups, lock_groups_async, write, write_async

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime, timedelta

    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
    from sqlalchemy.orm import Session, scoped_session

    from lanes.config import LanesConfig
    from lanes.message import Message
    from lanes.outbox.entry import Entry, Positions, UniqueOptions
    from lanes.outbox.sql.bridges import Bridge
    from lanes.priority import PriorityRules


class SqlOutbox(Outbox):
    """
    Writes entries to a SQL database; you can share one instance between all threads of a process.

    Args:
        config: the lanes.
        rules: priorities by kind.
        source: CloudEvents source of the messages; by default the name of this program.
        tables: the tables, if their names are not the default.
        positions: assigns the times of the entries.
    """

    def __init__(
        self,
        *,
        config: LanesConfig | None = None,
        rules: PriorityRules | None = None,
        source: str | None = None,
        tables: OutboxTables | None = None,
        positions: Positions | None = None,
    ) -> None:
        super().__init__(config=config, rules=rules, source=source, positions=positions)
        self._tables = tables or OutboxTables()

    def add(
        self,
        session: Session | scoped_session[Any] | Connection | Bridge,
        kind: str,
        data: Any,
        **options: Unpack[UniqueOptions],
    ) -> Entry:
        """
        Write an entry in your transaction; it is committed with your own writes.

        Args:
            session: a session or a connection of SQLAlchemy, or a bridge of `lanes.outbox.sql.bridges`.
            kind: stable name for this sort of message.
            data: any value that JSON can represent.
            options: those of the entry, see `UniqueOptions`.

        Returns:
            The entry with its number; with `on_duplicate="keep"` the one that waits, if there is one.

        Raises:
            MessageError: the message breaks a rule; nothing was written.
            OutboxTransactionError: the entry can't join a transaction of `session`; nothing was written.
            DuplicateEntryError: an entry with this key waits; nothing was written.
        """
        entry, keeps = self.prepare_unique(kind, data, options)
        return write(session, self._tables, [entry], keeps=keeps)[0]

    async def add_async(
        self,
        session: AsyncSession | async_scoped_session[Any] | AsyncConnection | Bridge,
        kind: str,
        data: Any,
        **options: Unpack[UniqueOptions],
    ) -> Entry:
        """Write an entry as `add` does, in the transaction of an asynchronous session or connection."""
        entry, keeps = self.prepare_unique(kind, data, options)
        return (await write_async(session, self._tables, [entry], keeps=keeps))[0]

    def add_many(
        self,
        session: Session | scoped_session[Any] | Connection | Bridge,
        messages: Iterable[Message],
        *,
        not_before: datetime | timedelta | None = None,
        unique: Callable[[Message], str | None] | None = None,
        on_duplicate: Literal["refuse", "keep"] = "refuse",
    ) -> list[Entry]:
        """
        Write an entry for each message in your transaction, a thousand with one statement if none has a unique key.

        Args:
            session: as for `add`.
            messages: the messages.
            not_before: they are not sent before this time, or this long from now.
            unique: returns the unique key of a message; None for none.
            on_duplicate: if an entry with a key waits, `refuse` raises an error and `keep` returns that one.

        Raises:
            MessageError: a message breaks a rule; nothing was written.
            OutboxTransactionError: the entries can't join a transaction of `session`; nothing was written.
            DuplicateEntryError: an entry with a key waits; roll back.
        """
        keeps = self._keeps(on_duplicate)
        return write(session, self._tables, self._entries_of(messages, not_before, unique), keeps=keeps)

    async def add_many_async(
        self,
        session: AsyncSession | async_scoped_session[Any] | AsyncConnection | Bridge,
        messages: Iterable[Message],
        *,
        not_before: datetime | timedelta | None = None,
        unique: Callable[[Message], str | None] | None = None,
        on_duplicate: Literal["refuse", "keep"] = "refuse",
    ) -> list[Entry]:
        """Write entries as `add_many` does, in the transaction of an asynchronous session or connection."""
        keeps = self._keeps(on_duplicate)
        entries = self._entries_of(messages, not_before, unique)
        return await write_async(session, self._tables, entries, keeps=keeps)

    def lock_group(self, session: Session | scoped_session[Any] | Connection | Bridge, *groups: str) -> None:
        """
        Wait for other transactions that have locked one of these groups, until they end, before you add to the groups.

        Entries of transactions that overlap and lock their group have the order of their commits. Lock all groups of
        a transaction with one call, before you read what you change.

        Raises:
            OutboxTransactionError: `session` has no transaction to join, or one above READ COMMITTED.
        """
        lock_groups(session, self._tables, groups)

    async def lock_group_async(
        self, session: AsyncSession | async_scoped_session[Any] | AsyncConnection | Bridge, *groups: str
    ) -> None:
        """Lock groups as `lock_group` does, in the transaction of an asynchronous session or connection."""
        await lock_groups_async(session, self._tables, groups)
