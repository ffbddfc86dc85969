"""Read the use for a bill: from CloudWatch, and from the stack's list of resources."""

from __future__ import annotations

import dataclasses
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from lanes.aws.cloudwatch.figures import LATE, NAMESPACE
from lanes.aws.cloudwatch.metric_data import metric_data
from lanes.aws.errors import aws_errors
from lanes.aws.table.ledger import INDEX
from lanes.consumer.ledger import Cause
from lanes.errors import AwsError
from lanes.metrics import Metric
from lanes.operate.cost.usage import BellUse, LaneUse, SharedUse, Use

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lanes.config.deployment import Deployment
    from lanes.operate.lanes.deployed import FunctionState

ARM = "arm64"
SUM, COUNT = "Sum", "SampleCount"
RECEIVES = tuple(f"{Metric.RECEIVES}{cause.title().replace('_', '')}" for cause in Cause)
OWN = (*(metric.value for metric in Metric if metric is not Metric.RECEIVES), *RECEIVES)
QUEUE = (
    "NumberOfMessagesSent",
    "SentMessageSize",
    "NumberOfMessagesReceived",
    "NumberOfEmptyReceives",
)


BELL = ("NumberOfMessagesSent", "NumberOfMessagesReceived", "NumberOfEmptyReceives")


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """One metric with its dimensions and statistic."""

    namespace: str
    metric: str
    dimensions: tuple[tuple[str, str], ...]
    statistic: str = SUM


class CloudWatchUse:
    """
    Reads the use of one deployment; every method raises `AwsError`.

    Args:
        deployment: the lanes.
        function: the function behind them.
        service: dimension `service` of the consumer's metrics.
        stack_name: name of the stack.
        cloudwatch: client of CloudWatch.
        cloudformation: client of CloudFormation.
        endpoint_zones: counts the interface endpoints of the bulk jobs, times their zones; may raise `AwsError`.
        now: the time, in UTC.
    """

    def __init__(
        self,
        *,
        deployment: Deployment,
        function: FunctionState,
        service: str,
        stack_name: str,
        cloudwatch: Any,
        cloudformation: Any,
        endpoint_zones: Callable[[], int],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._deployment = deployment
        self._function = function
        self._service = service
        self._stack_name = stack_name
        self._cloudwatch = cloudwatch
        self._cloudformation = cloudformation
        self._endpoint_zones = endpoint_zones
        self._now = now

    def read(self, window: timedelta) -> Use:
        """Return the use of the last hours; a figure without data is unknown."""
        lanes = self._deployment.config.lanes
        figures = [figure for lane in lanes for figure in self._of_lane(lane.name)]
        shared = [*self._of_function(), *self._of_table(), self._of_log(), *self._of_bell()]
        found = self._sums([*figures, *shared], window)
        notes: list[str] = []
        return Use(
            lanes=[self._lane(lane.name, found) for lane in lanes],
            shared=self._shared(found, self._resources(notes), self._endpoints(notes)),
            notes=notes,
        )

    def _of_lane(self, lane: str) -> Iterator[Figure]:
        for metric in QUEUE:
            yield self._queue(lane, metric)
        for metric in OWN:
            yield self._own(lane, metric)
        for metric in (Metric.BATCH, Metric.HANDLED, Metric.YIELDED):
            yield self._own(lane, metric, COUNT)

    def _queue(self, lane: str, metric: str) -> Figure:
        return _of_queue(self._deployment.queues[lane].url, metric)

    def _of_bell(self) -> list[Figure]:
        bell = self._deployment.bell
        return [] if bell is None else [_of_queue(bell, metric) for metric in BELL]

    def _own(self, lane: str, metric: str, statistic: str = SUM) -> Figure:
        return Figure(NAMESPACE, str(metric), (("lane", lane), ("service", self._service)), statistic)

    def _of_function(self) -> list[Figure]:
        dimensions = (("FunctionName", self._function.name),)
        return [Figure("AWS/Lambda", metric, dimensions) for metric in ("Invocations", "Duration")]

    def _of_table(self) -> list[Figure]:
        # AWS: the use of an index is counted under its own dimension (DynamoDB developer guide, metrics).
        table = ("TableName", self._deployment.table)
        return [
            Figure("AWS/DynamoDB", f"Consumed{way}CapacityUnits", dimensions)
            for way in ("Write", "Read")
            for dimensions in ((table,), (table, ("GlobalSecondaryIndexName", INDEX)))
        ]

    def _of_log(self) -> Figure:
        return Figure("AWS/Logs", "IncomingBytes", (("LogGroupName", self._function.log_group),))

    def _sums(self, figures: Sequence[Figure], window: timedelta) -> dict[Figure, float]:
        """Return the sum over the window of each figure that has data."""
        end = self._now().replace(second=0, microsecond=0) - LATE
        found: dict[Figure, float] = {}
        queries = [_query(place, one, _period(window)) for place, one in enumerate(figures)]
        for result in metric_data(self._cloudwatch, queries, start=end - window, end=end):
            figure = figures[int(result["Id"][1:])]
            if result["Values"]:
                found[figure] = found.get(figure, 0.0) + sum(result["Values"])
        return found

    def _lane(self, lane: str, found: Mapping[Figure, float]) -> LaneUse:
        config = self._deployment.config

        def own(metric: str, statistic: str = SUM) -> float:
            return found.get(self._own(lane, metric, statistic), 0.0)

        return LaneUse(
            lane=lane,
            lanes_above=len(config.lanes_above(config.lane(lane))),
            batch_size=config.lane(lane).batch_size,
            sent=found.get(self._queue(lane, "NumberOfMessagesSent")),
            sent_bytes=found.get(self._queue(lane, "SentMessageSize")),
            received=found.get(self._queue(lane, "NumberOfMessagesReceived")),
            empty_receives=found.get(self._queue(lane, "NumberOfEmptyReceives")),
            records=sum(own(metric) for metric in RECEIVES),
            handled=own(Metric.HANDLED) + own(Metric.DUPLICATES),
            yielded=own(Metric.YIELDED),
            returned=own(Metric.RETURNED),
            failed=own(Metric.FAILED),
            dead_lettered=own(Metric.DEAD_LETTERED),
            woken=own(Metric.WOKEN),
            batches=own(Metric.BATCH, COUNT),
            # One value for each report with something to count. The mapped engine reports once a batch.
            done_batches=own(Metric.HANDLED, COUNT) if self._deployment.bell is None else 0.0,
            yielded_batches=own(Metric.YIELDED, COUNT),
            batch_seconds=own(Metric.BATCH) / 1000,
            handler_seconds=own(Metric.DURATION) / 1000,
            metrics=sum(self._own(lane, metric) in found for metric in OWN),
        )

    def _shared(
        self, found: Mapping[Figure, float], resources: Counter[str] | None, endpoint_zones: int | None
    ) -> SharedUse:
        invocations, milliseconds = (found.get(figure) for figure in self._of_function())
        writes, index_writes, reads, index_reads = (found.get(figure) for figure in self._of_table())
        return SharedUse(
            invocations=invocations,
            seconds=None if milliseconds is None else milliseconds / 1000,
            memory_mb=self._function.memory_mb,
            is_arm=self._function.architecture == ARM,
            recheck_seconds=self._deployment.config.consumer.recheck_interval.total_seconds(),
            write_units=_together(writes, index_writes),
            read_units=_together(reads, index_reads),
            log_bytes=found.get(self._of_log()),
            alarms=None if resources is None else resources["AWS::CloudWatch::Alarm"],
            dashboards=None if resources is None else resources["AWS::CloudWatch::Dashboard"],
            endpoint_zones=endpoint_zones,
            bell=self._bell(found),
        )

    def _bell(self, found: Mapping[Figure, float]) -> BellUse | None:
        figures = self._of_bell()
        if not figures:
            return None
        sent, received, empty = (found.get(figure) for figure in figures)
        slots = self._deployment.config.consumer.reserved_concurrency
        return BellUse(slots=slots, sent=sent, received=received, empty_receives=empty)

    def _resources(self, notes: list[str]) -> Counter[str] | None:
        try:
            with aws_errors("ListStackResources"):
                pages = self._cloudformation.get_paginator("list_stack_resources").paginate(
                    StackName=self._stack_name
                )
                return Counter(
                    one["ResourceType"] for page in pages for one in page["StackResourceSummaries"]
                )
        except AwsError as error:
            notes.append(f"alarms and dashboards unknown: {error}")
            return None

    def _endpoints(self, notes: list[str]) -> int | None:
        try:
            return self._endpoint_zones()
        except AwsError as error:
            notes.append(f"endpoints of bulk jobs unknown: {error}")
            return None


def _of_queue(url: str, metric: str) -> Figure:
    return Figure("AWS/SQS", metric, (("QueueName", url.rpartition("/")[2]),))


def _together(one: float | None, other: float | None) -> float | None:
    """Add known figures."""
    return None if one is None and other is None else (one or 0.0) + (other or 0.0)


# AWS: an answer of GetMetricData has at most 100,800 data points (API reference), and a day has 1,440 minutes for
# each figure.
def _period(window: timedelta) -> int:
    """Return the seconds of a data point: as coarse as CloudWatch keeps them for that long."""
    return 60 if window <= timedelta(hours=6) else 3600


def _query(place: int, figure: Figure, period: int) -> dict[str, Any]:
    return {
        "Id": f"q{place}",
        "MetricStat": {
            "Metric": {
                "Namespace": figure.namespace,
                "MetricName": figure.metric,
                "Dimensions": [{"Name": name, "Value": value} for name, value in figure.dimensions],
            },
            "Period": period,
            "Stat": figure.statistic,
        },
    }
