"""The consumer's calls to AWS, which a run counts, slows down and breaks, around stores in memory."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from lanes.testing.memory import MemoryLedger, MemoryQueues, MemorySlots

from .scheduler import ProcessLost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lanes.consumer.ledger import Entry

__all__ = ["Calls", "MemoryLedger", "MemoryQueues", "MemorySlots", "ProcessLost"]


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


class Calls:
    """
    Count calls to AWS, let them take time, and break some of them.

    `break_if` refuses a call before its effect, `lose_if` loses the answer of one that took effect. Either may return
    `ProcessLost`; from then on every call of the environment raises it, until you reset `lost`.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.log: list[str] = []
        self.break_if: Callable[[str, int], BaseException | None] = lambda _operation, _position: None
        self.lose_if: Callable[[str, int], BaseException | None] = lambda _operation, _position: None
        self.takes: Callable[[str], None] = lambda _operation: None
        self.lost = False

    @contextmanager
    def make(self, operation: str) -> Iterator[None]:
        """Count one call and make it in the body; raise the errors of `break_if` and `lose_if`."""
        if self.lost:
            raise ProcessLost
        position = len(self.log)
        self.log.append(operation)
        self.counts[operation] += 1
        self.takes(operation)
        self._raise(self.break_if(operation, position))
        yield
        self._raise(self.lose_if(operation, position))

    def crash(self) -> NoReturn:
        """Let the environment die here."""
        self._raise(ProcessLost())
        raise AssertionError

    def _raise(self, error: BaseException | None) -> None:
        if error is None:
            return
        self.lost = self.lost or isinstance(error, ProcessLost)
        raise error
