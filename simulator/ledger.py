"""The ledger's table in memory, with its capacity units."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.testing.memory import MemoryLedger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lanes.consumer.ledger import Entry
    from lanes.testing.calls import Calls


class CountedLedger(MemoryLedger):
    """
    The table, with its capacity units.

    AWS: a write of up to 1 KB is one unit, two in a transaction, and one more for an index that changes with it; a
    consistent read of up to 4 KB is one (DynamoDB developer guide, "On-demand capacity mode").
    """

    def __init__(self, calls: Calls) -> None:
        super().__init__(calls)
        self.writes = 0
        self.reads = 0.0

    def read(self, lane: str, message_ids: Sequence[str]) -> Mapping[str, Entry]:
        """Return the entries found."""
        self.reads += len(message_ids)
        return super().read(lane, message_ids)

    def note(self, entries: Sequence[Entry]) -> None:
        """Put the entries."""
        self.writes += sum(1 if entry.park is None else 2 for entry in entries)
        super().note(entries)

    def amend(self, entries: Sequence[Entry]) -> None:
        """Put the entries of which no later receive was noted."""
        self.writes += len(entries)
        super().amend(entries)

    def unpark(self, entries: Sequence[Entry]) -> bool:
        """Unpark all or none."""
        self.writes += 3 * len(entries)
        return super().unpark(entries)

    def parked(self, lane: str, *, after: float, limit: int | None = None) -> Sequence[Entry]:
        """Return the parked entries, the first to return first."""
        found = super().parked(lane, after=after, limit=limit)
        self.reads += max(1.0, len(found) / 4) / 2
        return found
