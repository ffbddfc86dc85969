"""The use of the lanes over a period, as counted by CloudWatch, Lambda and the consumer."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from lanes.operate.cost.prices import Item

if TYPE_CHECKING:
    from collections.abc import Sequence

REQUEST_BYTES = 64 * 1024
"""AWS: each 64 KB of a payload are one request (Amazon SQS pricing)."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LaneUse:
    """
    The use of one lane over a period; None is unknown.

    Attributes:
        lane: its name.
        lanes_above: number of higher lanes.
        batch_size: maximum records of a batch.
        sent: messages sent to its queue.
        sent_bytes: their bytes.
        received: receives of messages from it.
        empty_receives: polls without a message.
        records: receives that reached the function.
        handled: messages handled, and duplicates skipped.
        yielded: records that yielded.
        returned: records returned without an attempt.
        failed: failed attempts.
        dead_lettered: messages dead-lettered.
        woken: parked records, of any lane, that its invocations woke.
        batches: batches; in the mapped engine, invocations.
        done_batches: batches that handled a message; in the pull engine unknown, and 0.
        yielded_batches: batches that yielded.
        batch_seconds: time of the batches.
        handler_seconds: time of the handlers in them.
        metrics: number of the consumer's metrics with data.
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
        """Records of a batch, on average."""
        return max(1.0, self.records / self.batches) if self.batches else float(self.batch_size)

    @property
    def requests_a_batch(self) -> int:
        """Requests that SQS charges for one receive, by the size of its messages."""
        if not self.sent or not self.sent_bytes:
            return 1
        return max(1, math.ceil(self.sent_bytes / self.sent * self.a_batch / REQUEST_BYTES))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BellUse:
    """
    The use of the bell of the pull engine over a period; None is unknown.

    Attributes:
        slots: number of slots, for each of which a call rings.
        sent: rings that its queue accepted.
        received: receives of rings.
        empty_receives: polls without a ring.
    """

    slots: int
    sent: float | None = None
    received: float | None = None
    empty_receives: float | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SharedUse:
    """
    The use that the lanes share over the same period; None is unknown.

    Attributes:
        invocations: invocations of the function.
        seconds: their time, as counted by Lambda.
        memory_mb: memory of the function.
        is_arm: whether its processor is arm64.
        recheck_seconds: maximum age of a backlog check.
        write_units: of the table and its index.
        read_units: of the table and its index.
        log_bytes: size of the function's log.
        alarms: alarms of the stack.
        dashboards: dashboards of the stack.
        endpoint_zones: interface endpoints of the bulk jobs, each counted once for each of its zones.
        bell: the bell; None in the mapped engine.
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
    endpoint_zones: int | None = None
    bell: BellUse | None = None

    @property
    def compute(self) -> Item:
        """The item by which its time is priced."""
        return Item.COMPUTE_ARM if self.is_arm else Item.COMPUTE_X86


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UseLine:
    """
    One line: the amount of an item over the period; None is unknown.

    Attributes:
        lane: the lane; empty if the lanes share it.
        what: the purpose.
        item: the priced item.
        amount: the amount.
        how: the source of the figure.
        is_estimate: whether it was estimated instead of counted.
    """

    lane: str
    what: str
    item: Item
    amount: float | None
    how: str
    is_estimate: bool = False

    @property
    def code(self) -> str:
        """The purpose, for programs."""
        return "_".join(self.what.replace(",", "").split())


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """The use over a period, by lane from the highest, with notes on unknown figures."""

    lanes: Sequence[LaneUse]
    shared: SharedUse
    notes: Sequence[str]
