"""What one environment knows of parked records: how many, until when, and how old the knowledge is."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lanes.config import Lane, LanesConfig
    from lanes.consumer.ledger import Entry, Ledger
    from lanes.consumer.others import Others


INDEX_LAG = 2.0
"""Seconds for which this environment's own memory of a park goes before what the ledger's index says."""


class ParkKnowledge:
    """
    Parked records by lane, as far as this environment has seen.

    What it parks itself it knows at once; what others park it learns by reading the ledger. Records end their
    parking without anybody saying so: what is over is forgotten.
    """

    def __init__(self) -> None:
        self._entries: dict[str, dict[str, Entry]] = defaultdict(dict)
        self._unwritten: set[str] = set()
        self._read_at: dict[str, float] = {}

    def note(self, entries: Iterable[Entry], *, written: bool = True) -> None:
        """Take in records as they were just settled: parked, or not; `written` tells whether the ledger knows."""
        for entry in entries:
            self._unwritten.discard(entry.message_id)
            if not written and entry.park is not None:
                self._unwritten.add(entry.message_id)
            if entry.park is None:
                self._entries[entry.lane].pop(entry.message_id, None)
            else:
                self._entries[entry.lane][entry.message_id] = entry

    def replace(self, lane: str, entries: Iterable[Entry], *, now: float) -> None:
        """
        Take in what the ledger says of one lane, beside what this environment parked itself a moment ago.

        AWS: a global index follows its table with some delay (DynamoDB developer guide, "Global secondary indexes"),
        so what is missing there need not be over.
        """
        recent = {
            key: entry
            for key, entry in self._entries[lane].items()
            if key in self._unwritten or now - entry.noted_at <= INDEX_LAG
        }
        self._entries[lane] = {entry.message_id: entry for entry in entries} | recent
        self._read_at[lane] = now

    def is_written(self, entry: Entry) -> bool:
        """Whether the ledger knows that a record is parked."""
        return entry.message_id not in self._unwritten

    def forget(self, lane: str, message_ids: Iterable[str]) -> None:
        """Drop records that were seen again: they are parked no more."""
        known = self._entries[lane]
        for message_id in message_ids:
            known.pop(message_id, None)
            self._unwritten.discard(message_id)

    def distrust(self, lane: str) -> None:
        """Have the ledger read anew before the next use: what is known of a lane proved old."""
        self._read_at.pop(lane, None)

    def entries(self, lane: str, *, now: float) -> list[Entry]:
        """Return the records of a lane that are parked at this moment."""
        known = self._entries[lane]
        over = [key for key, entry in known.items() if entry.parked_until <= now]
        self.forget(lane, over)
        return list(known.values())

    def count(self, lane: str, *, now: float) -> int:
        """Return how many records of a lane are parked at this moment."""
        known = self._entries[lane]
        return sum(entry.parked_until > now for entry in known.values()) if known else 0

    def latest(self, lane: str, *, now: float) -> float:
        """Return until when anything of a lane is parked, or 0."""
        latest = max((entry.parked_until for entry in self._entries[lane].values()), default=0.0)
        return latest if latest > now else 0.0

    def is_fresh(self, lane: str, *, now: float, age: float) -> bool:
        """Whether the ledger was read for this lane not longer than `age` seconds ago."""
        return now - self._read_at.get(lane, float("-inf")) <= age


class ParkedRecords:
    """
    Parked records of the lanes, those of other environments read from the ledger where the knowledge is old.

    Args:
        known: what this environment has seen; what is read is noted there.
        others: the other environments.

    """

    def __init__(
        self,
        *,
        known: ParkKnowledge,
        config: LanesConfig,
        ledger: Ledger,
        others: Others,
        clock: Callable[[], float],
    ) -> None:
        self._known = known
        self._config = config
        self._ledger = ledger
        self._others = others
        self._clock = clock
        # Alone, the ledger can't tell more than was noted here, but for what an environment before this one left.
        self._age = 15.0 if others.alone else 1.0

    def may_exist(self, lane: Lane) -> bool:
        """Whether records of the lane may be parked, as far as it can be told without a call."""
        now = self._clock()
        seen = self._others.seen.parked_until.get(lane.name, 0.0)
        return seen > now or self._known.count(lane.name, now=now) > 0

    def count(self, lane: Lane) -> int:
        """Return how many records of a lane are parked, reading the ledger where the knowledge is old."""
        now = self._clock()
        if not self._known.is_fresh(lane.name, now=now, age=self._age):
            self._read(lane, now=now, limit=None)
        return self._known.count(lane.name, now=now)

    def entries(self, lane: Lane, *, batches: int) -> list[Entry]:
        """
        Return parked records of a lane, at least those of so many batches that return first.

        With one slot, what others parked before is not looked for: it returns by itself, and soon. Nobody yields to
        the last lane, so only the first of its records are read.
        """
        now = self._clock()
        if not self._others.alone and not self._known.is_fresh(lane.name, now=now, age=self._age):
            limit = lane.batch_size * (batches + 1) if lane == self._config.last_lane else None
            self._read(lane, now=now, limit=limit)
        return self._known.entries(lane.name, now=now)

    def _read(self, lane: Lane, *, now: float, limit: int | None) -> None:
        entries = list(self._ledger.parked(lane.name, after=now, limit=limit))
        if limit is not None and len(entries) >= limit and entries[0].batch != entries[-1].batch:
            # The limit may have cut the last batch, and half a batch leaves its groups blocked.
            entries = [entry for entry in entries if entry.batch != entries[-1].batch]
        self._known.replace(lane.name, entries, now=now)
