"""Telemetry of a relay that runs as a command: a line on standard error for each batch and error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.cli.printing import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.outbox.entry import Entry
    from lanes.outbox.rules import Mark
    from lanes.outbox.store import OutboxStatus
    from lanes.outbox.telemetry import RelayMetric, RelayRound


class ConsoleTelemetry:
    """Prints telemetry for a terminal or the log of a process manager."""

    def count(self, metric: RelayMetric, value: float = 1) -> None:
        """Print a count."""
        say(f"{metric.value} {value:g}")

    def not_sent(self, entry: Entry, mark: Mark, *, reason: str) -> None:
        """Print an entry that was not sent."""
        say(f"entry {entry.id} ({entry.kind}) is {mark.state.value} after attempt {mark.attempts}: {reason}")

    def round(self, outcome: RelayRound, marks: Sequence[Mark], *, now: float) -> None:
        """Print the result of a batch."""
        oldest = max((now - mark.entry.created_at for mark in marks), default=0.0)
        lost = f", {outcome.lock_lost} lost to another relay" if outcome.lock_lost else ""
        say(
            f"published {outcome.published}, failed {outcome.failed}{lost}; the oldest was {oldest:.1f} s old"
        )

    def outage(self, error: Exception) -> None:
        """Print an outage."""
        say(f"{error}; trying again")

    def status(self, status: OutboxStatus, *, now: float) -> None:
        """Print nothing; `lanes outbox status` shows the counts."""
