"""The rows of one lane that were read and not yet sent, with the engine of the producer."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lanes.fault_codes import is_about_message
from lanes.producer.order import LaneOrder
from lanes.producer.outgoing import Accepted, Refused
from lanes.retries import RetryPolicy

from ..rows.outgoing import OutgoingRow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# At 10 ms a call these carry 32,000 messages a second, as many as a core prepares.
CONCURRENCY = 32
ACCEPTED = Accepted(message_id="", sequence_number="")


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


class SendWindow(LaneOrder[OutgoingRow]):
    """
    Rows of one lane between the table and SQS; one that fails lets the next of its group go on, or ends the task.

    Args:
        lane: Name of the lane.
        settings: Order, concurrency and retries.
    """

    def __init__(self, lane: str, settings: WindowSettings) -> None:
        super().__init__(
            lane,
            concurrency=settings.concurrency,
            policy=settings.policy,
            jitter=settings.jitter,
            ordered=settings.ordered,
        )
        self.failed: list[Failed] = []

    def answered(
        self, batch: Sequence[OutgoingRow], answers: Sequence[Refused | None], now: float
    ) -> list[OutgoingRow]:
        """Apply the answers to a call, by place, and give the rows that are in the queue."""
        named = {item.index: answer or ACCEPTED for item, answer in zip(batch, answers, strict=True)}
        return self.settle(batch, named, now)

    def _try(self, item: OutgoingRow, now: float) -> None:
        # Throttled tries sent nothing, so their time does not count: a job waits for its lane.
        if item.attempts == 0:
            item.first_tried_at = now

    def _give_up(self, item: OutgoingRow, answer: Refused) -> None:
        refused = not answer.retryable and (not answer.of_call or is_about_message(answer.code))
        self.failed.append(Failed(item=item, code=answer.code, reason=answer.reason, refused=refused))
        self._leave(item)
