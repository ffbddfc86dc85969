"""
The send window: rows of one lane that were read and not yet sent, their batches, and their retries.

It makes pure decisions, as `lanes.producer.order` does, for an endless iterator of rows: a row enters when it was read
and leaves when SQS has it.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lanes.fault_codes import is_about_message, is_throttle
from lanes.producer.flow import CallFlow
from lanes.producer.order import MAX_BYTES, MAX_ENTRIES
from lanes.producer.outgoing import Refused
from lanes.retries import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.errors import AwsError

    from ..rows.outgoing import OutgoingRow

# Rows and bytes in memory, however long the partition and however few its groups.
MAX_ROWS = 2_000
MAX_WINDOW_BYTES = 16 * MAX_BYTES
# At 10 ms a call these carry 32,000 messages a second, as many as a core prepares.
CONCURRENCY = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A row that will not be sent: SQS refused the row itself (`refused`), or the lane does not accept it."""

    item: OutgoingRow
    code: str
    reason: str
    refused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSettings:
    """
    Settings of all windows of a task.

    Attributes:
        ordered: Keep the order within a group: one row of a group is in flight at a time. Otherwise rows are
            independent, and a batch may hold several of one group.
        concurrency: Maximum calls in flight.
        policy: When to retry.
        jitter: Numbers from 0 to 1 that spread the retries.
    """

    ordered: bool = True
    concurrency: int = CONCURRENCY
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    jitter: Callable[[], float] = random.random


class SendWindow:
    """
    Rows of one lane between the table and SQS.

    Args:
        lane: Name of the lane.
        settings: Order, concurrency and retries.
    """

    def __init__(self, lane: str, settings: WindowSettings) -> None:
        self.lane = lane
        self.failed: list[Failed] = []
        self._settings = settings
        self._flow = CallFlow(settings.concurrency, settings.jitter)
        self._ready: deque[OutgoingRow] = deque()
        self._followers: dict[str, deque[OutgoingRow]] = {}
        self._delayed: list[tuple[float, int, OutgoingRow]] = []
        self._rows = 0
        self._bytes = 0

    @property
    def is_empty(self) -> bool:
        """Whether all added rows have left."""
        return self._rows == 0

    @property
    def is_full(self) -> bool:
        """Whether you should add no more rows for now."""
        return self._rows >= MAX_ROWS or self._bytes >= MAX_WINDOW_BYTES

    @property
    def has_batch(self) -> bool:
        """Whether a full batch is ready."""
        return len(self._ready) >= MAX_ENTRIES

    def add(self, item: OutgoingRow) -> None:
        """Add a row."""
        self._rows += 1
        self._bytes += item.size_bytes
        if self._settings.ordered:
            followers = self._followers.get(item.message_group_id)
            if followers is not None:
                followers.append(item)
                return
            self._followers[item.message_group_id] = deque()
        self._ready.append(item)

    def next_batch(self, now: float, *, max_entries: int = MAX_ENTRIES) -> list[OutgoingRow]:
        """Give the rows of the next call, or none if no call may start now."""
        while self._delayed and self._delayed[0][0] <= now:
            self._ready.appendleft(heapq.heappop(self._delayed)[2])
        if not self._flow.may_start(now):
            return []
        batch: list[OutgoingRow] = []
        bytes_left = MAX_BYTES
        while self._ready and len(batch) < max_entries and self._ready[0].size_bytes <= bytes_left:
            if batch and (batch[0].alone or self._ready[0].alone):
                break
            item = self._ready.popleft()
            if item.attempts == 0:
                item.first_tried_at = now
            item.attempts += 1
            bytes_left -= item.size_bytes
            batch.append(item)
        if batch:
            self._flow.started()
        return batch

    def next_due(self) -> float | None:
        """Give the time of the next retry or the end of a pause, or None."""
        retry = self._delayed[0][0] if self._delayed else None
        return self._flow.next_due(retry, is_ready=bool(self._ready))

    def settle(
        self, batch: Sequence[OutgoingRow], answers: Sequence[Refused | None], now: float
    ) -> list[OutgoingRow]:
        """Apply the answers to a call and give the rows that are in the queue."""
        answered = list(zip(batch, answers, strict=True))
        accepted = [item for item, answer in answered if answer is None]
        refused = [(item, answer) for item, answer in answered if answer is not None]
        self._flow.ended(now, [answer for _, answer in refused], accepted=bool(accepted))
        for item in accepted:
            self._remove(item)
        if refused:
            self._refuse(refused, now)
        return accepted

    def settle_failure(self, batch: Sequence[OutgoingRow], error: AwsError, now: float) -> None:
        """
        Apply the failure of a whole call; its rows fail if a retry cannot help.

        Rows of a call that was refused for one of them are sent again, each alone.
        """
        answer = Refused(code=error.code, reason=str(error), retryable=error.retryable)
        if error.retryable:
            self.settle(batch, [answer] * len(batch), now)
            return
        self._flow.ended(now, [answer], accepted=False)
        is_own_fault = is_about_message(error.code)
        if is_own_fault and len(batch) > 1:
            for item in reversed(batch):
                # That did not try the others.
                item.attempts -= 1
                item.alone = True
                self._ready.appendleft(item)
            return
        for item in batch:
            self._fail(item, answer, refused=is_own_fault)

    def _refuse(self, refused: Sequence[tuple[OutgoingRow, Refused]], now: float) -> None:
        # Together, so that they fill one call again.
        attempts = max(item.attempts for item, _ in refused)
        due = now + self._settings.policy.delay(attempts, self._settings.jitter())
        for item, answer in refused:
            if is_throttle(answer.code):
                self._resend(item, answer, now)
            elif answer.retryable and not self._settings.policy.is_spent(item, now):
                heapq.heappush(self._delayed, (due, item.position, item))
            else:
                self._fail(item, answer, refused=not answer.retryable)

    def _resend(self, item: OutgoingRow, answer: Refused, now: float) -> None:
        """Send a throttled row first after the pause: SQS has not seen it, and would refuse any other row too."""
        item.attempts -= 1
        policy = self._settings.policy
        if self._flow.is_stuck(now, after=policy.give_up_after) or policy.is_spent(item, now):
            self._fail(item, answer, refused=False)
        else:
            heapq.heappush(self._delayed, (self._flow.resumes_at, item.position, item))

    def _fail(self, item: OutgoingRow, answer: Refused, *, refused: bool) -> None:
        self._remove(item)
        self.failed.append(Failed(item=item, code=answer.code, reason=answer.reason, refused=refused))

    def _remove(self, item: OutgoingRow) -> None:
        self._rows -= 1
        self._bytes -= item.size_bytes
        if self._settings.ordered:
            followers = self._followers[item.message_group_id]
            if followers:
                self._ready.append(followers.popleft())
            else:
                del self._followers[item.message_group_id]
