"""
The send window: rows of one lane that are read and not yet sent, in which batches they go, what failure does.

Pure decisions as in `lanes.send_order`, for rows without end: they come one by one and leave when SQS has them.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lanes.outgoing import Refused
from lanes.send_order import MOST_BYTES, MOST_ENTRIES, RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.errors import AwsError

    from .outgoing_rows import OutgoingRow

# Rows and bytes that wait in memory, however long the partition and however few its groups.
MOST_ROWS = 2_000
MOST_HELD_BYTES = 16 * MOST_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A row that will not be sent: because of what it is (`refused`), or because the lane does not take it."""

    item: OutgoingRow
    code: str
    reason: str
    refused: bool


class SendWindow:
    """
    Rows of one lane between the table and SQS.

    Args:
        lane: name of the lane.
        ordered: at most one row of a group is on its way at a time. If not, rows are independent and a batch
            may hold several of one group.
        concurrency: most calls on their way; halved by a failure that may pass, regained bit by bit.
        policy: when to try again.
        jitter: gives numbers from 0 to 1.
    """

    def __init__(
        self,
        lane: str,
        *,
        ordered: bool,
        concurrency: int,
        policy: RetryPolicy,
        jitter: Callable[[], float],
    ) -> None:
        self.lane = lane
        self.failed: list[Failed] = []
        self.calls = 0
        self._ordered = ordered
        self._most_calls = self._allowed_calls = float(concurrency)
        self._policy = policy
        self._jitter = jitter
        self._ready: deque[OutgoingRow] = deque()
        self._behind: dict[str, deque[OutgoingRow]] = {}
        self._delayed: list[tuple[float, int, OutgoingRow]] = []
        self._rows = 0
        self._bytes = 0

    @property
    def is_empty(self) -> bool:
        """Whether all rows that were added have left."""
        return self._rows == 0

    @property
    def is_full(self) -> bool:
        """Whether no more rows should be added for now."""
        return self._rows >= MOST_ROWS or self._bytes >= MOST_HELD_BYTES

    @property
    def has_batch(self) -> bool:
        """Whether a full batch could go."""
        return len(self._ready) >= MOST_ENTRIES

    def add(self, item: OutgoingRow) -> None:
        """Take a row."""
        self._rows += 1
        self._bytes += item.size_bytes
        if self._ordered:
            behind = self._behind.get(item.message_group_id)
            if behind is not None:
                behind.append(item)
                return
            self._behind[item.message_group_id] = deque()
        self._ready.append(item)

    def next_batch(self, now: float, *, most: int = MOST_ENTRIES) -> list[OutgoingRow]:
        """Give the rows of the next call, none where nothing may go at this moment."""
        while self._delayed and self._delayed[0][0] <= now:
            self._ready.appendleft(heapq.heappop(self._delayed)[2])
        if self.calls >= int(self._allowed_calls):
            return []
        batch: list[OutgoingRow] = []
        room = MOST_BYTES
        while self._ready and len(batch) < most and self._ready[0].size_bytes <= room:
            item = self._ready.popleft()
            if item.attempts == 0:
                item.first_tried_at = now
            item.attempts += 1
            room -= item.size_bytes
            batch.append(item)
        self.calls += bool(batch)
        return batch

    def next_due(self) -> float | None:
        """Give the time when a waiting row may be tried again."""
        return self._delayed[0][0] if self._delayed else None

    def settle(
        self, batch: Sequence[OutgoingRow], answers: Sequence[Refused | None], now: float
    ) -> list[OutgoingRow]:
        """Take the answers of a call and give the rows that are in the queue."""
        self.calls -= 1
        accepted: list[OutgoingRow] = []
        slowed = False
        for item, answer in zip(batch, answers, strict=True):
            if answer is None:
                accepted.append(item)
                self._leave(item)
            elif answer.retryable and not self._policy.is_spent(item, now):
                slowed = True
                due = now + self._policy.delay(item.attempts, self._jitter())
                heapq.heappush(self._delayed, (due, item.position, item))
            else:
                self._fail(item, answer, refused=not answer.retryable)
        self._adapt(slowed=slowed)
        return accepted

    def settle_failure(self, batch: Sequence[OutgoingRow], error: AwsError, now: float) -> None:
        """Take the failure of a whole call; where it can't pass, its rows have failed."""
        answer = Refused(code=error.code, reason=str(error), retryable=error.retryable)
        if error.retryable:
            self.settle(batch, [answer] * len(batch), now)
            return
        self.calls -= 1
        for item in batch:
            self._fail(item, answer, refused=False)

    def _fail(self, item: OutgoingRow, answer: Refused, *, refused: bool) -> None:
        self._leave(item)
        self.failed.append(Failed(item=item, code=answer.code, reason=answer.reason, refused=refused))

    def _leave(self, item: OutgoingRow) -> None:
        self._rows -= 1
        self._bytes -= item.size_bytes
        if self._ordered:
            behind = self._behind[item.message_group_id]
            if behind:
                self._ready.append(behind.popleft())
            else:
                del self._behind[item.message_group_id]

    def _adapt(self, *, slowed: bool) -> None:
        changed = self._allowed_calls / 2 if slowed else self._allowed_calls + 1 / self._allowed_calls
        self._allowed_calls = min(max(changed, 1.0), self._most_calls)
