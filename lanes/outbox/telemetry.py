"""The telemetry of a relay: metrics, log events, and the class that receives them."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.fault_codes import Cause
    from lanes.outbox.entry import Entry
    from lanes.outbox.rules import Mark
    from lanes.outbox.store import OutboxStatus
    from lanes.retries import Outage


class RelayMetric(enum.StrEnum):
    """Names of the relay's metrics."""

    PUBLISHED = "OutboxPublished"
    FAILED = "OutboxFailedAttempts"
    ABANDONED = "OutboxAbandonedEntries"
    LANE_FAILURES = "OutboxLaneFailures"  # rounds in which a lane accepted nothing, by lane and cause
    LOCK_LOST = "OutboxLocksLost"
    TAKEN_OVER = "OutboxLocksTakenOver"
    LATENCY = (
        "OutboxPublishLatency"  # milliseconds from written, or from `not_before`, to marked as published
    )
    WAITING = "OutboxPending"
    WAITING_FAILED = "OutboxFailed"
    KEPT_ABANDONED = "OutboxAbandoned"
    WAITING_IN_LANE = "OutboxPendingInLane"  # by lane
    OLDEST_AGE = "OutboxOldestAge"  # seconds
    ROUND_TIME = "OutboxRoundTime"  # milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayRound:
    """
    The result of one round, or of several.

    Attributes:
        published: entries that SQS has accepted and the relay has marked.
        failed: entries that SQS refused for a fault of their own; each has one failed attempt more.
        returned: entries that were not sent for no fault of their own, and keep their attempts.
        abandoned: failed entries without attempts left.
        lock_lost: entries that another relay took over meanwhile; they were not marked.
        is_idle: nothing was claimed, and an immediate next round would claim nothing either.
    """

    published: int = 0
    failed: int = 0
    returned: int = 0
    abandoned: int = 0
    lock_lost: int = 0
    is_idle: bool = True

    def plus(self, later: RelayRound) -> RelayRound:
        """Return the sum of two rounds; idle is what the later one says."""
        return RelayRound(
            published=self.published + later.published,
            failed=self.failed + later.failed,
            returned=self.returned + later.returned,
            abandoned=self.abandoned + later.abandoned,
            lock_lost=self.lock_lost + later.lock_lost,
            is_idle=later.is_idle,
        )


class RelayTelemetry:
    """Receives the metrics and events of a relay; this one reports nothing."""

    def count(self, metric: RelayMetric, value: float = 1) -> None:
        """Add to a count."""

    def not_sent(self, entry: Entry, mark: Mark, *, reason: str) -> None:
        """Report an entry that SQS refused for a fault of its own, with its mark."""

    def round(self, outcome: RelayRound, marks: Sequence[Mark], *, now: float, seconds: float) -> None:
        """Report the result of a round and how long it took, with the marks that were written."""

    def slow_round(self, seconds: float) -> None:
        """Report a round that took more than half of its lock."""

    def lane_failed(self, lane: str, cause: Cause) -> None:
        """Count a round in which a lane did not accept messages for no fault of theirs."""

    def outage(self, outage: Outage, *, now: float) -> None:
        """Report an outage of the store or of a lane: at first, then once a minute."""

    def recovered(self, outage: Outage, *, now: float) -> None:
        """Report the end of an outage."""

    def status(self, status: OutboxStatus, *, now: float) -> None:
        """Report the status of the outbox."""

    def flush(self) -> None:
        """Write all figures since the last time."""
