"""Telemetry of a relay that runs as a command: a line on standard error for each batch and error."""

from __future__ import annotations

import contextlib
import traceback
from typing import TYPE_CHECKING

from lanes.cli.printing import say
from lanes.outbox.outages import STORE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.fault_codes import Cause
    from lanes.outbox.entry import Entry
    from lanes.outbox.rules import Mark
    from lanes.outbox.store import OutboxStatus
    from lanes.outbox.telemetry import RelayMetric, RelayRound
    from lanes.retries import Outage


class ConsoleTelemetry:
    """Prints telemetry for a terminal or the log of a process manager."""

    def count(self, metric: RelayMetric, value: float = 1) -> None:
        """Print a count."""
        _say(f"{metric.value} {value:g}")

    def not_sent(self, entry: Entry, mark: Mark, *, reason: str) -> None:
        """Print an entry that was not sent."""
        _say(f"entry {entry.id} ({entry.kind}) is {mark.state.value} after attempt {mark.attempts}: {reason}")

    def round(self, outcome: RelayRound, marks: Sequence[Mark], *, now: float) -> None:
        """Print the result of a batch, unless it only says again that a lane waits."""
        lost = f", {outcome.lock_lost} lost to another relay" if outcome.lock_lost else ""
        if outcome.published or outcome.failed or lost:
            oldest = max((now - mark.entry.created_at for mark in marks), default=0.0)
            _say(
                f"published {outcome.published}, failed {outcome.failed}, returned {outcome.returned}{lost}; "
                f"the oldest was {oldest:.1f} s old"
            )

    def lane_failed(self, lane: str, cause: Cause) -> None:
        """Print nothing; `outage` does."""

    def outage(self, outage: Outage, *, now: float) -> None:
        """Print an outage, at first with the traceback."""
        where = "the outbox" if outage.of == STORE else f"lane {outage.of}"
        lasts = f", {outage.failures} failures in {now - outage.since:.0f} s" if outage.failures > 1 else ""
        _say(f"{where} waits ({outage.cause}{lasts}): {outage.reason}; trying again")
        if outage.error is not None:
            _say("".join(traceback.format_exception(outage.error)).rstrip())

    def recovered(self, outage: Outage, *, now: float) -> None:
        """Print the end of an outage."""
        where = "the outbox" if outage.of == STORE else f"lane {outage.of}"
        _say(f"{where} is back after {now - outage.since:.0f} s and {outage.failures} failures")

    def status(self, status: OutboxStatus, *, now: float) -> None:
        """Print nothing; `lanes outbox status` shows the counts."""


def _say(text: str) -> None:
    """Print a line; a relay whose log is a closed pipe or a full disk goes on."""
    with contextlib.suppress(OSError):
        say(text)
