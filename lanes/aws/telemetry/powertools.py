"""Telemetry in Powertools' form: JSON lines for the log, and metrics in CloudWatch's embedded metric format."""

from __future__ import annotations

import sys
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from lanes.aws.telemetry.log_line import LogLines

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO

    from lanes.metrics import Metric

NAMESPACE = "PriorityLanes"
# AWS: one embedded metric object holds at most 100 values of a metric (CloudWatch embedded metric format). Powertools
# (in the relay's telemetry) prints and clears its object on reaching them, and refuses the empty one that is left.
MOST_VALUES = 99


class PowertoolsTelemetry:
    """
    Reports events as structured log lines, and figures as one metric object an invocation, or more if it is long.

    Both go to standard output, where Lambda picks them up: no call is made. The dimension is `lane`.

    Args:
        environ: the function's variables: service name and log level are those of Powertools.
        stream: takes the lines in place of standard output.
    """

    def __init__(self, *, environ: Mapping[str, str], stream: BinaryIO | None = None) -> None:
        self._lines = LogLines(environ, stream=stream)
        self._namespace = environ.get("POWERTOOLS_METRICS_NAMESPACE") or NAMESPACE
        self._counts: dict[str, float] = defaultdict(float)
        self._durations: dict[str, list[float]] = defaultdict(list)
        self._lane = ""

    def begin(self, lane: str, context: Any) -> None:
        """Start an invocation: its request id is on every line."""
        self._lane = lane
        self._counts.clear()
        self._durations.clear()
        self._lines.begin(getattr(context, "aws_request_id", None))

    def event(self, name: str, fields: Mapping[str, Any]) -> None:
        """Log something that happened."""
        self._lines.event(name, fields)

    def problem(self, name: str, /, **fields: Any) -> None:
        """Log something that went wrong, with the traceback of the exception being handled unless it only repeats."""
        self._lines.problem_of(None if "failures" in fields else sys.exception(), name, fields)

    def count(self, metric: Metric | str, value: float = 1) -> None:
        """Add to a count."""
        self._counts[metric] += value

    def milliseconds(self, metric: Metric, value: float) -> None:
        """Add a duration; a full metric object is written first."""
        if len(self._durations[metric]) == MOST_VALUES:
            self.end()
        self._durations[metric].append(value)

    def end(self) -> None:
        """Write the figures since the last ones."""
        if not self._counts and not self._durations:
            return
        self._lines.figures(self._namespace, self._lane, self._counts, self._durations)
        self._counts.clear()
        self._durations.clear()
