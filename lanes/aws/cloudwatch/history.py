"""The last hours of the lanes from CloudWatch, by minute."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from lanes.aws.cloudwatch.figures import IN_FLIGHT, NAMESPACE, VISIBLE, figure_query
from lanes.aws.cloudwatch.metric_data import metric_data
from lanes.metrics import Metric
from lanes.operate.history.minutes import LaneMinute

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lanes.config.deployment import Deployment

# AWS: SQS sends a queue's figures every minute (SQS developer guide, available CloudWatch metrics).
QUEUE_FIGURES = {"waiting": VISIBLE, "in_flight": IN_FLIGHT}
OWN_FIGURES = {
    "handled": Metric.HANDLED,
    "failed": Metric.FAILED,
    "yields": Metric.YIELDED,
    "inversion": Metric.INVERSION,
    "dead_lettered": Metric.DEAD_LETTERED,
}


class CloudWatchHistory:
    """
    Reads the history of one deployment; raises `AwsError`.

    If CloudWatch has data of the queue for a minute and none of the consumer, the counts are zero.

    Args:
        deployment: the lanes.
        client: of CloudWatch.
        service: dimension `service` of the consumer's metrics.
        now: the time, in UTC.
    """

    def __init__(
        self,
        *,
        deployment: Deployment,
        client: Any,
        service: str,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._lanes = [lane.name for lane in deployment.config.lanes]
        self._queues = deployment.queues
        self._client = client
        self._service = service
        self._now = now

    def read(self, *, minutes: int) -> dict[str, list[LaneMinute]]:
        """Return the minutes with a figure, by lane, the oldest first."""
        end = self._now().replace(second=0, microsecond=0)
        queries = [query for place in range(len(self._lanes)) for query in self._queries(place)]
        found: dict[str, dict[float, float]] = {}
        start = end - timedelta(minutes=minutes)
        for result in metric_data(self._client, queries, start=start, end=end):
            times = (moment.timestamp() for moment in result["Timestamps"])
            found.setdefault(result["Id"], {}).update(zip(times, result["Values"], strict=True))
        return {lane: _minutes(found, place) for place, lane in enumerate(self._lanes)}

    def _queries(self, place: int) -> Iterator[dict[str, Any]]:
        lane = self._lanes[place]
        queue = {"QueueName": self._queues[lane].url.rpartition("/")[2]}
        for name, metric in QUEUE_FIGURES.items():
            yield figure_query(f"{name}{place}", "AWS/SQS", metric, queue, "Average")
        own = {"lane": lane, "service": self._service}
        for name, metric in OWN_FIGURES.items():
            yield figure_query(f"{name}{place}", NAMESPACE, metric, own, "Sum")


def _minutes(found: Mapping[str, Mapping[float, float]], place: int) -> list[LaneMinute]:
    columns = {name: found.get(f"{name}{place}", {}) for name in (*QUEUE_FIGURES, *OWN_FIGURES)}
    moments: Sequence[float] = sorted({at for column in columns.values() for at in column})
    return [
        LaneMinute(
            at=at,
            waiting=columns["waiting"].get(at),
            in_flight=columns["in_flight"].get(at),
            **{name: columns[name].get(at, 0.0) for name in OWN_FIGURES},
        )
        for at in moments
    ]
