"""
An outbox in DynamoDB, as a relay uses it.

Candidates come from a sparse index, which is eventually consistent. A conditional update of the base table always
decides, and the order of a group is read consistently from a local index.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from lanes.aws.items import pages_of
from lanes.errors import AwsError, UnwrittenMarksError
from lanes.fault_codes import Cause, cause_of
from lanes.outbox.dynamodb.calls import (
    CONCURRENCY,
    Change,
    TableCalls,
    candidate_of,
    id_of,
    outcome_of,
    parked_in,
    ripe,
    runs_of,
)
from lanes.outbox.dynamodb.table import (
    CHAINS_INDEX,
    DEAD,
    DUE,
    HELD,
    KEPT_SECONDS,
    PARKED,
    READY,
    READY_INDEX,
    TIMERS_INDEX,
    claim_bounds,
    entry_of,
    key_of,
    part_of_key,
    parts_of,
    sendable_from,
    sortable,
    state_of,
    text,
    timed_chain,
    timer_of,
    unique_key_of,
)
from lanes.outbox.entry import Entry, EntryState
from lanes.outbox.rules import choose, joined
from lanes.outbox.store import Claim, OutboxStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

    from lanes.outbox.rules import Candidate, LaneShare, Mark

T = TypeVar("T")
R = TypeVar("R")

# The rest of a longer chain is woken as these are finished.
WOKEN_AT_ONCE = 30
# Some 25 read units.
PASSED_AT_ONCE = 1000
IN_CLAIM_ORDER = "ready = :part AND claim_order BETWEEN :first AND :last"


class DynamoDBOutboxStore:
    """
    The store of one table.

    Args:
        table: its name.
        client: shared by threads.
        concurrency: maximum number of calls in flight.
    """

    # AWS: by its time to live (DynamoDB, "Time to Live").
    expires_by_itself = True

    def __init__(self, *, table: str, client: DynamoDBClient, concurrency: int = CONCURRENCY) -> None:
        self.calls = TableCalls(table=table, client=client, concurrency=concurrency)
        # How far claims have read behind entries that wait, by the part of the index.
        self._passed: dict[str, str] = {}

    def claim(
        self, shares: Sequence[LaneShare], *, owner: str, now: float, locked_until: float, limit: int
    ) -> Claim:
        """Lock the next entries, each with a conditional update."""
        throttled: list[AwsError] = []
        ripened, taken_over, looked = self._ripen(throttled, now, limit, locked_until)
        claimed, blocked, by_id = self._choose(throttled, shares, limit)
        lock = {"locked_by": owner, "locked_until": locked_until, "changed_at": now}
        locked = self.calls.in_parallel(lambda run: self._lock(throttled, run, by_id, lock), runs_of(claimed))
        entries = {entry.id: entry for run in locked for entry in run}
        ordered = tuple(entries[one.id] for one in claimed if one.id in entries)
        waiting = [[by_id[one.id] for one in run] for run in runs_of(blocked)]
        parked = self._park(throttled, waiting, until=locked_until)
        # An earlier entry may have been finished while this one was parked: the later of the two writers sees both.
        self.wake(one.chain for one in blocked)
        if throttled and not ordered:
            raise throttled[-1]
        return Claim(
            entries=ordered,
            ripened=ripened,
            parked=parked + looked,
            taken_over=taken_over,
            missed=len(by_id) - len(ordered) - parked,
        )

    def _ripen(self, throttled: list[AwsError], now: float, limit: int, until: float) -> tuple[int, int, int]:
        """Make due entries candidates; return their number, that of ended locks, and that of groups looked at."""
        due = self.calls.first(
            parts_of(DUE),
            order="due_at",
            limit=limit,
            values={":now": text(sortable(now))},
            IndexName=TIMERS_INDEX,
            KeyConditionExpression="timer = :part AND due_at <= :now",
        )

        def ripen(item: Any) -> bool:
            if timed_chain(item) is not None:
                return self._look(throttled, item, now, until)
            is_locked = state_of(item) is EntryState.PROCESSING
            setting = ripe(item)
            if is_locked:
                pending = {"state": EntryState.PENDING.value, "changed_at": now}
                setting |= {**pending, "locked_by": None, "locked_until": None}
                if not self.has_key(item):
                    # Its relay has released it, and whether it has sent the entry is unknown.
                    setting["unique_key"] = None
            # If another relay has made it ready or locked it since, its due time or its state differs; if an operator
            # has moved it to another lane, its place in its group.
            same = {"due_at": item["due_at"]["S"], "state": item.get("state", {}).get("S")}
            if "chain_order" in setting:
                same["lane"] = item["lane"]["S"]
            return self.calls.update(item, Change(setting, same=same)) is not None

        done = self.calls.in_parallel(
            lambda item: _unless_throttled(throttled, lambda: ripen(item), otherwise=False), due
        )
        ripened = [item for item, was_done in zip(due, done, strict=True) if was_done]
        looked = sum(timed_chain(item) is not None for item in ripened)
        taken_over = sum(state_of(item) is EntryState.PROCESSING for item in ripened)
        return len(ripened) - looked, taken_over, looked

    def _look(self, throttled: list[AwsError], item: Any, now: float, until: float) -> bool:
        """Wake a group whose timer is due, and set the timer again or end it; return whether no other relay did."""
        order = self._chain(timed_chain(item) or "", WOKEN_AT_ONCE)
        # Of a group without entries: whoever parks one from now on sets the timer before.
        ended = {"timer": None, "due_at": None, "expires_at": int(now) + KEPT_SECONDS}
        setting = {"due_at": sortable(until)} if order else ended
        if self.calls.update(item, Change(setting, same={"due_at": item["due_at"]["S"]})) is None:
            return False
        self._make_ready(throttled, [order])
        return True

    def _set_timer(self, chain: str, at: float) -> bool:
        """Let a relay look at a group at a time, before its entries are parked: who should wake them may die."""
        item = timer_of(chain)
        setting = {"timer": part_of_key(DUE, item["pk"]["S"]), "due_at": sortable(at), "expires_at": None}
        return self.calls.update(item, Change(setting)) is not None

    def _choose(
        self, throttled: list[AwsError], shares: Sequence[LaneShare], limit: int
    ) -> tuple[list[Candidate], list[Candidate], dict[str, Any]]:
        """Return the candidates to claim, those that wait for an earlier one, and the items of all by id."""
        claimed: list[Candidate] = []
        blocked: list[Candidate] = []
        by_id: dict[str, Any] = {}

        def choose_among(items: Iterable[Any]) -> None:
            # An application may write an id twice: a later claim takes the second entry.
            new: dict[str, Any] = {}
            for item in items:
                if id_of(item) not in by_id:
                    new.setdefault(id_of(item), item)
            by_id.update(new)
            choice = choose(self._in_chains(throttled, [candidate_of(item) for item in new.values()]))
            claimed.extend(choice.claimed)
            blocked.extend(choice.blocked)

        for share in joined(shares):
            room = limit - len(claimed) if share.limit is None else min(limit - len(claimed), share.limit)
            if room <= 0:
                continue
            wanted, had = len(claimed) + room, set(by_id)
            choose_among(self._top(share, room, parts_of(READY)))
            waiting = set(by_id) - had - {one.id for one in claimed}
            if waiting:
                # They may be thousands of one group, which is parked little by little or is throttled.
                busy = {part_of_key(READY, by_id[one]["pk"]["S"]) for one in waiting}
                seen = {item["pk"]["S"] for item in by_id.values()}
                choose_among(self._behind(share, wanted - len(claimed), busy, seen))
        return claimed, blocked, by_id

    def _top(self, share: LaneShare, limit: int, parts: Sequence[str]) -> list[Any]:
        """Read the first candidates of a share in parts of their index."""
        first, last = claim_bounds(share.lowest, share.highest)
        return self.calls.first(
            parts,
            order="claim_order",
            limit=limit,
            values={":first": text(first), ":last": text(last)},
            IndexName=READY_INDEX,
            KeyConditionExpression=IN_CLAIM_ORDER,
        )

    def _behind(self, share: LaneShare, room: int, busy: Collection[str], seen: Collection[str]) -> list[Any]:
        """
        Read candidates of groups that were not seen, behind those that were: a page of each busy part.

        The next claim reads on from there, so a claim costs the same whatever the size of a group that waits.
        """
        first, last = claim_bounds(share.lowest, share.highest)

        def page_of(part: str) -> tuple[str, list[Any]]:
            start = max(first, self._passed.get(part, first))
            start = first if start > last else start
            return start, self.calls.query(
                limit=PASSED_AT_ONCE,
                IndexName=READY_INDEX,
                KeyConditionExpression=IN_CLAIM_ORDER,
                ExpressionAttributeValues={
                    ":part": text(part), ":first": text(start), ":last": text(last),
                },
            )  # fmt: skip

        parts = sorted(busy)
        pages = self.calls.in_parallel(page_of, parts)
        found = self._top(share, room, [part for part in parts_of(READY) if part not in busy])
        found += [item for _, page in pages for item in page if item["pk"]["S"] not in seen]
        found.sort(key=_order_of)
        rest = found[room:]
        for part, (start, page) in zip(parts, pages, strict=True):
            ends = [_order_of(found[room - 1])] if rest else []
            if len(page) == PASSED_AT_ONCE:
                ends.append(_order_of(page[-1]))
            self._passed.pop(part, None)
            if ends:
                self._passed[part] = max(start, min(ends))
        return found[:room]

    def _in_chains(self, throttled: list[AwsError], candidates: Sequence[Candidate]) -> list[Candidate]:
        """Add the entry that is directly before each candidate with a group; leave out those of unreadable groups."""
        wanted = Counter(one.chain for one in candidates if one.chain is not None)

        def order_of(one: tuple[str, int]) -> list[Any] | None:
            return _unless_throttled(throttled, lambda: self._chain(*one), None)

        orders = dict(zip(wanted, self.calls.in_parallel(order_of, wanted.items()), strict=True))
        behind = {
            entry_id: before
            for order in orders.values()
            for before, entry_id in itertools.pairwise((None, *map(id_of, order or ())))
        }
        # The read has as many entries as the chain has candidates. One that is not among them is behind itself, so
        # it is never claimed: it is finished, or behind an entry that is not a candidate.
        return [
            one if one.chain is None else replace(one, behind=behind.get(one.id, one.id))
            for one in candidates
            if one.chain is None or orders[one.chain] is not None
        ]

    def _chain(self, chain: str, limit: int | None) -> list[Any]:
        """Read the earliest unfinished entries of a chain, consistently."""
        lane = chain.partition("#")[0]
        return self.calls.query(
            limit=limit,
            IndexName=CHAINS_INDEX,
            KeyConditionExpression="pk = :pk AND begins_with(chain_order, :lane)",
            ExpressionAttributeValues={":pk": timer_of(chain)["pk"], ":lane": text(f"{lane}#")},
            ConsistentRead=True,
        )

    def _lock(
        self, throttled: list[AwsError], run: Sequence[Candidate], items: dict[str, Any], lock: dict[str, Any]
    ) -> list[Entry]:
        """Lock the entries of one chain in order, up to the first that another relay has or that is throttled."""
        locked: list[Entry] = []

        def take(item: Any) -> Entry | None:
            change = Change(
                {
                    **lock,
                    "state": EntryState.PROCESSING.value,
                    "timer": part_of_key(DUE, item["pk"]["S"]),
                    "due_at": sortable(lock["locked_until"]),
                    "ready": None,
                    "next_attempt_at": None,
                },
                same={"claim_order": item["claim_order"]["S"]},
                # The index may be behind: only the base table decides whether the entry is still a candidate.
                present=["ready"],
            )
            written = self.calls.update(item, change)
            if written is None:
                return None
            if (key := _unique_key_in(written)) is not None:
                # Before it is sent: from then on its message may have been handled before a second writer commits.
                self.calls.update(unique_key_of(key), key_released(item["sk"]["S"], lock["changed_at"]))
            return entry_of(written)

        for candidate in run:
            entry = _unless_throttled(throttled, partial(take, items[candidate.id]), None)
            if entry is None:
                break
            locked.append(entry)
        return locked

    def has_key(self, item: Any) -> bool:
        """Whether an entry has a unique key, which no relay has released; it changes nothing."""
        key, holder = _unique_key_in(item), {"holder": item["sk"]["S"]}
        return (
            key is not None and self.calls.update(unique_key_of(key), Change(holder, same=holder)) is not None
        )

    def _park(self, throttled: list[AwsError], runs: Sequence[Sequence[Any]], *, until: float) -> int:
        """Park entries, which are given by their chains; return their number."""

        def set_timer(run: Sequence[Any]) -> bool:
            chain = candidate_of(run[0]).chain or ""
            return _unless_throttled(throttled, lambda: self._set_timer(chain, until), otherwise=False)

        def park(item: Any) -> bool:
            setting = {"ready": None, **parked_in(item["pk"]["S"], sendable_from(item) or 0.0)}
            same = {"claim_order": item["claim_order"]["S"]}
            change = Change(setting, same=same, present=["ready"])
            return _unless_throttled(throttled, lambda: self.calls.update(item, change), None) is not None

        timed = zip(runs, self.calls.in_parallel(set_timer, runs), strict=True)
        return sum(
            self.calls.in_parallel(park, [item for run, has_timer in timed if has_timer for item in run])
        )

    def wake(self, chains: Iterable[str | None]) -> None:
        """Make the first entries of each chain candidates again, if it begins with a parked one."""
        # The timer of a throttled one wakes it, as if this relay had died here.
        throttled: list[AwsError] = []

        def order_of(chain: str) -> list[Any]:
            return _unless_throttled(throttled, lambda: self._chain(chain, WOKEN_AT_ONCE), [])

        names = sorted({one for one in chains if one is not None})
        self._make_ready(throttled, self.calls.in_parallel(order_of, names))

    def _make_ready(self, throttled: list[AwsError], orders: Iterable[Sequence[Any]]) -> None:
        def make_ready(item: Any) -> None:
            change = Change(ripe(item), present=["is_parked"])
            _unless_throttled(throttled, lambda: self.calls.update(item, change), None)

        waiting = (order for order in orders if order and "is_parked" in order[0])
        self.calls.in_parallel(make_ready, [one for order in waiting for one in order if "is_parked" in one])

    def settle(self, marks: Sequence[Mark], *, owner: str, now: float) -> frozenset[str]:
        """Write marks on the entries that this owner still holds, then wake the entries that waited for them."""
        due = {one.entry.chain or "": one.due_at or now for one in marks if one.is_parked}
        failed: dict[str | None, AwsError] = {}

        def set_timer(chain: str) -> None:
            try:
                self._set_timer(chain, due[chain])
            except AwsError as error:
                failed[chain] = error

        self.calls.in_parallel(set_timer, due)

        def write(mark: Mark) -> bool | AwsError:
            if mark.is_parked and mark.entry.chain in failed:
                return failed[mark.entry.chain]
            setting, held = outcome_of(mark, now), {"locked_by": owner}
            item, key = key_of(mark.entry), mark.entry.unique_key
            try:
                if key is not None and mark.has_key:
                    taken = Change({"holder": item["sk"]["S"], "expires_at": None}, same={"holder": None})
                    with_key = Change({**setting, "unique_key": key}, same=held)
                    if self.calls.update_both((item, with_key), (unique_key_of(key), taken)):
                        return True
                return self.calls.update(item, Change(setting, same=held)) is not None
            except AwsError as error:
                # The others of the round are written all the same.
                return error

        done = list(zip(marks, self.calls.in_parallel(write, marks), strict=True))
        held = frozenset(mark.entry.id for mark, result in done if result is True)
        errors = [result for _, result in done if isinstance(result, AwsError)]
        unwritten = [mark for mark, result in done if isinstance(result, AwsError)]
        # Also where an update changed nothing: a repeat does not know which marks an earlier try has written.
        written = [mark for mark, result in done if not isinstance(result, AwsError)]
        self.wake(mark.entry.chain for mark in written if mark.leaves_chain)
        if errors:
            worst = min(errors, key=lambda error: not error.retryable)
            raise UnwrittenMarksError(held=held, unwritten=unwritten, error=worst) from worst
        return held

    def release(self, *, owner: str, locked_until: float, now: float) -> None:
        """Make the entries of a claim due that may have been written without an answer."""

        def items_of(part: str) -> list[Any]:
            return self.calls.query(
                limit=None,
                IndexName=TIMERS_INDEX,
                KeyConditionExpression="timer = :part AND due_at = :until",
                ExpressionAttributeValues={":part": text(part), ":until": text(sortable(locked_until))},
            )

        items = [item for part in self.calls.in_parallel(items_of, parts_of(DUE)) for item in part]
        same = {"locked_by": owner, "state": EntryState.PROCESSING.value}
        due = Change({"due_at": sortable(now)}, same=same)
        throttled: list[AwsError] = []
        self.calls.in_parallel(
            lambda item: _unless_throttled(throttled, partial(self.calls.update, item, due), None), items
        )

    def remove_expired(self, *, now: float, limit: int) -> int:
        """
        Remove expired entries, with a scan of the whole table.

        AWS: time to live removes them by itself and at no cost, within days (DynamoDB, "Time to Live").
        """
        pages = pages_of(
            "Scan",
            self.calls.client.scan,
            TableName=self.calls.table,
            ProjectionExpression="pk, sk",
            FilterExpression="expires_at <= :now",
            ExpressionAttributeValues={":now": {"N": str(int(now))}},
        )
        keys = list(itertools.islice((key for page in pages for key in page["Items"]), limit))
        self.calls.delete(keys)
        return len(keys)

    def status(self, *, limit: int | None = None) -> OutboxStatus:
        """Count the entries from the indexes; published entries are in no index."""
        counts: Counter[EntryState] = Counter()
        lanes: Counter[str] = Counter()
        held_groups = 0
        sendable: list[float] = []
        scheduled = 0
        is_complete = True
        for index, key, value in (
            (READY_INDEX, "ready", READY),
            (TIMERS_INDEX, "timer", DUE),
            (TIMERS_INDEX, "timer", PARKED),
            (TIMERS_INDEX, "timer", HELD),
            (TIMERS_INDEX, "timer", DEAD),
        ):
            items, is_whole = self._counted(index, key, parts_of(value), limit)
            is_complete = is_complete and is_whole
            counts.update(state for item in items if (state := state_of(item)) is not None)
            if value == HELD:
                held_groups += len(items)
            if value in {READY, DUE, PARKED}:
                due = [item for item in items if "is_scheduled" not in item]
                scheduled += len(items) - len(due)
                sendable += [at for item in due if (at := sendable_from(item)) is not None]
                lanes.update(item["lane"]["S"] for item in items if "S" in item.get("lane", {}))
        return OutboxStatus(
            counts=dict(counts),
            lanes=dict(lanes),
            held_groups=held_groups,
            scheduled=scheduled,
            oldest_at=min(sendable, default=None),
            is_complete=is_complete,
        )

    def _counted(
        self, index: str, key: str, parts: Sequence[str], limit: int | None
    ) -> tuple[list[Any], bool]:
        """Read an index, each part up to its share of a limit; return also whether that was all of it."""
        most = None if limit is None else math.ceil(limit / len(parts))
        pages = self.calls.in_parallel(
            lambda part: self.calls.query(
                limit=most,
                IndexName=index,
                KeyConditionExpression=f"{key} = :part",
                ExpressionAttributeValues={":part": text(part)},
            ),
            parts,
        )
        is_whole = most is None or all(len(page) < most for page in pages)
        return [item for page in pages for item in page], is_whole


def _unless_throttled(throttled: list[AwsError], call: Callable[[], T], otherwise: R) -> T | R:
    """
    Return the result of a call for one group; if its partition accepts no more calls, note that and return the other.

    AWS: a key takes 1,000 write units a second (DynamoDB, "Best practices for partition keys"), whatever the table
    takes. A group is one key, which is left for a later claim, and others must not wait for it.
    """
    try:
        return call()
    except AwsError as error:
        if cause_of(error.code) is not Cause.THROTTLED:
            raise
        throttled.append(error)
        return otherwise


def key_released(holder: str, now: float) -> Change:
    """Return the change that lets another entry have a unique key, if this one has it; time to live removes it."""
    # Not removed here: a relay has no right to delete.
    return Change({"holder": None, "expires_at": int(now) + KEPT_SECONDS}, same={"holder": holder})


def _unique_key_in(item: Any) -> str | None:
    # Only texts are keys, whatever another program may have written.
    key: str | None = item.get("unique_key", {}).get("S")
    return key


def _order_of(item: Any) -> str:
    return str(item["claim_order"]["S"])
