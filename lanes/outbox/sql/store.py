"""
An outbox in a SQL database, as a relay uses it, through SQLAlchemy 2.

Of each group and lane only the first unfinished entry is a candidate; the others are parked, from the moment they are
written. So a claim reads candidates and nothing else, whatever waits behind a failing entry. When an entry leaves its
group, the same transaction makes the next one a candidate (`advance`). What that transaction can't see, an entry that
another one is just writing behind it, is in the table of groups, whose rows the next claim looks at: every transaction
that parks an entry without a view of its predecessor's end writes one (docs/decisions.md#the-outbox).

A claim locks candidates with FOR UPDATE SKIP LOCKED in PostgreSQL, so that concurrent relays take different ones;
SQLite takes its one write lock first.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from lanes.outbox.entry import FINISHED, WAITING, EntryState
from lanes.outbox.rules import joined
from lanes.outbox.sql.database import (
    LOCK_TIMEOUT,
    at_read_committed,
    leaving_bad_server,
    open_engine,
    sql_errors,
    sqlstate,
)
from lanes.outbox.sql.schema import (
    TABLE,
    Given,
    OutboxTables,
    as_text,
    entry_of,
    first_of,
    is_candidate,
    place_of,
)
from lanes.outbox.store import Claim, OutboxStatus

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from sqlalchemy import Connection, Engine, Insert, Select, Update

    from lanes.outbox.rules import LaneShare, Mark

PENDING, FAILED = EntryState.PENDING.value, EntryState.FAILED.value
PROCESSING, PUBLISHED = EntryState.PROCESSING.value, EntryState.PUBLISHED.value
# What a relay has to read of an entry: all columns take twice as long. The others are as every claimed entry has them.
READ = (
    "position", "id", "kind", "source", "message_group", "body", "priority", "lane", "created_at", "attempts",
    "last_error", "chain", "not_before", "unique_key",
)  # fmt: skip
# Rows of the table of groups for each entry that a claim may take.
GROUPS_A_PLACE = 10
NO_POSITION = 2**63 - 1
MARKED = {
    "position": sa.BigInteger(), "state": sa.Text(), "attempts": sa.Integer(), "last_error": sa.Text(),
    "due_at": sa.Double(), "expires_at": sa.Double(), "sequence_number": sa.Text(), "is_ready": sa.Boolean(),
    "is_parked": sa.Boolean(), "leaves": sa.Boolean(),
}  # fmt: skip
NOW = "<now>"
WAITS_FOR_KEY = "100ms"
WAIT_FOR_DISK = "SET LOCAL synchronous_commit TO DEFAULT"
IN_CHAIN = {"chain": sa.Text(), "position": sa.BigInteger()}


class SqlOutboxStore:
    """
    The store of one database.

    Args:
        engine: of SQLAlchemy, for PostgreSQL or SQLite.
        tables: the tables of the outbox.
    """

    expires_by_itself = False

    @classmethod
    def from_url(cls, url: str, *, table: str = TABLE) -> SqlOutboxStore:
        """
        Connect to a database.

        Raises:
            ConfigurationError: SQLAlchemy cannot read the URL, or the driver is not installed.
        """
        return cls(open_engine(url), OutboxTables(table))

    def __init__(self, engine: Engine, tables: OutboxTables | None = None) -> None:
        self.tables = tables or OutboxTables()
        self.engine = engine
        self._table = self.tables.entries
        # Once each: building the statements of a round took a tenth of its CPU time.
        self._claiming = functools.cache(self.claim_statement)
        self._chains = Given(engine.dialect, "groups", {"chain": sa.Text()})
        self._in_chains = Given(engine.dialect, "places", IN_CHAIN)
        self._marked = Given(engine.dialect, "marks", MARKED)

    def setup(self) -> None:
        """Create the tables and indexes that do not exist yet."""
        with sql_errors(), self.engine.begin() as connection:
            for statement in self.tables.ddl(connection.dialect):
                connection.exec_driver_sql(statement)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a transaction that writes."""
        with sql_errors(), self.engine.begin() as connection, leaving_bad_server(connection):
            if connection.dialect.name == "postgresql":
                at_read_committed(connection)
            if connection.dialect.name == "sqlite":
                # A transaction that begins with a read may fail when it writes first, and two relays would read the
                # same candidates.
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a connection that reads."""
        with sql_errors(), self.engine.connect() as connection:
            yield connection

    def claim(
        self, shares: Sequence[LaneShare], *, owner: str, now: float, locked_until: float, limit: int
    ) -> Claim:
        """Lock the next entries; a poll of an outbox without candidates is one statement that reads three indexes."""
        is_any_ready, is_any_due, is_any_listed = self._look(now)
        if not (is_any_ready or is_any_due or is_any_listed):
            return Claim()
        lock = {"owner": owner, "now": now, "until": locked_until}
        with self.writing() as connection:
            ripened, taken_over = self._ripen(connection, now, limit) if is_any_due else (0, 0)
            advanced = self._advance_listed(connection, limit) if is_any_listed or ripened else 0
            rows, is_blocked = self._take(connection, shares, limit, lock)
            if connection.dialect.name == "postgresql" and any(row["unique_key"] is not None for row in rows):
                # After a crash that loses the claim, a writer would keep an entry whose message was handled already.
                connection.exec_driver_sql(WAIT_FOR_DISK)
        claimed = {"state": PROCESSING, "locked_by": owner, "due_at": locked_until, "changed_at": now}
        return Claim(
            entries=tuple(entry_of({**row, **claimed}) for row in rows),
            ripened=ripened + advanced,
            taken_over=taken_over,
            missed=is_blocked,
        )

    def _look(self, now: float) -> tuple[bool, bool, bool]:
        """Return whether there are candidates, due entries, and groups to look at."""
        with sql_errors(), self.engine.connect() as connection, leaving_bad_server(connection):
            own: Any = connection.connection.driver_connection
            # One statement, without others to begin and end a transaction. Not by SQLAlchemy's option, which takes
            # three to end. Without parameters, as pg8000 prepares others, and behind a pooler the next server may
            # not know them.
            is_postgresql = connection.dialect.name == "postgresql"
            was_autocommit = own.autocommit if is_postgresql else None
            if is_postgresql:
                own.autocommit = True
            try:
                found = connection.exec_driver_sql(self._looking.replace(NOW, repr(float(now)))).one()
            finally:
                if is_postgresql:
                    own.autocommit = was_autocommit
        return bool(found[0]), bool(found[1]), bool(found[2])

    @functools.cached_property
    def _looking(self) -> str:
        column = self._table.c
        first = (
            sa.select(column.priority)
            .where(is_candidate(self._table))
            .order_by(column.priority.desc())
            .limit(1)
        )
        due = sa.select(sa.func.min(column.due_at)).scalar_subquery() <= sa.literal_column(NOW)
        listed = sa.select(sa.func.min(self.tables.groups.c.number)).scalar_subquery()
        look = sa.select(
            first.scalar_subquery().is_not(None), sa.func.coalesce(due, sa.false()), listed.is_not(None)
        )
        return str(look.compile(self.engine, compile_kwargs={"literal_binds": True}))

    def claim_statement(self, lowest: int | None, highest: int | None) -> Update:
        """
        Claim up to `limit` candidates of a range of priorities, in order.

        A candidate may be behind an earlier entry of its group: of two transactions that overlapped, or one that has
        joined it since. It is parked in place of being claimed.
        """
        table = self._table
        is_behind = sa.func.coalesce(first_of(table, table.c.chain) < table.c.position, sa.false())
        first = sa.select(table.c.position, is_behind.label("is_blocked")).where(is_candidate(table))
        if lowest is not None:
            first = first.where(table.c.priority >= lowest)
        if highest is not None:
            first = first.where(table.c.priority <= highest)
        first = first.order_by(table.c.priority.desc(), table.c.position).limit(sa.bindparam("limit"))
        # SQLAlchemy leaves FOR UPDATE out for SQLite, where the write lock of the transaction does its work.
        top = first.with_for_update(skip_locked=True, of=table).cte("top")
        free = {name: sa.case((top.c.is_blocked, table.c[name]), else_=to) for name, to in self._lock.items()}
        return (
            sa.update(table)
            .where(table.c.position == top.c.position, *self._without_disk)
            .values(**free, is_ready=False, is_parked=top.c.is_blocked)
            .returning(*(table.c[name] for name in READ), table.c.is_parked)
        )

    @functools.cached_property
    def _without_disk(self) -> Sequence[sa.ColumnElement[bool]]:
        """
        Return what lets the commit of a claim or of marks not wait for the disk: once, in their own statement.

        If a crash of the server loses them, the entries are sent again, which SQS drops within five minutes.
        """
        if self.engine.dialect.name != "postgresql":
            return ()
        off = sa.select(sa.func.set_config("synchronous_commit", "off", sa.true()))
        return (off.scalar_subquery() == "off",)

    @property
    def _lock(self) -> dict[str, Any]:
        return {
            "state": PROCESSING,
            "due_at": sa.bindparam("until", type_=sa.Double()),
            "locked_by": sa.bindparam("owner", type_=sa.Text()),
            "changed_at": sa.bindparam("now", type_=sa.Double()),
            "waiting_key": sa.null(),
        }

    def _take(
        self, connection: Connection, shares: Sequence[LaneShare], limit: int, lock: dict[str, Any]
    ) -> tuple[list[dict[str, Any]], int]:
        """Claim candidates up to the limits of the claim and of each share; return the rows, and how many waited."""
        taken: list[dict[str, Any]] = []
        blocked: set[str] = set()
        gaps: dict[str, int] = {}
        for share in joined(shares):
            count = limit - len(taken) if share.limit is None else min(limit - len(taken), share.limit)
            if count <= 0:
                continue
            statement = self._claiming(share.lowest, share.highest)
            rows = _rows(connection.execute(statement, {"limit": count, **lock}))
            blocked |= {row["chain"] for row in rows if row["is_parked"]}
            heads = [row for row in rows if not row["is_parked"]]
            heads.sort(key=lambda row: (-row["priority"], row["position"]))
            followers, of_others = self._follow(connection, share, heads, count - len(heads), lock)
            taken += heads + followers
            gaps |= of_others
        self.list_groups(connection, blocked)
        return self._without_gaps(connection, taken, gaps), len(blocked)

    def _follow(
        self,
        connection: Connection,
        share: LaneShare,
        heads: Sequence[dict[str, Any]],
        room: int,
        lock: dict[str, Any],
    ) -> tuple[list[dict[str, Any]], dict[str, int]]:
        """
        Claim the entries behind the first ones of groups too, the oldest first, if there are no more candidates.

        Return also the position of the first one of each chain that somebody else has locked.
        """
        places = {row["chain"]: row["position"] for row in heads if row["chain"] is not None}
        if not places or room <= 0:
            return [], {}
        given = self._in_chains.parameters(places.items())
        others = math.ceil(room / len(places)) - 1
        wanted: dict[int, str] = {}
        ended: set[str] = set()
        for row in _rows(connection.execute(self._followers, {**given, "others": others})):
            if not row["is_parked"] or not share.has(row["priority"]):
                ended.add(row["chain"])
            if row["chain"] not in ended and len(wanted) < room:
                wanted[row["position"]] = row["chain"]
        if not wanted:
            return [], {}
        given = self._in_chains.parameters((chain, position) for position, chain in wanted.items())
        rows = _rows(connection.execute(self._claim_places, {**given, **lock}))
        got = {row["position"] for row in rows}
        missed = [position for position in wanted if position not in got]
        gaps = {wanted[position]: position for position in reversed(missed)}
        return sorted(rows, key=lambda row: row["position"]), gaps

    @functools.cached_property
    def _followers(self) -> Select[Any]:
        """Select so many unfinished entries of each chain after a position, by position."""
        given, column = self._in_chains.table, self._table.c
        later = self._table.alias("later")
        place = place_of(later)
        is_later = sa.and_(later.c.chain == given.c.chain, place > given.c.position)
        last = sa.select(place).where(is_later).order_by(place).limit(1)
        last = last.offset(sa.bindparam("others"))
        ends = sa.select(
            given.c.chain,
            given.c.position,
            sa.func.coalesce(last.scalar_subquery(), NO_POSITION).label("last"),
        ).cte("ends")
        place = place_of(self._table)
        within = sa.and_(column.chain == ends.c.chain, place > ends.c.position, place <= ends.c.last)
        found = sa.select(column.position, column.chain, column.priority, column.is_parked)
        return found.select_from(ends).join(self._table, within).order_by(column.position)

    @functools.cached_property
    def _claim_places(self) -> Update:
        """Claim parked entries of known chains."""
        places = self._places_of(self._in_chains, is_key_share=False)
        claim = sa.update(self._table).where(self._table.c.position.in_(places))
        claim = claim.values(**self._lock, is_ready=False, is_parked=False)
        return claim.returning(*(self._table.c[name] for name in READ))

    def _places_of(self, given: Given, *, is_key_share: bool) -> Select[Any]:
        """Select and lock parked entries, except for those that others have locked or moved."""
        parked = self._table.alias("parked")
        same = (parked.c.position == given.table.c.position, parked.c.chain == given.table.c.chain)
        rows = sa.select(parked.c.position).where(*same, parked.c.is_parked)
        return rows.with_for_update(skip_locked=True, key_share=is_key_share, of=parked)

    def _without_gaps(
        self, connection: Connection, taken: Sequence[dict[str, Any]], gaps: dict[str, int]
    ) -> list[dict[str, Any]]:
        """
        Give back entries behind one that somebody else has locked; return the others.

        Also the second of two messages with one id: a relay marks by id.
        """
        ids: set[str] = set()
        kept, back = [], []
        for row in taken:
            is_behind = row["chain"] in gaps and row["position"] >= gaps[row["chain"]]
            if is_behind or row["id"] in ids:
                back.append(row)
                if row["chain"] is not None:
                    gaps[row["chain"]] = min(row["position"], gaps.get(row["chain"], row["position"]))
                continue
            ids.add(row["id"])
            kept.append(row)
        if back:
            column = self._table.c
            again = sa.update(self._table).where(column.position.in_([row["position"] for row in back]))
            connection.execute(again.values(**self._waiting(), waiting_key=column.unique_key))
            self.list_groups(connection, {row["chain"] for row in back if row["chain"] is not None})
        return kept

    def _waiting(self) -> dict[str, Any]:
        """Return the values of an entry that waits again: in its group, or as a candidate without one."""
        column = self._table.c
        in_group = column.message_group.is_not(None)
        return {
            "state": sa.case((column.attempts == 0, PENDING), else_=FAILED),
            "is_ready": sa.not_(in_group),
            "is_parked": in_group,
            "is_scheduled": False,
            "due_at": None,
            "chain": sa.case((in_group, column.lane + "#" + column.message_group)),
        }

    def _ripen(self, connection: Connection, now: float, limit: int) -> tuple[int, int]:
        """Let due entries join their groups, or be candidates; return their number, and that of ended locks."""
        column = self._table.c
        due = sa.select(column.position).where(column.due_at <= now).order_by(column.due_at).limit(limit)
        ripen = (
            sa.update(self._table)
            .where(column.position.in_(due.with_for_update(skip_locked=True)))
            # Whether a relay that has died had sent it is unknown, so it waits without its unique key.
            .values(**self._waiting(), changed_at=now, unique_key=column.waiting_key)
            # One that was returned has no owner; that of a lock that has ended is replaced by the next claim.
            .returning(column.chain, column.locked_by)
        )
        rows = connection.execute(ripen).all()
        self.list_groups(connection, {as_text(row.chain) for row in rows if row.chain is not None})
        return len(rows), sum(row.locked_by is not None for row in rows)

    def _advance_listed(self, connection: Connection, limit: int) -> int:
        """Look at the listed groups; return how many have a new candidate."""
        listed = self.tables.groups.c
        rows = sa.select(listed.number, listed.chain).order_by(listed.number).limit(GROUPS_A_PLACE * limit)
        numbers = connection.execute(rows.with_for_update(skip_locked=True)).all()
        advanced, kept = self.advance(connection, {as_text(chain) for _, chain in numbers})
        done = []
        for number, chain in numbers:
            if as_text(chain) not in kept:
                done.append(number)
            # One row is enough.
            kept.discard(as_text(chain))
        if done:
            connection.execute(sa.delete(self.tables.groups).where(listed.number.in_(done)))
        return advanced

    def advance(self, connection: Connection, chains: Collection[str]) -> tuple[int, set[str]]:
        """
        Make the first entry of each chain a candidate, if it is parked.

        Returns:
            The number of new candidates, and the chains to look at again: a transaction that this one can't see is
            changing the first entry, or may be ending it.
        """
        if not chains:
            return 0, set()
        given = self._chains.parameters((chain,) for chain in sorted(chains))
        heads = connection.execute(self._heads, given).all()
        parked = {row.position: as_text(row.chain) for row in heads if row.is_parked}
        done: set[int] = set()
        if parked:
            given = self._in_chains.parameters((chain, position) for position, chain in parked.items())
            done = set(connection.execute(self._make_ready, given).scalars())
        changing = {chain for position, chain in parked.items() if position not in done}
        return len(done), changing | {as_text(row.chain) for row in heads if row.state == PROCESSING}

    @functools.cached_property
    def _heads(self) -> Select[Any]:
        """Select the first unfinished entry of each chain."""
        column, given = self._table.c, self._chains.table
        first = first_of(self._table, given.c.chain)
        found = sa.select(column.position, column.chain, column.is_parked, column.state)
        return found.where(column.position.in_(sa.select(first).select_from(given)))

    @functools.cached_property
    def _make_ready(self) -> Update:
        # Without `key_share` it would also pass over an entry that an open transaction keeps for its unique key.
        places = self._places_of(self._in_chains, is_key_share=True)
        ready = sa.update(self._table).where(self._table.c.position.in_(places))
        return ready.values(is_ready=True, is_parked=False).returning(self._table.c.position)

    def list_groups(self, connection: Connection, chains: Iterable[str]) -> None:
        """List groups for the next claim to look at."""
        rows = [(chain,) for chain in sorted(chains)]
        if rows:
            connection.execute(self._list, self._chains.parameters(rows))

    @functools.cached_property
    def _list(self) -> Insert:
        return sa.insert(self.tables.groups).from_select(["chain"], sa.select(self._chains.table.c.chain))

    def settle(self, marks: Sequence[Mark], *, owner: str, now: float) -> frozenset[str]:
        """Write marks on the entries that this owner still holds, and let their groups go on."""
        chains = {mark.entry.chain for mark in marks if mark.entry.chain is not None}
        given = self._marked.parameters(map(_outcome, marks))
        for mark in marks:
            if mark.entry.unique_key is not None and mark.state != PUBLISHED:
                self._return_key(mark, owner)
        with self.writing() as connection:
            found = connection.execute(self._mark, {**given, "owner": owner, "now": now})
            held = frozenset(map(as_text, found.scalars()))
            _, kept = self.advance(connection, chains)
            self.list_groups(connection, kept)
        return held

    @functools.cached_property
    def _mark(self) -> Update:
        column, mark = self._table.c, self._marked.table.c
        now: Any = sa.bindparam("now", type_=sa.Double())
        # Not as bare conditions: PostgreSQL would guess that one entry meets them, and compare each to each mark.
        is_held = sa.func.coalesce(sa.and_(*self._held_by(sa.bindparam("owner"))), sa.false())
        return (
            sa.update(self._table)
            .where(column.position == mark.position, is_held, *self._without_disk)
            .values(
                state=mark.state,
                attempts=mark.attempts,
                last_error=mark.last_error,
                locked_by=None,
                changed_at=now,
                published_at=sa.case((mark.state == PUBLISHED, now)),
                expires_at=mark.expires_at,
                sequence_number=mark.sequence_number,
                is_ready=mark.is_ready,
                is_parked=mark.is_parked,
                due_at=mark.due_at,
                chain=sa.case((mark.leaves, sa.null()), else_=column.chain),
            )
            .returning(column.id)
        )

    def _held_by(self, owner: Any) -> tuple[sa.ColumnElement[bool], ...]:
        """Return the conditions of an entry that a claim holds."""
        return self._table.c.locked_by == owner, self._table.c.state == PROCESSING

    def _return_key(self, mark: Mark, owner: str) -> None:
        """Let an unsent entry have its unique key again before it waits, or never again."""
        column = self._table.c
        entry = sa.update(self._table).where(column.position == mark.entry.position, *self._held_by(owner))
        with self.writing() as connection:
            if mark.has_key:
                if connection.dialect.name == "postgresql":
                    # Another entry's transaction may be open, which takes the key if it commits.
                    connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{WAITS_FOR_KEY}'")
                try:
                    with connection.begin_nested():
                        connection.execute(entry.values(waiting_key=column.unique_key))
                except sa.exc.DBAPIError as error:
                    if not isinstance(error, sa.exc.IntegrityError) and sqlstate(error.orig) != LOCK_TIMEOUT:
                        raise
                else:
                    return
            connection.execute(entry.values(unique_key=None))

    def release(self, *, owner: str, locked_until: float, now: float) -> None:
        """End the locks of a claim whose answer was lost."""
        column = self._table.c
        # By the index of due times.
        same = (column.due_at == locked_until, *self._held_by(owner))
        with self.writing() as connection:
            connection.execute(sa.update(self._table).where(*same).values(due_at=now))

    def remove_expired(self, *, now: float, limit: int) -> int:
        """Remove expired entries."""
        column = self._table.c
        expired = sa.select(column.position).where(column.expires_at <= now).order_by(column.expires_at)
        locked = expired.limit(limit).with_for_update(skip_locked=True)
        with self.writing() as connection:
            removed = connection.execute(sa.delete(self._table).where(column.position.in_(locked)))
        return int(removed.rowcount)

    def status(self, *, limit: int | None = None) -> OutboxStatus:
        """Count the entries; published ones up to the limit, since no index tells their number."""
        column = self._table.c
        sendable = sa.case(
            (column.not_before > column.created_at, column.not_before), else_=column.created_at
        )
        counted = (
            column.state,
            column.lane,
            sa.func.count().label("number"),
            sa.func.count(column.chain).label("chained"),
            sa.func.count(sa.case((column.is_scheduled, 1))).label("scheduled"),
            sa.func.min(sa.case((column.is_scheduled, None), else_=sendable)).label("oldest_at"),
        )
        unpublished = (
            sa.select(*counted).where(column.published_at.is_(None)).group_by(column.state, column.lane)
        )
        published = sa.select(column.position).where(column.published_at.is_not(None)).limit(limit)
        with self.reading() as connection:
            rows = connection.execute(unpublished).all()
            number = connection.execute(
                sa.select(sa.func.count()).select_from(published.subquery())
            ).scalar_one()
        counts: Counter[EntryState] = Counter({EntryState.PUBLISHED: number} if number else {})
        lanes: Counter[str] = Counter()
        for row in rows:
            counts[EntryState(as_text(row.state))] += row.number
            if as_text(row.state) not in FINISHED:
                lanes[as_text(row.lane)] += row.number
        since = (row.oldest_at for row in rows if as_text(row.state) not in FINISHED)
        return OutboxStatus(
            counts=dict(counts),
            lanes=dict(lanes),
            # An abandoned entry is in a chain only while it holds its group.
            held_groups=sum(row.chained for row in rows if as_text(row.state) == EntryState.ABANDONED),
            scheduled=sum(row.scheduled for row in rows),
            oldest_at=min((one for one in since if one is not None), default=None),
            is_complete=limit is None or number < limit,
        )


def cancelled(reason: str, *, now: float, expires_at: float) -> dict[str, Any]:
    """Return the values of a cancelled entry."""
    return {
        "state": EntryState.CANCELLED.value,
        "last_error": reason,
        "expires_at": expires_at,
        "changed_at": now,
        "is_ready": False,
        "is_parked": False,
        "is_scheduled": False,
        "due_at": None,
        "chain": None,
        "waiting_key": None,
    }


def _rows(result: sa.CursorResult[Any]) -> list[dict[str, Any]]:
    """Return the rows of a result, with chains as texts."""
    names = tuple(result.keys())
    rows = [dict(zip(names, row, strict=True)) for row in result]
    for row in rows:
        row["chain"] = as_text(row["chain"])
    return rows


def _outcome(mark: Mark) -> tuple[Any, ...]:
    """Return the row of a mark, as `MARKED` names it; an entry of a group waits parked, unless it has a time."""
    entry = mark.entry
    waits = mark.state in WAITING
    is_parked = waits and entry.chain is not None and (mark.is_parked or mark.due_at is None)
    due_at = None if is_parked else mark.due_at
    is_ready = waits and not is_parked and due_at is None
    return (
        entry.position,
        mark.state.value,
        mark.attempts,
        mark.last_error,
        due_at,
        mark.expires_at,
        mark.sequence_number,
        is_ready,
        is_parked,
        mark.leaves_chain,
    )
