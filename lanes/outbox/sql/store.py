"""
An outbox in a SQL database, as a relay uses it, through SQLAlchemy 2.

A claim is one transaction: PostgreSQL locks the candidates with FOR UPDATE SKIP LOCKED, so that concurrent relays
take different ones; SQLite takes its one write lock first. Only then a second statement reads their chains: a statement
that did both would read a row as it is after an operator's change, and its chain as it was before.
"""

from __future__ import annotations

import functools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from lanes.outbox.entry import FINISHED, EntryState
from lanes.outbox.rules import Candidate, LaneShare, choose, joined
from lanes.outbox.sql.database import at_read_committed, leaving_bad_server, open_engine, sql_errors
from lanes.outbox.sql.schema import TABLE, OutboxTables, entry_of
from lanes.outbox.store import Claim, OutboxStatus

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from sqlalchemy import Connection, Engine, Select

    from lanes.outbox.rules import Mark

PROCESSING = EntryState.PROCESSING.value
# The largest batch of a relay; the rest of a longer chain is woken as these are finished.
WOKEN_AT_ONCE = 100
# What a claim has to read of an entry: all columns take twice as long. The others are as every candidate has them.
READ = (
    "position", "id", "kind", "source", "message_group", "body", "priority", "lane", "created_at", "attempts",
    "last_error", "chain", "not_before", "unique_key",
)  # fmt: skip
UNREAD = {
    "published_at": None,
    "sequence_number": "",
    "expires_at": None,
    "is_parked": False,
    "is_scheduled": False,
}
# A claim looks again so often after it has parked groups; the next round goes on.
MOST_TURNS = 5


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
        # Once for each range of priorities: building it took a tenth of a round's CPU time.
        self._candidates_of = functools.cache(self.candidates_statement)

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
        """Lock the next entries, in one transaction; groups that wait for an earlier entry are parked as a whole."""
        claimed: dict[int, dict[str, Any]] = {}
        waiting: set[str] = set()
        ripened = taken_over = parked = 0
        lock = {
            "state": PROCESSING,
            "is_ready": False,
            "due_at": locked_until,
            "locked_by": owner,
            "locked_until": locked_until,
            "next_attempt_at": None,
            "changed_at": now,
            "waiting_key": None,
        }
        with self.writing() as connection:
            for turn in range(MOST_TURNS):
                found = self._candidates(connection, shares, limit, now, claimed)
                # Mostly none is due, and the candidates say so without a statement of its own.
                if turn == 0 and (not found or found[0]["is_any_due"]):
                    ripened, taken_over, parked = self._ripen(connection, now, limit, locked_until)
                    found = self._candidates(connection, shares, limit, now, claimed) if ripened else found
                # An earlier entry of a group that was parked is for the next claim, as it came later in claim order.
                others = [row for row in found if row["chain"] not in waiting]
                chosen, blocked = self._chosen(connection, others, claimed)
                self._set(connection, [*chosen], **lock)
                claimed |= chosen
                if not blocked:
                    break
                # Groups that wait leave the way, so the next candidates are of others.
                parked += self._park(connection, blocked, until=locked_until)
                waiting |= blocked.keys()
        # An earlier entry may have been finished while these were parked: the later of the two writers sees both.
        self.wake(waiting, now=now)
        return Claim(
            entries=tuple(entry_of(UNREAD | row | lock) for row in claimed.values()),
            ripened=ripened,
            parked=parked,
            taken_over=taken_over,
        )

    def _chosen(
        self,
        connection: Connection,
        found: Sequence[dict[str, Any]],
        claimed: Mapping[int, dict[str, Any]],
    ) -> tuple[dict[int, dict[str, Any]], dict[str, int]]:
        """Return the rows to claim, and the first blocked position of each chain that waits."""
        # Of two messages with one id, a later claim takes the second: a relay marks by id.
        ids = {row["id"] for row in claimed.values()}
        by_id = {row["id"]: row for row in reversed(found) if row["id"] not in ids}
        rows = {str(row["position"]): row for row in list(by_id.values())[::-1]}
        behind = self._behind(connection, list(rows.values()))
        before = {str(position) for position in claimed}
        choice = choose(
            Candidate(
                id=one, chain=row["chain"], behind=None if behind.get(one) in before else behind.get(one)
            )
            for one, row in rows.items()
        )
        blocked: dict[str, int] = {}
        for one in choice.blocked:
            if one.chain is not None:
                blocked[one.chain] = min(int(one.id), blocked.get(one.chain, int(one.id)))
        return {int(one.id): rows[one.id] for one in choice.claimed}, blocked

    def _park(self, connection: Connection, blocked: Mapping[str, int], *, until: float) -> int:
        """
        Park the candidates of each chain from its first blocked one on; return their number.

        The group has one timer, that of its first parked entry: a timer for each would wake thousands again and again.
        """
        column = self._table.c
        given = _given(connection, {position: chain for chain, position in blocked.items()})
        later = sa.and_(column.chain == given.c.value, column.position >= given.c.key)
        # A row that another relay has locked is parked when it is a candidate again.
        rows = sa.select(column.position).where(later, column.is_ready)
        locked = connection.execute(rows.with_for_update(skip_locked=True, of=self._table)).scalars().all()
        self._set(connection, locked, is_ready=False, is_parked=True, due_at=None)
        self._set(connection, sorted(blocked.values()), column.is_parked, due_at=until)
        return len(locked)

    def due_statement(self, now: float, limit: int) -> Select[Any]:
        """Select the due entries."""
        column = self._table.c
        statement = sa.select(column.position, column.state, column.is_parked, column.chain).where(
            column.due_at <= now
        )
        # SQLAlchemy leaves FOR UPDATE out for SQLite, where the write lock of the transaction does its work.
        return statement.order_by(column.due_at).limit(limit).with_for_update(skip_locked=True)

    def candidates_statement(self, lowest: int | None, highest: int | None) -> Select[Any]:
        """
        Select and lock up to `limit` candidates of a range of priorities in claim order.

        Each has the information whether any entry is due at `now`.
        """
        column = self._table.c
        due = self._table.alias("due")
        is_any_due = sa.exists().where(due.c.due_at <= sa.bindparam("now")).label("is_any_due")
        statement = sa.select(*(column[name] for name in READ), is_any_due).where(column.is_ready)
        if lowest is not None:
            statement = statement.where(column.priority >= lowest)
        if highest is not None:
            statement = statement.where(column.priority <= highest)
        ordered = statement.order_by(column.priority.desc(), column.position)
        return ordered.limit(sa.bindparam("limit")).with_for_update(skip_locked=True, of=self._table)

    def chain_statement(self, chain: str | sa.ColumnElement[Any], limit: int) -> Select[Any]:
        """Select the earliest unfinished entries of a chain: whether each is parked, and its position."""
        column = self._table.c
        statement = sa.select(column.is_parked, column.position).where(column.chain == chain)
        return statement.order_by(column.position).limit(limit)

    def _behind(self, connection: Connection, rows: Sequence[Mapping[Any, Any]]) -> dict[str, str]:
        """Return the unfinished entry directly before each locked row in its chain, where there is one."""
        chains = {row["position"]: row["chain"] for row in rows if row["chain"] is not None}
        if not chains:
            return {}
        given = _given(connection, chains)
        before = self._table.alias("before")
        is_before = sa.and_(before.c.chain == given.c.value, before.c.position < given.c.key)
        last = sa.select(sa.func.max(before.c.position)).where(is_before).scalar_subquery()
        found = connection.execute(sa.select(given.c.key, last)).all()
        return {str(position): str(behind) for position, behind in found if behind is not None}

    def _ripen(self, connection: Connection, now: float, limit: int, until: float) -> tuple[int, int, int]:
        """Make due entries candidates; return their number, that of ended locks, and that of groups that still wait."""
        due = connection.execute(self.due_statement(now, limit)).mappings().all()
        parked = {
            row["position"]: row["chain"] for row in due if row["is_parked"] and row["chain"] is not None
        }
        behind = self._behind(connection, [row for row in due if row["position"] in parked])
        ripening = {row["position"] for row in due} - parked.keys()
        for position in sorted(parked):
            if str(position) not in behind or int(behind[str(position)]) in ripening:
                ripening.add(position)
        # A relay may die between the end of the first one and the wake of the next, again and again.
        heads = {one: chain for one, chain in parked.items() if one in ripening}
        ripening -= self._pass_timers(connection, heads, until)
        blocked = [position for position in parked if position not in ripening]
        self._set(connection, blocked, due_at=until)
        ripe = [row for row in due if row["position"] in ripening]
        locked = [row["position"] for row in ripe if row["state"] == PROCESSING]
        free = {"state": EntryState.PENDING.value, "locked_by": None, "locked_until": None, "changed_at": now}
        self._set(connection, locked, **free)
        joined = {"chain": self._table.c.lane + "#" + self._table.c.message_group, "is_scheduled": False}
        ready = {"is_ready": True, "is_parked": False, "due_at": None}
        self._set(connection, [row["position"] for row in ripe], **joined, **ready)
        return len(ripe), len(locked), len(blocked)

    def _pass_timers(self, connection: Connection, heads: Mapping[int, str], until: float) -> set[int]:
        """Give the timer of each group to the parked entry after its first one; return those that keep theirs."""
        if not heads:
            return set()
        given = _given(connection, heads)
        later = self._table.alias("later")
        is_later = sa.and_(later.c.chain == given.c.value, later.c.position > given.c.key, later.c.is_parked)
        following = sa.select(sa.func.min(later.c.position)).where(is_later).scalar_subquery()
        found = connection.execute(sa.select(given.c.key, following).select_from(given)).all()
        after = {head: position for head, position in found if position is not None}
        locked = self._lock_parked(connection, sorted(after.values()))
        self._set(connection, locked, due_at=until)
        return {head for head, position in after.items() if position not in locked}

    def _lock_parked(self, connection: Connection, positions: Sequence[int]) -> Sequence[int]:
        """Lock parked entries, and pass over those that another transaction changes: an operator may change many."""
        if not positions:
            return ()
        given = _given(connection, dict.fromkeys(positions, ""))
        parked = self._table.c.position == given.c.key, self._table.c.is_parked
        rows = sa.select(self._table.c.position).where(*parked).order_by(self._table.c.position)
        # Without `key_share` it would also pass over an entry that an open transaction keeps for its unique key.
        unlocked = rows.with_for_update(skip_locked=True, key_share=True, of=self._table)
        return connection.execute(unlocked).scalars().all()

    def _candidates(
        self,
        connection: Connection,
        shares: Sequence[LaneShare],
        limit: int,
        now: float,
        claimed: Mapping[int, dict[str, Any]],
    ) -> list[dict[str, Any]]:
        """Select candidates besides those that are claimed, up to the limits of the claim and of each share."""
        found: list[dict[str, Any]] = []
        for share in joined(shares):
            rest = limit - len(claimed) - len(found)
            taken = sum(share.has(row["priority"]) for row in claimed.values())
            count = rest if share.limit is None else min(rest, share.limit - taken)
            if count > 0:
                statement = self._candidates_of(share.lowest, share.highest)
                result = connection.execute(statement, {"limit": count, "now": now})
                names = tuple(result.keys())
                rows = [dict(zip(names, row, strict=True)) for row in result]
                # PostgreSQL sorts rows as they were before it waited for the lock of one.
                found += sorted(rows, key=lambda row: (-row["priority"], row["position"]))
        return found

    def _set(self, connection: Connection, positions: Sequence[int], *conditions: Any, **values: Any) -> None:
        if positions:
            given = _given(connection, dict.fromkeys(positions, ""))
            same = (self._table.c.position == given.c.key, *conditions)
            connection.execute(sa.update(self._table).where(*same).values(**values))

    def wake(self, chains: Collection[str], *, now: float) -> None:
        """Make the parked first entries of each chain candidates again, and the next one soon."""
        for chain in self._blocked(chains):
            with self.writing() as connection:
                rows = connection.execute(self.chain_statement(chain, WOKEN_AT_ONCE + 1)).all()
                # A relay that has claimed the first one meanwhile would park the others again.
                parked = [row.position for row in rows if row.is_parked and rows[0].is_parked]
                woken = self._lock_parked(connection, parked[:WOKEN_AT_ONCE])
                # Others after them get the group's timer, which is set again while they are blocked.
                has_more = woken and len(rows) > WOKEN_AT_ONCE
                if has_more and self._pass_timers(connection, {woken[-1]: chain}, now):
                    continue
                self._set(connection, woken, is_ready=True, is_parked=False, due_at=None)

    def keep_timers(self, connection: Connection, chains: Collection[str], *, now: float) -> None:
        """Let the first parked entry of each chain be checked soon: the one with the group's timer may be gone."""
        if not chains:
            return
        given = _given(connection, dict(enumerate(chains)))
        parked = self._table.alias("parked")
        is_in_chain = sa.and_(parked.c.chain == given.c.value, parked.c.is_parked)
        first = sa.select(sa.func.min(parked.c.position)).where(is_in_chain)
        positions = connection.execute(sa.select(first.scalar_subquery()).select_from(given)).scalars()
        found = [position for position in positions if position is not None]
        self._set(connection, found, self._table.c.is_parked, due_at=now)

    def _blocked(self, chains: Collection[str]) -> list[str]:
        """Return the chains with a parked first entry, with one statement: mostly there are none."""
        if not chains:
            return []
        with self.reading() as connection:
            given = _given(connection, dict(enumerate(chains)))
            first = self.chain_statement(given.c.value, 1).with_only_columns(self._table.c.is_parked)
            blocked = sa.select(given.c.value).where(first.scalar_subquery())
            return sorted(connection.execute(blocked).scalars())

    def settle(self, marks: Sequence[Mark], *, owner: str, now: float) -> frozenset[str]:
        """Write marks on the entries that this owner still holds, then wake the entries that waited for them."""
        column = self._table.c
        held: set[str] = set()
        with self.writing() as connection:
            for outcome, numbers in _alike(marks, now):
                # One statement for a batch that was published: each in turn would take most of a round.
                given = _given(connection, numbers)
                still = sa.update(self._table).where(
                    column.position == given.c.key, column.locked_by == owner
                )
                written = still.values(**outcome, sequence_number=given.c.value).returning(column.id)
                held.update(connection.execute(written).scalars())
        # Of all marks: a repeat does not know which of them an earlier try has written.
        chains = {mark.entry.chain for mark in marks if mark.leaves_chain and mark.entry.chain is not None}
        self.wake(chains, now=now)
        return frozenset(held)

    def remove_expired(self, *, now: float, limit: int) -> int:
        """Remove expired entries."""
        column = self._table.c
        expired = sa.select(column.position).where(column.expires_at <= now).order_by(column.expires_at)
        with self.writing() as connection:
            locked = expired.limit(limit).with_for_update(skip_locked=True)
            positions = connection.execute(locked).scalars().all()
            # The rows are locked by the select above, so no relay can change them in between.
            given = _given(connection, dict.fromkeys(positions, ""))
            connection.execute(sa.delete(self._table).where(column.position.in_(sa.select(given.c.key))))
        return len(positions)

    def status(self, *, limit: int | None = None) -> OutboxStatus:
        """Count the entries; published ones up to the limit, since no index tells their number."""
        column = self._table.c
        sendable = sa.case(
            (column.not_before > column.created_at, column.not_before), else_=column.created_at
        )
        counted = (
            column.state,
            sa.func.count().label("number"),
            sa.func.count(column.chain).label("chained"),
            sa.func.count(sa.case((column.is_scheduled, 1))).label("scheduled"),
            sa.func.min(sa.case((column.is_scheduled, None), else_=sendable)).label("oldest_at"),
        )
        unpublished = sa.select(*counted).where(column.published_at.is_(None)).group_by(column.state)
        published = sa.select(column.position).where(column.published_at.is_not(None)).limit(limit)
        with self.reading() as connection:
            rows = {EntryState(row.state): row for row in connection.execute(unpublished)}
            number = connection.execute(
                sa.select(sa.func.count()).select_from(published.subquery())
            ).scalar_one()
        counts = {state: row.number for state, row in rows.items()}
        since = (row.oldest_at for state, row in rows.items() if state not in FINISHED)
        held = rows.get(EntryState.ABANDONED)
        return OutboxStatus(
            counts={**counts, EntryState.PUBLISHED: number} if number else counts,
            # An abandoned entry is in a chain only while it holds its group.
            held_groups=0 if held is None else held.chained,
            scheduled=sum(row.scheduled for row in rows.values()),
            oldest_at=min((one for one in since if one is not None), default=None),
            is_complete=limit is None or number < limit,
        )


def _given(connection: Connection, values: Mapping[int, str]) -> sa.Subquery | sa.TableValuedAlias:
    """Return numbers and their texts as a table in few parameters: many take most of a round."""
    if connection.dialect.name == "sqlite":
        each = sa.func.json_each(sa.literal(values, sa.JSON)).table_valued("key", "value", name="given")
        # The keys of JSON are texts, and SQLite compares a text with no number.
        return sa.select(sa.cast(each.c.key, sa.Integer).label("key"), each.c.value).subquery("given")
    # PostgreSQL takes JSON for 100 rows, and for so many it reads a table of some thousand entries as a whole.
    keys = sa.cast(list(values), postgresql.ARRAY(sa.BigInteger))
    texts = sa.cast(list(values.values()), postgresql.ARRAY(sa.Text))
    return sa.func.unnest(keys, texts).table_valued("key", "value", name="given").render_derived()


def _alike(marks: Sequence[Mark], now: float) -> Iterator[tuple[dict[str, Any], dict[int, str]]]:
    """Group the marks by their outcomes; give the sequence numbers of each group by position."""
    groups: dict[tuple[Any, ...], dict[int, str]] = {}
    for mark in marks:
        groups.setdefault(tuple(_outcome(mark, now).items()), {})[mark.entry.position] = mark.sequence_number
    for outcome, numbers in groups.items():
        yield dict(outcome), numbers


def _outcome(mark: Mark, now: float) -> dict[str, Any]:
    finished = mark.state in FINISHED
    is_published = mark.state is EntryState.PUBLISHED
    return {
        "state": mark.state.value,
        "attempts": mark.attempts,
        "last_error": mark.last_error,
        "locked_by": None,
        "locked_until": None,
        "next_attempt_at": mark.due_at if mark.state is EntryState.FAILED else None,
        "changed_at": now,
        "published_at": now if is_published else None,
        "expires_at": mark.expires_at,
        "is_ready": not finished and mark.due_at is None,
        "is_parked": mark.is_parked,
        "due_at": mark.due_at,
        **({"chain": None} if mark.leaves_chain else {}),
    }
