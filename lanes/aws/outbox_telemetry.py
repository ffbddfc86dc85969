"""The relay's telemetry through Powertools: events as JSON lines, metrics in the embedded metric format."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, cast

from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import AmazonCloudWatchEMFProvider

from lanes.aws.telemetry import MOST_VALUES, NAMESPACE, LogLines
from lanes.events import Event
from lanes.outbox.entry import EntryState
from lanes.outbox.publication import STORE
from lanes.outbox.telemetry import RelayMetric, RelayTelemetry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import BinaryIO

    from lanes.fault_codes import Cause
    from lanes.outbox.entry import Entry
    from lanes.outbox.rules import Mark
    from lanes.outbox.store import OutboxStatus
    from lanes.outbox.telemetry import RelayRound
    from lanes.retries import Outage


class PowertoolsRelayTelemetry(RelayTelemetry):
    """
    Reports events as log lines and figures as one metric object for each `flush`.

    The dimension is the service. Nothing is called: both go to standard output.

    Args:
        environ: the function's variables.
        stream: takes the lines in place of standard output.
    """

    def __init__(self, *, environ: Mapping[str, str], stream: BinaryIO | None = None) -> None:
        self._lines = LogLines(environ, stream=stream)
        self._namespace = environ.get("POWERTOOLS_METRICS_NAMESPACE") or NAMESPACE
        self._values: dict[RelayMetric, list[float]] = {}
        self._lanes: Counter[tuple[str, Cause]] = Counter()
        self._waiting: Mapping[str, int] = {}

    def count(self, metric: RelayMetric, value: float = 1) -> None:
        """Add to a count."""
        self._values[metric] = [sum(self._values.get(metric, [])) + value]

    def not_sent(self, entry: Entry, mark: Mark, *, reason: str) -> None:
        """Log an entry that was not sent."""
        is_abandoned = mark.state is EntryState.ABANDONED
        fields = {
            "id": entry.id,
            "kind": entry.kind,
            "group": entry.group,
            "priority": entry.priority,
            "attempts": mark.attempts,
            "next_attempt_at": mark.due_at,
            "reason": reason,
        }
        self._lines.problem(Event.ENTRY_ABANDONED if is_abandoned else Event.ENTRY_NOT_SENT, fields)

    def lane_failed(self, lane: str, cause: Cause) -> None:
        """Count a round in which a lane accepted nothing."""
        self._lanes[lane, cause] += 1

    def outage(self, outage: Outage, *, now: float) -> None:  # noqa: ARG002 - the log line has its own time
        """Log an outage, at first with the traceback."""
        is_lane = outage.of != STORE
        event = Event.OUTBOX_LANE_WAITS if is_lane else Event.OUTBOX_OUT_OF_REACH
        self._lines.problem_of(outage.error, event, {"reason": outage.reason, **_fields(outage)})

    def recovered(self, outage: Outage, *, now: float) -> None:  # noqa: ARG002 - the log line has its own time
        """Log the end of an outage."""
        self._lines.event(Event.OUTBOX_OUTAGE_ENDED, _fields(outage))

    def slow_round(self, seconds: float) -> None:
        """Log a round that took more than half of its lock."""
        self._lines.problem(Event.OUTBOX_ROUND_SLOW, {"seconds": round(seconds, 1)})

    def round(self, outcome: RelayRound, marks: Sequence[Mark], *, now: float, seconds: float) -> None:
        """Count what a round did."""
        times = self._values.setdefault(RelayMetric.ROUND_TIME, [])
        times.append(1000 * seconds)
        del times[MOST_VALUES:]
        self.count(RelayMetric.PUBLISHED, outcome.published)
        for metric, value in (
            (RelayMetric.FAILED, outcome.failed),
            (RelayMetric.ABANDONED, outcome.abandoned),
            (RelayMetric.LOCK_LOST, outcome.lock_lost),
        ):
            if value:
                self.count(metric, value)
        latencies = self._values.setdefault(RelayMetric.LATENCY, [])
        published = (mark for mark in marks if mark.state is EntryState.PUBLISHED)
        latencies += [1000 * (now - mark.entry.sendable_from) for mark in published]
        # A flush writes one object, so the first 99 latencies are a sample of all; counts are complete.
        del latencies[MOST_VALUES:]

    def status(self, status: OutboxStatus, *, now: float) -> None:
        """Take how the outbox stands."""
        counts = status.counts
        waiting = counts.get(EntryState.PENDING, 0) + counts.get(EntryState.PROCESSING, 0)
        self._values[RelayMetric.WAITING] = [waiting]
        self._values[RelayMetric.WAITING_FAILED] = [counts.get(EntryState.FAILED, 0)]
        self._values[RelayMetric.KEPT_ABANDONED] = [counts.get(EntryState.ABANDONED, 0)]
        self._waiting = dict(status.lanes)
        age = 0.0 if status.oldest_at is None else max(0.0, now - status.oldest_at)
        self._values[RelayMetric.OLDEST_AGE] = [age]

    def flush(self) -> None:
        """Write the figures."""
        self._flush_lanes()
        values = {metric: numbers for metric, numbers in self._values.items() if numbers}
        self._values = {}
        if not values:
            return
        provider = AmazonCloudWatchEMFProvider(namespace=self._namespace, service=self._lines.service)
        provider.clear_metrics()
        for metric, numbers in values.items():
            for number in numbers:
                provider.add_metric(name=metric.value, unit=_unit(metric), value=number)
        self._write(provider.serialize_metric_set())

    def _write(self, metrics: Any) -> None:
        self._lines.write(json.dumps(metrics, separators=(",", ":")) + "\n")

    def _flush_lanes(self) -> None:
        """Write an object for each lane and cause, which counts for the lane too: an alarm has no patterns."""
        for (lane, cause), count in self._lanes.items():
            provider = AmazonCloudWatchEMFProvider(namespace=self._namespace, service=self._lines.service)
            provider.clear_metrics()
            provider.add_dimension("lane", lane)
            provider.add_dimension("cause", cause.value)
            provider.add_metric(name=RelayMetric.LANE_FAILURES.value, unit=MetricUnit.Count, value=count)
            # AWS: a metric is published once for each set of dimensions (CloudWatch, "Embedded metric format").
            found = cast("dict[str, Any]", provider.serialize_metric_set())
            found["_aws"]["CloudWatchMetrics"][0]["Dimensions"] = [
                ["service", "lane"],
                ["service", "lane", "cause"],
            ]
            self._write(found)
        self._lanes.clear()
        for lane, number in self._waiting.items():
            provider = AmazonCloudWatchEMFProvider(namespace=self._namespace, service=self._lines.service)
            provider.clear_metrics()
            provider.add_dimension("lane", lane)
            name = RelayMetric.WAITING_IN_LANE.value
            provider.add_metric(name=name, unit=MetricUnit.Count, value=number)
            self._write(provider.serialize_metric_set())
        self._waiting = {}


def _fields(outage: Outage) -> dict[str, Any]:
    lane = {} if outage.of == STORE else {"lane": outage.of}
    return {**lane, "cause": outage.cause, "since": outage.since, "failures": outage.failures}


def _unit(metric: RelayMetric) -> MetricUnit:
    if metric in {RelayMetric.LATENCY, RelayMetric.ROUND_TIME}:
        return MetricUnit.Milliseconds
    return MetricUnit.Seconds if metric is RelayMetric.OLDEST_AGE else MetricUnit.Count
