"""What a relay that runs as a command tells: a line on standard error for each batch and each trouble."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.cli.printing import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.outbox.entry import Entry
    from lanes.outbox.relay import RelayRound
    from lanes.outbox.rules import Mark
    from lanes.outbox.store import Standing
    from lanes.outbox.telemetry import RelayMetric


class SpokenTelemetry:
    """Telemetry for a terminal or the log of a process manager."""

    def count(self, metric: RelayMetric, value: float = 1) -> None:
        """Tell a count."""
        say(f"{metric.value} {value:g}")

    def not_sent(self, entry: Entry, mark: Mark, *, reason: str) -> None:
        """Tell of an entry that was not sent."""
        say(f"entry {entry.id} ({entry.kind}) is {mark.state.value} after attempt {mark.attempts}: {reason}")

    def round(self, outcome: RelayRound, marks: Sequence[Mark], *, now: float) -> None:
        """Tell what a batch brought."""
        oldest = max((now - mark.entry.created_at for mark in marks), default=0.0)
        lost = f", {outcome.lock_lost} lost to another relay" if outcome.lock_lost else ""
        say(f"{outcome.published} published, {outcome.failed} not{lost}; the oldest was {oldest:.1f} s old")

    def trouble(self, error: Exception) -> None:
        """Tell of an outage."""
        say(f"{error}; trying again")

    def standing(self, standing: Standing, *, now: float) -> None:
        """Tell nothing; `lanes outbox status` does."""
