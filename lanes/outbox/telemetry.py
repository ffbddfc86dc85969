"""What a relay tells about itself: events for the log and figures for metrics, behind one small protocol."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.outbox.entry import Entry
    from lanes.outbox.relay import RelayRound
    from lanes.outbox.rules import Mark
    from lanes.outbox.store import Standing


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


class RelayTelemetry(Protocol):
    """Where a relay reports to."""

    def count(self, metric: RelayMetric, value: float = 1) -> None:
        """Add to a count."""

    def not_sent(self, entry: Entry, mark: Mark, *, reason: str) -> None:
        """Report an entry that was not sent, and what becomes of it."""

    def round(self, outcome: RelayRound, marks: Sequence[Mark], *, now: float) -> None:
        """Report what a round did."""

    def trouble(self, error: Exception) -> None:
        """Report an outage that the relay waits out."""

    def standing(self, standing: Standing, *, now: float) -> None:
        """Report how the outbox stands."""


class Silence:
    """Telemetry that tells nobody."""

    def count(self, metric: RelayMetric, value: float = 1) -> None:
        """Do nothing."""

    def not_sent(self, entry: Entry, mark: Mark, *, reason: str) -> None:
        """Do nothing."""

    def round(self, outcome: RelayRound, marks: Sequence[Mark], *, now: float) -> None:
        """Do nothing."""

    def trouble(self, error: Exception) -> None:
        """Do nothing."""

    def standing(self, standing: Standing, *, now: float) -> None:
        """Do nothing."""
