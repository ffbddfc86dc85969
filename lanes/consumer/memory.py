"""What this environment noted itself, so that a record coming straight back needs no read of the ledger."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lanes.consumer.ledger import Entry
    from lanes.consumer.records import RawRecord

MOST_REMEMBERED = 20_000


class OwnNotes:
    """
    The entries that this environment wrote last, the oldest forgotten first.

    An entry noted at receive 4 is the whole truth at receive 5: nobody else has had the record in between.
    """

    def __init__(self, *, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._entries: OrderedDict[tuple[str, str], Entry] = OrderedDict()

    def keep(self, entries: Iterable[Entry]) -> None:
        """Remember entries as they were written."""
        for entry in entries:
            key = entry.lane, entry.message_id
            self._entries[key] = entry
            self._entries.move_to_end(key)
        while len(self._entries) > self._most:
            self._entries.popitem(last=False)

    def recall(self, lane: str, record: RawRecord) -> Entry | None:
        """Return the entry of a record if the receive before this one was noted here, and forget it."""
        entry = self._entries.pop((lane, record.message_id), None)
        return entry if entry is not None and entry.noted_receive == record.receive_count - 1 else None
