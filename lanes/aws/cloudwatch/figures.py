"""Figures of the lanes from CloudWatch: the metrics of SQS for each queue, and those of the consumer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from lanes.aws.cloudwatch.metric_data import metric_data
from lanes.metrics import Metric
from lanes.operate.lanes.figures import AVERAGED, Depth, LaneFigures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lanes.config.deployment import Deployment

PERIOD = timedelta(minutes=1)
LATE = timedelta(minutes=1)
"""Metrics of the minute that runs are not complete."""
AGE, SENT, DELETED = "ApproximateAgeOfOldestMessage", "NumberOfMessagesSent", "NumberOfMessagesDeleted"
VISIBLE, IN_FLIGHT = "ApproximateNumberOfMessagesVisible", "ApproximateNumberOfMessagesNotVisible"
NAMESPACE = "PriorityLanes"
_OF_QUEUE = ("age", "sent", "deleted", "visible", "taken")
_OWN = ("handled", "dead", "yielded", "inversion")


class CloudWatchFigures:
    """
    Reads the figures of one deployment; raises `AwsError`.

    The consumer's metrics exist only for minutes with something to count. Without them a figure is zero if CloudWatch
    has data of the queue, and no message left it; otherwise it is not known yet.

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
        found: dict[str, dict[float, float]] = {}
        for result in metric_data(self._client, queries, start=end - AVERAGED, end=end):
            times = (moment.timestamp() for moment in result["Timestamps"])
            found.setdefault(result["Id"], {}).update(zip(times, result["Values"], strict=True))
        # One span for all lanes: a new stack has no five minutes yet.
        since = min((at for by_minute in found.values() for at in by_minute), default=0.0)
        span = (since, end.timestamp())
        return {lane: _figures(found, place, span) for place, lane in enumerate(self._lanes)}

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
        yield figure_query(f"visible{place}", "AWS/SQS", VISIBLE, queue, "Average")
        yield figure_query(f"taken{place}", "AWS/SQS", IN_FLIGHT, queue, "Average")
        yield figure_query(f"handled{place}", NAMESPACE, Metric.HANDLED, own, "Sum")
        yield figure_query(f"dead{place}", NAMESPACE, Metric.DEAD_LETTERED, own, "Sum")
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


def _figures(
    found: Mapping[str, Mapping[float, float]], place: int, span: tuple[float, float]
) -> LaneFigures:
    of_queue, own = ({name: found.get(f"{name}{place}", {}) for name in names} for names in (_OF_QUEUE, _OWN))
    if not any((*of_queue.values(), *own.values())):
        return LaneFigures()
    since, until = span
    minutes = (until - since) / PERIOD.total_seconds()
    rates = {
        name: sum(by_minute.values()) / minutes for name, by_minute in (of_queue | own).items() if by_minute
    }
    # The log brings the consumer's metrics, and is later than SQS's own: messages that left say that some are missing.
    absent = None if rates.get("deleted") and not any(own.values()) else 0.0
    unseen = 0.0 if any(of_queue.values()) else None
    age, visible, taken = of_queue["age"], of_queue["visible"], of_queue["taken"]
    return LaneFigures(
        since=since,
        until=until,
        oldest_age=timedelta(seconds=age[max(age)]) if age else None,
        pace=rates.get("handled", absent),
        dead=rates.get("dead", absent),
        leaving=rates.get("deleted", unseen),
        arrivals=rates.get("sent", unseen),
        yields=rates.get("yielded", absent),
        inversion=rates.get("inversion", absent),
        # AWS samples a queue once a minute, and does not say when in the minute.
        depths=[
            Depth(at=at + PERIOD.total_seconds() / 2, messages=visible[at] + taken.get(at, 0.0))
            for at in sorted(visible)
        ],
    )
