"""The table in memory: ledger, effects, rates, slot table, overrides, paused lanes and followed runs."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from lanes.consumer.engines.presence import Presence, PresenceSnapshot
from lanes.consumer.ledger import Claim, Effect, Entry
from lanes.overrides import ActiveOverrides
from lanes.runs import Chunk, Counts, End, Head, Mark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lanes.overrides import Cancelled, GroupRedirect, Override
    from lanes.testing.calls import Calls

LONG_AGO = 3_600.0
"""Seconds after which ended parkings are dropped: no reader asks for them."""

OVERRIDES_READ = "GetItem overrides"
"""The call that an environment makes every few seconds, whatever it handles meanwhile."""

PAUSES_READ = "GetItem pauses"
"""The call that a slot makes every few seconds, whatever it handles meanwhile."""


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryEffect:
    """An effect in the table; a time of 0 means not set."""

    owner: str
    owned_until: float = 0.0
    done_until: float = 0.0
    done_in: str = ""
    done_at: float = 0.0


class MemoryLedger:
    """
    The entries of messages, and the effects and rates beside them.

    AWS: a write of up to 1 KB is one unit, two in a transaction, and one more for an index that changes with it; a
    consistent read of up to 4 KB is one (DynamoDB developer guide, "On-demand capacity mode").

    Attributes:
        writes: write units of the entries.
        reads: read units of the entries.

    """

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.writes = 0
        self.reads = 0.0
        self.entries: dict[tuple[str, str], Entry] = {}
        self._parks: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
        self._numbers = itertools.count()
        self.effects: dict[str, MemoryEffect] = {}
        self.rates: dict[str, str] = {}

    def read(self, lane: str, message_ids: Sequence[str]) -> Mapping[str, Entry]:
        """Return the existing entries."""
        self.reads += len(message_ids)
        with self.calls.make("BatchGetItem"):
            return {key: self.entries[lane, key] for key in message_ids if (lane, key) in self.entries}

    def note(self, entries: Sequence[Entry]) -> None:
        """Put the entries."""
        self.writes += sum(1 if entry.park is None else 2 for entry in entries)
        if len(entries) == 1:
            self.amend(entries)
            return
        with self.calls.make("BatchWriteItem"):
            for entry in entries:
                self._put(entry)

    def _put(self, entry: Entry) -> None:
        self.entries[entry.lane, entry.message_id] = entry
        if entry.park is not None:
            park = (entry.parked_until, next(self._numbers), entry.message_id)
            bisect.insort(self._parks[entry.lane], park)

    def amend(self, entries: Sequence[Entry]) -> None:
        """Put the entries that are not outdated."""
        self.writes += len(entries)
        for entry in entries:
            with self.calls.make("PutItem"):
                known = self.entries.get((entry.lane, entry.message_id))
                if known is None or not entry.is_outdated_by(known):
                    self._put(entry)

    def unpark(self, entries: Sequence[Entry]) -> bool:
        """Unpark all or none."""
        self.writes += 3 * len(entries)
        with self.calls.make("TransactWriteItems"):
            stored = [self.entries.get((entry.lane, entry.message_id)) for entry in entries]
            if any(
                found is None or found.park is None or found.receipt_handle != entry.receipt_handle
                for found, entry in zip(stored, entries, strict=True)
            ):
                return False
            for entry in entries:
                key = entry.lane, entry.message_id
                self.entries[key] = dataclasses.replace(
                    self.entries[key], park=None, parked_until=0.0, receipt_handle="", batch=""
                )
            return True

    def parked(self, lane: str, *, after: float, limit: int | None = None) -> Sequence[Entry]:
        """Return the parked entries, the earliest to return first."""
        with self.calls.make("Query"):
            parks = self._parks[lane]
            del parks[: bisect.bisect(parks, (after - LONG_AGO, 0, ""))]
            found: dict[str, Entry] = {}
            for until, _, message_id in itertools.islice(
                parks, bisect.bisect(parks, (after, float("inf"), "")), None
            ):
                entry = self.entries[lane, message_id]
                if entry.park is not None and entry.parked_until == until:
                    found[message_id] = entry
                if len(found) == limit:
                    break
        self.reads += max(1.0, len(found) / 4) / 2
        return list(found.values())

    def whereabouts(self, lane: str, message_id: str, *, now: float) -> str:
        """Describe the state of a message that is neither handled nor dead-lettered."""
        entry = self.entries.get((lane, message_id))
        if entry is None:
            return "not received yet, or behind its group"
        if entry.park is None or entry.parked_until <= now:
            return f"{entry.ending} before; may be received now, or is behind its group"
        return f"{entry.ending}, returns in {entry.parked_until - now:.1f} s"

    def begin_effect(self, effect_id: str, *, owner: str, now: float, until: float) -> Claim:
        """Claim an effect."""
        with self.calls.make("UpdateItem"):
            known = self.effects.get(effect_id, MemoryEffect(owner))
            if known.done_until > now:
                return Claim(Effect.DONE, done_in=known.done_in)
            if known.owner != owner and known.owned_until > now:
                return Claim(Effect.held_by(known.owner, owner), until=known.owned_until)
            self.effects[effect_id] = MemoryEffect(owner, owned_until=until)
            return Claim(Effect.BEGUN)

    def finish_effect(
        self,
        effect_id: str,
        *,
        owner: str,
        lane: str,
        now: float,
        keep_until: float,
    ) -> None:
        """Record an effect."""
        with self.calls.make("UpdateItem"):
            self.effects[effect_id] = MemoryEffect(owner, done_until=keep_until, done_in=lane, done_at=now)

    def effect_done_at(self, effect_id: str) -> float:
        """Return when an effect was done last."""
        with self.calls.make("GetItem"):
            return self.effects[effect_id].done_at if effect_id in self.effects else 0.0

    def swap_rate(self, pattern: str, known: str, new: str) -> str | None:
        """Replace the state of a rate."""
        with self.calls.make("UpdateItem"):
            if (stored := self.rates.get(pattern, "")) != known:
                return stored
            self.rates[pattern] = new
            return None

    def release_effect(self, effect_id: str, *, owner: str) -> None:
        """Give a claim back."""
        with self.calls.make("DeleteItem"):
            known = self.effects.get(effect_id)
            if known is not None and known.owner == owner and not known.done_until:
                del self.effects[effect_id]


class MemorySlots:
    """The slot table."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.records: dict[str, Presence] = {}
        self.parked: dict[str, float] = {}

    def publish(
        self,
        record: Presence,
        *,
        now: float,  # noqa: ARG002
        parked_until: Mapping[str, float],
    ) -> PresenceSnapshot:
        """Replace a presence record."""
        with self.calls.make("UpdateItem"):
            self.records[record.environment] = record
            self.parked.update(parked_until)
            return self._snapshot(record.environment)

    def read(self, environment: str) -> PresenceSnapshot:
        """Return the peers' state."""
        with self.calls.make("GetItem"):
            return self._snapshot(environment)

    def _snapshot(self, environment: str) -> PresenceSnapshot:
        return PresenceSnapshot.for_environment(environment, self.records.values(), dict(self.parked))


class MemoryOverrides:
    """The active overrides."""

    def __init__(self, calls: Calls, clock: Callable[[], float]) -> None:
        self.calls = calls
        self.standing: dict[str, Override] = {}
        self.following: dict[tuple[str, str], GroupRedirect] = {}
        self.gone: dict[tuple[str, str], Cancelled] = {}
        self._clock = clock

    def active(self) -> ActiveOverrides:
        """Return the active overrides."""
        with self.calls.make(OVERRIDES_READ):
            living = [one for one in self.standing.values() if one.expires_at > self._clock()]
            return ActiveOverrides(
                overrides=tuple(sorted(living, key=lambda one: (one.created_at, one.id), reverse=True)),
            )

    def redirects(self, lane: str, groups: Sequence[str]) -> dict[str, GroupRedirect]:
        """Return the redirects of groups."""
        with self.calls.make("BatchGetItem"):
            found = {group: self.following.get((lane, group)) for group in groups}
            return {group: one for group, one in found.items() if one and one.expires_at > self._clock()}

    def redirect(self, follow: GroupRedirect) -> None:
        """Redirect a group."""
        with self.calls.make("PutItem"):
            self.following[follow.lane, follow.group] = follow

    def cancelled(self, cancelled: Cancelled) -> None:
        """Record a cancelled message."""
        with self.calls.make("PutItem"):
            self.gone[cancelled.lane, cancelled.message_id] = cancelled

    def add(self, override: Override) -> None:
        """Add an override."""
        self.standing[override.id] = override

    def withdraw(self, override_id: str) -> None:
        """Withdraw an override."""
        self.standing.pop(override_id, None)

    def cancellations(self, *, since: float, limit: int) -> list[Cancelled]:
        """Return cancelled messages, the latest first."""
        found = [one for one in self.gone.values() if one.cancelled_at >= since]
        return sorted(found, key=lambda one: one.cancelled_at, reverse=True)[:limit]


class MemoryPauses:
    """The paused lanes."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.lanes: set[str] = set()

    def paused(self) -> set[str]:
        """Return the names of the paused lanes."""
        with self.calls.make(PAUSES_READ):
            return set(self.lanes)

    def pause(self, lane: str) -> None:
        """Pause a lane."""
        with self.calls.make("UpdateItem"):
            self.lanes.add(lane)

    def resume(self, lane: str) -> None:
        """Resume a lane."""
        with self.calls.make("UpdateItem"):
            self.lanes.discard(lane)


class MemoryRuns:
    """The runs; `within` other calls it shows the same ones, as to another process."""

    def __init__(self, calls: Calls, clock: Callable[[], float]) -> None:
        self.calls = calls
        self._clock = clock
        self._heads: dict[str, Head] = {}
        self._chunks: dict[tuple[Mark, int], Chunk] = {}
        self._nodes: dict[tuple[Mark, int, int], dict[int, Counts]] = {}

    def within(self, calls: Calls) -> MemoryRuns:
        """Return the same runs, with calls of their own."""
        found = MemoryRuns(calls, self._clock)
        found._heads, found._chunks, found._nodes = self._heads, self._chunks, self._nodes
        return found

    def open_run(self, head: Head) -> Head:
        """Write a head unless there is one; return the stored one."""
        with self.calls.make("UpdateItem"):
            opened = dataclasses.replace(head, opened_at=self._clock())
            return self._heads.setdefault(head.name, opened)

    def head(self, name: str) -> Head | None:
        """Return a head."""
        with self.calls.make("GetItem"):
            return self._heads.get(name)

    def fix_members(self, name: str, *, total: int, members: str) -> bool:
        """Fix the members of an open run; False if others are fixed, or the run was closed."""
        with self.calls.make("UpdateItem"):
            head = self._heads.get(name)
            known = head and (head.total, head.members)
            if head is None or head.closed_at or known not in ((None, ""), (total, members)):
                return False
            self._heads[name] = dataclasses.replace(head, total=total, members=members)
            return True

    def seal_chunk(self, mark: Mark, index: int, members: frozenset[bytes]) -> Chunk | None:
        """Write the members of a chunk, and return it; None if it has others."""
        with self.calls.make("UpdateItem"):
            chunk = self._chunks.get((mark, index), Chunk({}))
            if chunk.members not in (None, members):
                return None
            return self._put(mark, index, dataclasses.replace(chunk, members=members))

    def sealed(self, name: str) -> None:
        """Note that every chunk is sealed."""
        self._set_once(name, "sealed_at")

    def add_end(self, mark: Mark, index: int, end: End, fingerprint: bytes) -> Chunk:
        """Add an end to a chunk, and return it."""
        with self.calls.make("UpdateItem"):
            chunk = self._chunks.get((mark, index), Chunk({}))
            ends = {**chunk.ends, end: chunk.ends.get(end, frozenset()) | {fingerprint}}
            return self._put(mark, index, dataclasses.replace(chunk, ends=ends))

    def add_child(self, mark: Mark, level: int, index: int, child: int, counts: Counts) -> list[Counts]:
        """Write the counts of a complete child to a node of the tree, and return those of all its children."""
        with self.calls.make("UpdateItem"):
            node = self._nodes.setdefault((mark, level, index), {})
            node[child] = counts
            return list(node.values())

    def end_run(self, mark: Mark, counts: Counts) -> Head | None:
        """Note that every member has an end, and return the head; None if there is no such run, or it is open."""
        with self.calls.make("UpdateItem"):
            head = self._heads.get(mark.name)
            if head is None or head.mark != mark or head.total is None:
                return None
            if not head.ended_at:
                head = dataclasses.replace(head, ended_at=self._clock(), final=counts)
                self._heads[mark.name] = head
            return head

    def announced(self, name: str) -> None:
        """Note that the end was announced."""
        self._set_once(name, "announced_at")

    def close(self, name: str, *, who: str, why: str) -> bool:
        """Close a run; False if it has ended or was closed before."""
        with self.calls.make("UpdateItem"):
            head = self._heads.get(name)
            if head is None or head.ended_at or head.closed_at:
                return False
            self._heads[name] = dataclasses.replace(head, closed_at=self._clock(), who=who, why=why)
            return True

    def chunks(self, mark: Mark, indexes: Iterable[int]) -> list[Chunk]:
        """Return those of the chunks that exist."""
        with self.calls.make("BatchGetItem"):
            return [self._chunks[mark, index] for index in indexes if (mark, index) in self._chunks]

    def heads(self, *, since: float, limit: int) -> list[Head]:
        """Return the runs opened since a time, the latest first."""
        with self.calls.make("Query"):
            found = sorted(self._heads.values(), key=lambda head: -head.opened_at)
            return [head for head in found if head.opened_at >= since][:limit]

    def _put(self, mark: Mark, index: int, chunk: Chunk) -> Chunk:
        self._chunks[mark, index] = chunk
        return chunk

    def _set_once(self, name: str, attribute: str) -> None:
        with self.calls.make("UpdateItem"):
            head = self._heads.get(name)
            if head is not None and not getattr(head, attribute):
                changes: Any = {attribute: self._clock()}
                self._heads[name] = dataclasses.replace(head, **changes)
