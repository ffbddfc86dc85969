"""Failed calls of one environment of the pull engine: lanes that fail pause, and reports don't flood the log."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lanes.consumer import telemetry as report
from lanes.metrics import Metric
from lanes.retries import LanePauses, OutageLog, RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from lanes.errors import AwsError
    from lanes.events import Event

PAUSES = RetryPolicy(backoff_base=timedelta(milliseconds=100), backoff_max=timedelta(seconds=5))
"""The bound is the longest time for which a lane is not asked after its outage: urgent messages may wait in it."""


@dataclasses.dataclass(slots=True, eq=False)
class CallOutages:
    """
    The calls that fail.

    Attributes:
        telemetry: receives each failed call as a count, and as a problem the first one of an outage with its
            traceback, then one a minute.
        clock: returns epoch seconds.

    """

    telemetry: report.Telemetry
    clock: Callable[[], float]
    _log: OutageLog = dataclasses.field(default_factory=OutageLog)
    _pauses: LanePauses = dataclasses.field(default_factory=lambda: LanePauses(lambda: 1.0, PAUSES, free=1))

    @property
    def failing_lanes(self) -> Collection[str]:
        """Names of the lanes at which the last receive failed."""
        return self._pauses.failing

    def is_paused(self, lane: str) -> bool:
        """Whether a lane waits for its next try: it fails."""
        return self._pauses.is_paused(lane, self.clock())

    def not_received(self, lane: str) -> None:
        """Let a lane pause from its second failure in a row on, longer each time."""
        self._pauses.failed(lane, self.clock())

    def received(self, lane: str) -> None:
        """Note that a lane answered."""
        self._pauses.accepted(lane)

    def failed(self, problem: Event, error: AwsError, *, lane: str | None = None, calls: int = 1) -> None:
        """Count a failed call, which another thread may have made, and report it if it is the first or due."""
        outage = self._log.failed(
            f"{problem} {lane}", cause=error.code, reason=str(error), now=self.clock(), error=error
        )
        fields: dict[str, Any] = {} if lane is None else {"lane": lane}
        if outage is None:
            self.telemetry.count(Metric.AWS_ERRORS, calls)
        elif outage.error is None:
            fields |= {"cause": outage.cause, "reason": outage.reason}
            fields |= {"since": outage.since, "failures": outage.failures}
            report.failed_call(self.telemetry, problem, calls=calls, **fields)
        else:
            try:
                raise outage.error
            except type(error):
                report.failed_call(self.telemetry, problem, calls=calls, **fields)

    def succeeded(self, problem: Event, *, lane: str | None = None) -> None:
        """Note a call that succeeded: the next failure begins another outage."""
        self._log.ended(f"{problem} {lane}")
