"""
Figures of the lanes' use over a time, as CloudWatch, Lambda and the consumer count it, and the line of a bill.

Owns the words use and line (of a bill).
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from lanes.operate.prices import Item

if TYPE_CHECKING:
    from collections.abc import Sequence

REQUEST_BYTES = 64 * 1024
"""AWS: each 64 KB of a payload are one request (Amazon SQS pricing)."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LaneUse:
    """
    Figures of one lane over a time; None is unknown.

    Attributes:
        lane: its name.
        lanes_above: how many lanes it makes way for.
        batch_size: most records of an invocation.
        sent: messages sent to its queue.
        sent_bytes: their bytes.
        received: messages received from it, each time anew.
        empty_receives: polls that found nothing.
        records: receives that reached the function.
        handled: messages handled, and skipped as done before.
        yielded: records that made way.
        returned: records that went back untouched.
        failed: failed attempts.
        dead_lettered: messages given up.
        woken: parked records, of any lane, that its invocations made visible early.
        batches: invocations.
        done_batches: those in which something was handled.
        yielded_batches: those that made way.
        batch_seconds: their time.
        handler_seconds: that of handlers in it.
        metrics: the consumer's own metrics that had data.
    """

    lane: str
    lanes_above: int
    batch_size: int
    sent: float | None = None
    sent_bytes: float | None = None
    received: float | None = None
    empty_receives: float | None = None
    records: float = 0.0
    handled: float = 0.0
    yielded: float = 0.0
    returned: float = 0.0
    failed: float = 0.0
    dead_lettered: float = 0.0
    woken: float = 0.0
    batches: float = 0.0
    done_batches: float = 0.0
    yielded_batches: float = 0.0
    batch_seconds: float = 0.0
    handler_seconds: float = 0.0
    metrics: int = 0

    @property
    def a_batch(self) -> float:
        """Records of an invocation, on average."""
        return max(1.0, self.records / self.batches) if self.batches else float(self.batch_size)

    @property
    def requests_a_batch(self) -> int:
        """Requests that one receive counts as, by the size of its messages."""
        if not self.sent or not self.sent_bytes:
            return 1
        return max(1, math.ceil(self.sent_bytes / self.sent * self.a_batch / REQUEST_BYTES))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SharedUse:
    """
    Figures of what the lanes share, over the same time; None is unknown.

    Attributes:
        invocations: of the function.
        seconds: that AWS counted for them.
        memory_mb: of the function.
        is_arm: whether its processor is arm64.
        recheck_seconds: most age of what the consumer knows of the higher lanes.
        write_units: of the table and its index.
        read_units: the same.
        log_bytes: that the function logged.
        alarms: of the stack.
        dashboards: the same.
    """

    invocations: float | None = None
    seconds: float | None = None
    memory_mb: int
    is_arm: bool
    recheck_seconds: float
    write_units: float | None = None
    read_units: float | None = None
    log_bytes: float | None = None
    alarms: int | None = None
    dashboards: int | None = None

    @property
    def compute(self) -> Item:
        """What its time is priced as."""
        return Item.COMPUTE_ARM if self.is_arm else Item.COMPUTE_X86


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UseLine:
    """
    One line: so much of an item within the time; an `amount` of None is unknown.

    Attributes:
        lane: whose it is; empty for what is shared.
        what: what it is for.
        item: what it is priced as.
        amount: how much.
        how: where the figure comes from.
        is_estimate: whether it was not counted but worked out.
    """

    lane: str
    what: str
    item: Item
    amount: float | None
    how: str
    is_estimate: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """All figures of a time, the lanes highest first, and why some of it is unknown."""

    lanes: Sequence[LaneUse]
    shared: SharedUse
    notes: Sequence[str]
