"""Slots of a function: those in use, and the throttled batches that queue for a free one."""

import itertools
import threading
from dataclasses import dataclass, field

_numbers = itertools.count()


@dataclass(eq=False, slots=True)
class SlotWait:
    """
    A throttled batch that queues for a slot.

    Attributes:
        rank: lowest first; among equals the one that queued first.
        offered: set once a slot is kept for the batch, or by you to end its wait.
    """

    rank: int
    number: int = field(default_factory=lambda: next(_numbers))
    offered: threading.Event = field(default_factory=threading.Event)


class Slots:
    """
    The slots of one function; hold a lock around every call.

    A free slot is kept for the first batch that queues, so that no later one overtakes it.
    """

    def __init__(self) -> None:
        self._taken = 0
        self._queue: list[SlotWait] = []
        self._kept: set[SlotWait] = set()

    def take(self, limit: int | None, wait: SlotWait | None = None) -> bool:
        """Take a free slot, or the one kept for this wait, which ends; return false if there is none."""
        self._forget(wait)
        is_free = limit is None or self._taken + len(self._kept) < limit
        self._taken += is_free
        return is_free

    def give_back(self, limit: int | None) -> None:
        """Free a slot."""
        self._taken -= 1
        self.offer(limit)

    def queue(self, wait: SlotWait, limit: int | None) -> None:
        """Queue for the next free slot; it may be there by now."""
        self._queue.append(wait)
        self.offer(limit)

    def leave(self, wait: SlotWait, limit: int | None) -> None:
        """Queue no more; a slot that was kept is free again."""
        self._forget(wait)
        self.offer(limit)

    def offer(self, limit: int | None) -> None:
        """Keep the free slots for those that queue."""
        while self._queue and (limit is None or self._taken + len(self._kept) < limit):
            first = min(self._queue, key=lambda wait: (wait.rank, wait.number))
            self._queue.remove(first)
            self._kept.add(first)
            first.offered.set()

    def _forget(self, wait: SlotWait | None) -> None:
        if wait is not None:
            self._kept.discard(wait)
            if wait in self._queue:
                self._queue.remove(wait)
