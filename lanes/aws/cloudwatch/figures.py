"""Figures of the lanes from CloudWatch: the metrics of SQS for each queue, and those of the consumer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from lanes.aws.cloudwatch.metric_data import metric_data
from lanes.metrics import Metric
from lanes.operate.lanes.figures import LaneFigures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lanes.config.deployment import Deployment

PERIOD = timedelta(minutes=1)
# One minute is no rate: a lane with a message every two minutes would change between idle and busy.
AVERAGED = timedelta(minutes=5)
LATE = timedelta(minutes=1)
"""Metrics of the minute that runs are not complete."""
AGE, SENT, DELETED = "ApproximateAgeOfOldestMessage", "NumberOfMessagesSent", "NumberOfMessagesDeleted"
NAMESPACE = "PriorityLanes"


class CloudWatchFigures:
    """
    Reads the figures of one deployment; raises `AwsError`.

    The consumer's metrics exist only for minutes with something to count. Without them a figure is zero if CloudWatch
    has data of the queue, else unknown.

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
        self._deployment = deployment
        self._client = client
        self._service = service
        self._now = now

    def read(self) -> dict[str, LaneFigures]:
        """Return the known figures by lane."""
        end = self._now().replace(second=0, microsecond=0) - LATE
        queries = [query for place in range(len(self._lanes)) for query in self._queries(place)]
        found: dict[str, list[float]] = {}
        for result in metric_data(self._client, queries, start=end - AVERAGED, end=end):
            found.setdefault(result["Id"], []).extend(result["Values"])
        return {lane: _figures(found, place) for place, lane in enumerate(self._lanes)}

    @property
    def _lanes(self) -> list[str]:
        return [lane.name for lane in self._deployment.config.lanes]

    def _queries(self, place: int) -> Iterator[dict[str, Any]]:
        lane = self._lanes[place]
        queue = {"QueueName": self._deployment.queues[lane].url.rpartition("/")[2]}
        own = {"lane": lane, "service": self._service}
        yield figure_query(f"age{place}", "AWS/SQS", AGE, queue, "Maximum")
        yield figure_query(f"sent{place}", "AWS/SQS", SENT, queue, "Sum")
        yield figure_query(f"deleted{place}", "AWS/SQS", DELETED, queue, "Sum")
        yield figure_query(f"handled{place}", NAMESPACE, Metric.HANDLED, own, "Sum")
        yield figure_query(f"yielded{place}", NAMESPACE, Metric.YIELDED, own, "Sum")
        yield figure_query(f"inversion{place}", NAMESPACE, Metric.INVERSION, own, "Sum")


def figure_query(
    name: str, namespace: str, metric: str, dimensions: dict[str, str], statistic: str
) -> dict[str, Any]:
    """Return the query of GetMetricData for one figure, by minute."""
    return {
        "Id": name,
        "MetricStat": {
            "Metric": {
                "Namespace": namespace,
                "MetricName": str(metric),
                "Dimensions": [{"Name": key, "Value": value} for key, value in dimensions.items()],
            },
            "Period": int(PERIOD.total_seconds()),
            "Stat": statistic,
        },
    }


def _figures(found: dict[str, list[float]], place: int) -> LaneFigures:
    ages, sent, deleted, handled, yielded, inversion = (
        found.get(f"{name}{place}", [])
        for name in ("age", "sent", "deleted", "handled", "yielded", "inversion")
    )
    known = bool(ages or sent or deleted or handled or yielded or inversion)
    minutes = AVERAGED / PERIOD
    # Results come the latest first (`metric_data`).
    return LaneFigures(
        oldest_age=timedelta(seconds=ages[0]) if ages else None,
        pace=sum(handled) / minutes if known else None,
        leaving=sum(deleted) / minutes if known else None,
        arrivals=sum(sent) / minutes if known else None,
        yields=sum(yielded) / minutes if known else None,
        inversion=sum(inversion) / minutes if known else None,
    )
