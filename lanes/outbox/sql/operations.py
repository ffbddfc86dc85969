"""The operations on an outbox in a SQL database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from lanes.outbox.entry import RETRYABLE, WAITING, Entry, EntryState, chain_of
from lanes.outbox.sql.schema import audit_row, entry_of
from lanes.outbox.sql.store import cancelled
from lanes.outbox.store import AuditEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from lanes.outbox.sql.store import SqlOutboxStore

PAGE = 500


class SqlOutboxOperations:
    """
    Reads and changes the entries of one database for operators.

    Args:
        store: the store of the database.
    """

    def __init__(self, store: SqlOutboxStore) -> None:
        self._store = store
        self._table = store.tables.entries
        # Without the body, which may have a megabyte.
        columns = [column for column in self._table.c if column.name != "body"]
        self._shown = sa.select(*columns, sa.literal("").label("body"))

    def entries(self, states: Collection[EntryState]) -> Iterator[Entry]:
        """Read the entries in these states page by page, oldest first, without their bodies."""
        column = self._table.c
        wanted: sa.ColumnElement[bool] = column.state.in_([state.value for state in states])
        if EntryState.PUBLISHED not in states:
            # The condition of the index that has no published entry, however many are kept.
            wanted = sa.and_(wanted, column.published_at.is_(None))
        # Not by OFFSET: entries that change their state between two pages would shift the others.
        after = 0
        while True:
            statement = self._shown.where(wanted, column.position > after)
            statement = statement.order_by(column.position).limit(PAGE)
            with self._store.reading() as connection:
                page = [entry_of(row) for row in connection.execute(statement).mappings()]
            yield from page
            if len(page) < PAGE:
                return
            after = page[-1].position

    def entry(self, entry_id: str) -> Entry | None:
        """Return one entry."""
        with self._store.reading() as connection:
            statement = sa.select(self._table).where(self._table.c.id == entry_id)
            row = connection.execute(statement).mappings().first()
        return None if row is None else entry_of(row)

    def prioritize(self, entries: Iterable[Entry], *, priority: int, lane: str, now: float) -> int:
        """Change the priority of waiting entries; one of a group is parked until a claim finds it first in its lane."""
        column = self._table.c

        def values(entry: Entry) -> dict[str, Any]:
            moved = {"priority": priority, "lane": lane, "changed_at": now}
            if entry.group is None:
                return moved
            waits = column.due_at.is_(None)
            return {
                **moved,
                "chain": sa.case((column.is_scheduled, None), else_=chain_of(lane, entry.group)),
                "is_ready": False,
                # A relay may have claimed or joined it since it was read: its time says so.
                "is_parked": waits,
            }

        return self._change(entries, values, states=WAITING, lane=lane)

    def cancel(self, entries: Iterable[Entry], *, reason: str, now: float, expires_at: float) -> int:
        """Cancel waiting or abandoned entries."""
        values = cancelled(reason, now=now, expires_at=expires_at)
        return self._change(entries, lambda _: values, states=WAITING | {EntryState.ABANDONED})

    def retry(self, entries: Iterable[Entry], *, now: float) -> int:
        """Reset abandoned, cancelled or failed entries to pending."""

        def values(entry: Entry) -> dict[str, Any]:
            is_early = (entry.not_before or now) > now
            return {
                "state": EntryState.PENDING.value,
                "attempts": 0,
                "expires_at": None,
                "changed_at": now,
                # One that has ended waits without its key, which a later entry may have.
                "unique_key": self._table.c.waiting_key,
                "is_ready": not is_early and entry.group is None,
                "is_parked": not is_early and entry.group is not None,
                "is_scheduled": is_early,
                "due_at": entry.not_before if is_early else None,
                "chain": None if is_early else entry.chain,
            }

        return self._change(entries, values, states=RETRYABLE)

    def _change(
        self,
        entries: Iterable[Entry],
        values: Callable[[Entry], dict[str, Any]],
        *,
        states: Collection[EntryState],
        lane: str | None = None,
    ) -> int:
        column = self._table.c
        changed, chains = 0, set()
        with self._store.writing() as connection:
            for entry in entries:
                same = (
                    column.position == entry.position,
                    column.state == entry.state.value,
                    column.priority == entry.priority,
                    column.state.in_([state.value for state in states]),
                )
                done = connection.execute(sa.update(self._table).where(*same).values(**values(entry)))
                if done.rowcount:
                    changed += 1
                    chains |= {entry.chain, chain_of(lane or entry.lane, entry.group)}
            # With the changes: the first entry of each of these groups may be another one now.
            self._store.list_groups(connection, {chain for chain in chains if chain is not None})
        return changed

    def add_audit(self, audit: AuditEntry) -> None:
        """Write an audit entry."""
        with self._store.writing() as connection:
            connection.execute(sa.insert(self._store.tables.audit).values(**audit_row(audit)))

    def audits(self) -> list[AuditEntry]:
        """Return the audit entries, latest first."""
        audit = self._store.tables.audit
        with self._store.reading() as connection:
            rows = connection.execute(sa.select(audit).order_by(audit.c.number.desc())).mappings()
            return [AuditEntry(**{name: row[name] for name in row if name != "number"}) for row in rows]
