"""The tables of an outbox in a SQL database, and their DDL for a migration."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlalchemy.sql.elements import conv

from lanes.errors import ConfigurationError
from lanes.outbox.entry import Entry, EntryState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy.engine import Dialect

    from lanes.outbox.store import AuditEntry

TABLE = "lanes_outbox"
# Each entry leaves two dead rows. By default PostgreSQL vacuums when a fifth of the table is dead, so that claims read
# past the dead rows of all entries that are kept.
VACUUM = {"autovacuum_vacuum_scale_factor": 0.01, "autovacuum_vacuum_threshold": 1000}


class OutboxTables:
    """
    The tables of an outbox, as SQLAlchemy tables.

    Args:
        name: name of the entries' table, also with its schema, such as `shop.lanes_outbox`; the others have a suffix.
        metadata: receives the tables, for tools that compare schemas; by default a new one.

    Attributes:
        entries: the entries.
        groups: groups and lanes whose first entry the next claim looks at.
        audit: the changes of operators.

    Raises:
        ConfigurationError: the name is not that of a table.
    """

    def __init__(self, name: str = TABLE, *, metadata: sa.MetaData | None = None) -> None:
        name, schema = _qualified(name)
        metadata = sa.MetaData() if metadata is None else metadata
        self.entries = _entries(name, metadata, schema)
        self.groups = sa.Table(
            f"{name}_groups",
            metadata,
            _numbers("number"),
            sa.Column("chain", sa.String(170), nullable=False),
            schema=schema,
            postgresql_with=VACUUM,
        )
        self.audit = sa.Table(
            f"{name}_audit",
            metadata,
            sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
            sa.Column("action", sa.String(20), nullable=False),
            sa.Column("who", sa.Text, nullable=False),
            sa.Column("at", sa.Double, nullable=False),
            sa.Column("filter", sa.Text, nullable=False),
            sa.Column("before", sa.Text, nullable=False),
            sa.Column("after", sa.Text, nullable=False),
            sa.Column("changed", sa.Integer, nullable=False),
            schema=schema,
        )

    @property
    def all(self) -> tuple[sa.Table, ...]:
        """All tables."""
        return self.entries, self.groups, self.audit

    def ddl(self, dialect: Dialect) -> list[str]:
        """Return the statements that create the tables and indexes, in order, for a dialect."""
        statements: list[Any] = [CreateTable(table, if_not_exists=True) for table in self.all]
        statements += [
            CreateIndex(index, if_not_exists=True)
            for table in self.all
            for index in sorted(table.indexes, key=lambda index: str(index.name))
        ]
        return [str(statement.compile(dialect=dialect)).strip() for statement in statements]


def _qualified(name: str) -> tuple[str, str | None]:
    """Split the name of a table with its schema."""
    parts = name.split(".")
    if not all(parts) or len(parts) > 2:  # noqa: PLR2004 - a schema and a table
        problem = f"{name!r} is not the name of a table; use one such as {TABLE!r} or 'shop.{TABLE}'"
        raise ConfigurationError([problem], source="outbox")
    return (name, None) if len(parts) == 1 else (parts[1], parts[0])


def _entries(name: str, metadata: sa.MetaData, schema: str | None) -> sa.Table:
    table = sa.Table(
        name,
        metadata,
        # The database numbers the entries: the clocks of several machines are not a sequence.
        _numbers("position"),
        sa.Column("id", sa.String(128), nullable=False),
        sa.Column("kind", sa.String(128), nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("message_group", sa.String(128)),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("lane", sa.String(40), nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        # The defaults are those of a new entry: each value in its insert costs the writer time.
        sa.Column("state", sa.String(10), nullable=False, server_default=EntryState.PENDING.value),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("last_error", sa.Text, nullable=False, server_default=""),
        sa.Column("locked_by", sa.String(80)),
        sa.Column("changed_at", sa.Double, nullable=False),
        sa.Column("published_at", sa.Double),
        sa.Column("sequence_number", sa.String(40), nullable=False, server_default=""),
        sa.Column("expires_at", sa.Double),
        sa.Column("is_ready", sa.Boolean, nullable=False),
        sa.Column("is_parked", sa.Boolean, nullable=False),
        # The end of its lock, its next attempt, or the time before which it may not be sent.
        sa.Column("due_at", sa.Double),
        # A lane's name of at most 40 characters, the separator, and a group of at most 128.
        sa.Column("chain", sa.String(170)),
        sa.Column("not_before", sa.Double),
        sa.Column("is_scheduled", sa.Boolean, nullable=False),
        sa.Column("unique_key", sa.String(128)),
        # The key while the entry waits: a message that a relay has may be handled before the transaction of a second
        # writer is committed.
        sa.Column("waiting_key", sa.String(128)),
        # The identity of a message. The name is that of PostgreSQL, whatever the convention of your metadata.
        sa.UniqueConstraint("id", "kind", "source", name=conv(f"{name}_id_kind_source_key")),
        schema=schema,
        # A number that was given once is not given again.
        sqlite_autoincrement=True,
        postgresql_with=VACUUM,
    )
    column = table.c
    conditions = {
        "ready": ((column.priority.desc(), column.position), is_candidate(table)),
        "timers": ((column.due_at,), column.due_at.is_not(None)),
        "chains": ((column.chain, place_of(table)), column.chain.is_not(None)),
        "unpublished": ((column.position,), column.published_at.is_(None)),
        "expiry": ((column.expires_at,), column.expires_at.is_not(None)),
    }
    # Partial, so that an index is as long as the work left and not as the table (docs/decisions.md#the-outbox).
    for order, (columns, where) in conditions.items():
        sa.Index(conv(f"{name}_{order}"), *columns, postgresql_where=where, sqlite_where=where)
    is_waiting = column.waiting_key.is_not(None)
    sa.Index(
        conv(f"{name}_unique"),
        column.waiting_key,
        unique=True,
        postgresql_where=is_waiting,
        sqlite_where=is_waiting,
    )
    return table


def _numbers(name: str) -> sa.Column[Any]:
    """Return a primary key that the database numbers."""
    # SQLite numbers the column that it calls INTEGER PRIMARY KEY alone.
    kind = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    return sa.Column(name, kind, sa.Identity(), primary_key=True)


def is_candidate(table: sa.FromClause) -> sa.ColumnElement[bool]:
    """Return the condition of the index of candidates."""
    # SQLite has no boolean: an index on `is_ready` alone would not serve a query that says `is_ready = 1`.
    return sa.and_(table.c.is_ready == sa.true(), table.c.is_parked == sa.false())


def place_of(table: sa.FromClause) -> sa.ColumnElement[int]:
    """
    Return the position of an entry as the index of chains has it.

    Where most entries are of one chain, PostgreSQL would look for those of another one in the order of the primary key,
    and read all of them.
    """
    return table.c.position + sa.literal_column("0", sa.BigInteger)


def first_of(table: sa.Table, chain: Any) -> sa.ScalarSelect[Any]:
    """Select the position of the first unfinished entry of a chain."""
    other = table.alias("first_of_chain")
    # Not by `min`: PostgreSQL would plan it twice, for a quarter of the time that an insert takes.
    place = place_of(other)
    return (
        sa.select(place)
        .where(other.c.chain == chain)
        .order_by(place)
        .limit(sa.literal_column("1"))
        .scalar_subquery()
    )


def row_of(entry: Entry, *, is_parked: Any = False) -> dict[str, Any]:
    """Return the row of a new entry, which is parked if its group has an earlier one; the database numbers it."""
    return {
        "id": entry.id,
        "kind": entry.kind,
        "source": entry.source,
        "message_group": entry.group,
        "body": entry.body,
        "priority": entry.priority,
        "lane": entry.lane,
        "created_at": entry.created_at,
        "changed_at": entry.created_at,
        # Also where it is parked: two looks for an earlier entry would double the cost of its insert.
        "is_ready": not entry.is_scheduled,
        "is_parked": is_parked,
        "due_at": entry.not_before if entry.is_scheduled else None,
        # A scheduled entry joins its group when it is due.
        "chain": None if entry.is_scheduled else entry.chain,
        "not_before": entry.not_before,
        "is_scheduled": entry.is_scheduled,
        "unique_key": entry.unique_key,
        "waiting_key": entry.unique_key,
    }


def as_text(value: Any) -> Any:
    """
    Return a value of a row, as text if it is one in bytes.

    SQLite keeps bytes in a column of texts, and psycopg gives all texts as bytes where the encoding is SQL_ASCII.
    """
    if isinstance(value, bytes):
        with contextlib.suppress(UnicodeDecodeError):
            return value.decode()
    return value


def entry_of(given: Mapping[Any, Any]) -> Entry:
    """Read an entry from its row, or from the columns of a claim."""
    row = {name: as_text(value) if isinstance(value, bytes) else value for name, value in given.items()}
    state, due_at = EntryState(row["state"]), row["due_at"]
    is_locked = state is EntryState.PROCESSING
    return Entry(
        id=row["id"],
        kind=row["kind"],
        source=row["source"],
        group=row["message_group"],
        body=row["body"],
        priority=row["priority"],
        lane=row["lane"],
        position=row["position"],
        created_at=row["created_at"],
        state=state,
        attempts=row["attempts"],
        last_error=row["last_error"],
        locked_by=row["locked_by"] if is_locked else None,
        locked_until=due_at if is_locked else None,
        next_attempt_at=due_at if state is EntryState.FAILED else None,
        changed_at=row["changed_at"],
        published_at=row.get("published_at"),
        sequence_number=row.get("sequence_number", ""),
        expires_at=row.get("expires_at"),
        is_parked=bool(row.get("is_parked")),
        not_before=row["not_before"],
        is_scheduled=bool(row.get("is_scheduled")),
        unique_key=row["unique_key"],
        holds_group=state is EntryState.ABANDONED and row["chain"] is not None,
    )


def audit_row(audit: AuditEntry) -> dict[str, Any]:
    """Return the row of an audit entry."""
    names = ("action", "who", "at", "filter", "before", "after", "changed")
    return {name: getattr(audit, name) for name in names}


class Given:
    """
    A table of given rows.

    Args:
        dialect: of the database.
        name: of the table.
        columns: their types by name.

    Attributes:
        table: the table, for a statement.
    """

    def __init__(self, dialect: Dialect, name: str, columns: Mapping[str, Any]) -> None:
        self._name = name
        self._columns = tuple(columns)
        self._is_json = dialect.name == "sqlite"
        self.table: Any
        if self._is_json:
            each = sa.func.json_each(sa.bindparam(name, type_=sa.Text)).table_valued(
                "value", name=f"{name}_rows"
            )
            values = (
                sa.cast(sa.func.json_extract(each.c.value, f"$[{number}]"), kind).label(column)
                for number, (column, kind) in enumerate(columns.items())
            )
            self.table = sa.select(*values).subquery(name)
            return
        # PostgreSQL takes JSON for 100 rows, and for so many it reads a table of some thousand entries as a whole.
        arrays = (
            sa.cast(sa.bindparam(f"{name}_{column}", type_=postgresql.ARRAY(kind)), postgresql.ARRAY(kind))
            for column, kind in columns.items()
        )
        typed = (sa.column(column, kind) for column, kind in columns.items())
        self.table = sa.func.unnest(*arrays).table_valued(*typed, name=name).render_derived()

    def parameters(self, rows: Iterable[Sequence[Any]]) -> dict[str, Any]:
        """Return the parameters of a statement with the table, for these rows."""
        given = [tuple(row) for row in rows]
        if self._is_json:
            return {self._name: json.dumps(given)}
        columns = zip(*given, strict=True) if given else ((),) * len(self._columns)
        return {
            f"{self._name}_{column}": list(values)
            for column, values in zip(self._columns, columns, strict=True)
        }
