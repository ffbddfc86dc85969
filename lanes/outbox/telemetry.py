"""The telemetry of a relay: metrics, log events, and the protocol that receives them."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.outbox.entry import Entry
    from lanes.outbox.rules import Mark
    from lanes.outbox.store import OutboxStatus


class RelayMetric(enum.StrEnum):
    """Names of the relay's metrics."""

    PUBLISHED = "OutboxPublished"
    FAILED = "OutboxFailedAttempts"
    ABANDONED = "OutboxAbandonedEntries"
    LOCK_LOST = "OutboxLocksLost"
    TAKEN_OVER = "OutboxLocksTakenOver"
    LATENCY = "OutboxPublishLatency"  # milliseconds from written to marked as published
    WAITING = "OutboxPending"
    WAITING_FAILED = "OutboxFailed"
    KEPT_ABANDONED = "OutboxAbandoned"
    OLDEST_AGE = "OutboxOldestAge"  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayRound:
    """
    The result of one round.

    Attributes:
        published: entries that SQS has accepted and the relay has marked.
        failed: entries that were not sent.
        abandoned: failed entries without attempts left.
        lock_lost: entries that another relay took over meanwhile; they were not marked.
        is_idle: nothing was claimed, and an immediate next round would claim nothing either.
    """

    published: int = 0
    failed: int = 0
    abandoned: int = 0
    lock_lost: int = 0
    is_idle: bool = True


class RelayTelemetry(Protocol):
    """Receives the metrics and events of a relay."""

    def count(self, metric: RelayMetric, value: float = 1) -> None:
        """Add to a count."""

    def not_sent(self, entry: Entry, mark: Mark, *, reason: str) -> None:
        """Report an entry that was not sent, with its mark."""

    def round(self, outcome: RelayRound, marks: Sequence[Mark], *, now: float) -> None:
        """Report the result of a round."""

    def outage(self, error: Exception) -> None:
        """Report a temporary outage of the store."""

    def status(self, status: OutboxStatus, *, now: float) -> None:
        """Report the status of the outbox."""


class NoTelemetry:
    """Telemetry that reports nothing."""

    def count(self, metric: RelayMetric, value: float = 1) -> None:
        """Do nothing."""

    def not_sent(self, entry: Entry, mark: Mark, *, reason: str) -> None:
        """Do nothing."""

    def round(self, outcome: RelayRound, marks: Sequence[Mark], *, now: float) -> None:
        """Do nothing."""

    def outage(self, error: Exception) -> None:
        """Do nothing."""

    def status(self, status: OutboxStatus, *, now: float) -> None:
        """Do nothing."""
