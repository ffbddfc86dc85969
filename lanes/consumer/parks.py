"""What one environment knows of parked records: how many, until when, and how old the knowledge is."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lanes.consumer.ledger import Entry


class ParkKnowledge:
    """
    Parked records by lane, as far as this environment has seen.

    What it parks itself it knows at once; what others park it learns by reading the ledger. Records end their
    parking without anybody saying so: what is over is forgotten.
    """

    def __init__(self) -> None:
        self._entries: dict[str, dict[str, Entry]] = defaultdict(dict)
        self._read_at: dict[str, float] = {}

    def note(self, entries: Iterable[Entry]) -> None:
        """Take in records as they were just noted: parked, or not parked any more."""
        for entry in entries:
            if entry.park is None:
                self._entries[entry.lane].pop(entry.message_id, None)
            else:
                self._entries[entry.lane][entry.message_id] = entry

    def replace(self, lane: str, entries: Iterable[Entry], *, now: float) -> None:
        """Take in all that the ledger says of one lane."""
        self._entries[lane] = {entry.message_id: entry for entry in entries}
        self._read_at[lane] = now

    def forget(self, lane: str, message_ids: Iterable[str]) -> None:
        """Drop records that were seen again: they are parked no more."""
        known = self._entries[lane]
        for message_id in message_ids:
            known.pop(message_id, None)

    def distrust(self, lane: str) -> None:
        """Have the ledger read anew before the next use: what is known of a lane proved old."""
        self._read_at.pop(lane, None)

    def entries(self, lane: str, *, now: float) -> list[Entry]:
        """Return the records of a lane that are parked at this moment, the earliest to return first."""
        known = self._entries[lane]
        for message_id in [key for key, entry in known.items() if entry.parked_until <= now]:
            del known[message_id]
        return sorted(known.values(), key=lambda entry: entry.parked_until)

    def count(self, lane: str, *, now: float) -> int:
        """Return how many records of a lane are parked at this moment."""
        return len(self.entries(lane, now=now))

    def latest(self, lane: str, *, now: float) -> float:
        """Return until when anything of a lane is parked, or 0."""
        return max((entry.parked_until for entry in self.entries(lane, now=now)), default=0.0)

    def is_fresh(self, lane: str, *, now: float, age: float) -> bool:
        """Whether the ledger was read for this lane not longer than `age` seconds ago."""
        return now - self._read_at.get(lane, float("-inf")) <= age
