"""The ends of visibility timeouts, earliest first."""

from heapq import heapify, heappop, heappush

from lanes.testing.fifo.message import MessageState, StoredMessage
from lanes.testing.fifo.receipts import Receipts

_SLACK = 1024


class Deadlines:
    """
    A heap of moments at which messages in flight become visible.

    A deleted or changed message leaves its entry behind; such entries are skipped when due and swept out
    when they outnumber the others.
    """

    __slots__ = ("_entries", "_receipts")

    def __init__(self, receipts: Receipts) -> None:
        self._receipts = receipts
        self._entries: list[tuple[float, int]] = []

    def add(self, message: StoredMessage, *, in_flight: int) -> None:
        """Add the `visible_at` of a message, one of `in_flight`."""
        heappush(self._entries, (message.visible_at, message.position))
        if len(self._entries) > 2 * in_flight + _SLACK:
            self._entries = [entry for entry in self._entries if self._message_of(entry) is not None]
            heapify(self._entries)

    def pop_due(self, now: float) -> StoredMessage | None:
        """Take the next message with an ended visibility timeout."""
        entries = self._entries
        while entries and entries[0][0] <= now:
            message = self._message_of(heappop(entries))
            if message is not None:
                return message
        return None

    def next_at(self) -> float | None:
        """Return the earliest end to come."""
        entries = self._entries
        while entries and self._message_of(entries[0]) is None:
            heappop(entries)
        return entries[0][0] if entries else None

    def clear(self) -> None:
        """Forget all entries."""
        self._entries.clear()

    def _message_of(self, entry: tuple[float, int]) -> StoredMessage | None:
        visible_at, position = entry
        message = self._receipts.at(position)
        if message is None or message.state is not MessageState.IN_FLIGHT:
            return None
        return message if message.visible_at == visible_at else None
