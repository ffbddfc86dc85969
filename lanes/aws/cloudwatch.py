"""The lanes' figures in CloudWatch, and the function's log in CloudWatch Logs."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors
from lanes.metrics import Metric
from lanes.operate.figures import AVERAGED, Depth, LaneFigures, LaneMinute
from lanes.operate.log import LogLine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lanes.config.deployment import Deployment

PERIOD = timedelta(minutes=1)
LATE = timedelta(minutes=1)
"""Metrics of the minute that runs are not complete."""
AGE, SENT, DELETED = "ApproximateAgeOfOldestMessage", "NumberOfMessagesSent", "NumberOfMessagesDeleted"
VISIBLE, IN_FLIGHT = "ApproximateNumberOfMessagesVisible", "ApproximateNumberOfMessagesNotVisible"
NAMESPACE = "PriorityLanes"
_OF_QUEUE = ("age", "sent", "deleted", "visible", "taken")
_OWN = ("handled", "dead", "yielded", "inversion")
# AWS: SQS sends a queue's figures every minute (SQS developer guide, available CloudWatch metrics).
QUEUE_FIGURES = {"waiting": VISIBLE, "in_flight": IN_FLIGHT}
OWN_FIGURES = {
    "handled": Metric.HANDLED,
    "failed": Metric.FAILED,
    "yields": Metric.YIELDED,
    "inversion": Metric.INVERSION,
    "dead_lettered": Metric.DEAD_LETTERED,
}
# AWS: one GetMetricData call takes up to 500 queries (CloudWatch API reference).
MOST_QUERIES = 500


class CloudWatchFigures:
    """
    Reads figures and history of one deployment; raises `AwsError`.

    The consumer's metrics exist only for minutes with something to count. Without them a figure is zero if CloudWatch
    has data of the queue, and no message left it; otherwise it is not known yet. Those of a minute are zero if
    CloudWatch has data of the queue.

    Args:
        deployment: the lanes.
        client: of CloudWatch.
        service: returns the dimension `service` of the consumer's metrics; called at the first reading.
        now: the time, in UTC.
    """

    def __init__(
        self,
        *,
        deployment: Deployment,
        client: Any,
        service: Callable[[], str],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._lanes = [lane.name for lane in deployment.config.lanes]
        self._queues = deployment.queues
        self._client = client
        self._find_service = service
        self._now = now

    @cached_property
    def _service(self) -> str:
        return self._find_service()

    def read(self) -> dict[str, LaneFigures]:
        """Return the known figures by lane."""
        end = self._now().replace(second=0, microsecond=0) - LATE
        queries = [query for place in range(len(self._lanes)) for query in self._queries(place)]
        found = self._found(queries, start=end - AVERAGED, end=end)
        # One span for all lanes: a new stack has no five minutes yet.
        since = min((at for by_minute in found.values() for at in by_minute), default=0.0)
        span = (since, end.timestamp())
        return {lane: _figures(found, place, span) for place, lane in enumerate(self._lanes)}

    def minutes(self, count: int) -> dict[str, list[LaneMinute]]:
        """Return the last minutes that have a figure, by lane, the oldest first."""
        end = self._now().replace(second=0, microsecond=0)
        queries = [query for place in range(len(self._lanes)) for query in self._minute_queries(place)]
        found = self._found(queries, start=end - timedelta(minutes=count), end=end)
        return {lane: _minutes(found, place) for place, lane in enumerate(self._lanes)}

    def _found(
        self, queries: Sequence[dict[str, Any]], *, start: datetime, end: datetime
    ) -> dict[str, dict[float, float]]:
        found: dict[str, dict[float, float]] = {}
        for result in _metric_data(self._client, queries, start=start, end=end):
            times = (moment.timestamp() for moment in result["Timestamps"])
            found.setdefault(result["Id"], {}).update(zip(times, result["Values"], strict=True))
        return found

    def _dimensions(self, place: int) -> tuple[dict[str, str], dict[str, str]]:
        """Return those of a lane's queue, and those of the consumer's metrics."""
        lane = self._lanes[place]
        queue = {"QueueName": self._queues[lane].url.rpartition("/")[2]}
        return queue, {"lane": lane, "service": self._service}

    def _queries(self, place: int) -> Iterator[dict[str, Any]]:
        queue, own = self._dimensions(place)
        yield _query(f"age{place}", "AWS/SQS", AGE, queue, "Maximum")
        yield _query(f"sent{place}", "AWS/SQS", SENT, queue, "Sum")
        yield _query(f"deleted{place}", "AWS/SQS", DELETED, queue, "Sum")
        yield _query(f"visible{place}", "AWS/SQS", VISIBLE, queue, "Average")
        yield _query(f"taken{place}", "AWS/SQS", IN_FLIGHT, queue, "Average")
        yield _query(f"handled{place}", NAMESPACE, Metric.HANDLED, own, "Sum")
        yield _query(f"dead{place}", NAMESPACE, Metric.DEAD_LETTERED, own, "Sum")
        yield _query(f"yielded{place}", NAMESPACE, Metric.YIELDED, own, "Sum")
        yield _query(f"inversion{place}", NAMESPACE, Metric.INVERSION, own, "Sum")

    def _minute_queries(self, place: int) -> Iterator[dict[str, Any]]:
        queue, own = self._dimensions(place)
        for name, metric in QUEUE_FIGURES.items():
            yield _query(f"{name}{place}", "AWS/SQS", metric, queue, "Average")
        for name, metric in OWN_FIGURES.items():
            yield _query(f"{name}{place}", NAMESPACE, metric, own, "Sum")


def _query(
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


def _metric_data(
    client: Any, queries: Sequence[dict[str, Any]], *, start: datetime, end: datetime
) -> Iterator[dict[str, Any]]:
    """
    Give the results of all queries; one query may have several, the latest times first.

    Args:
        client: of CloudWatch.
        queries: of GetMetricData, with ids of their own.
        start: from then on.
        end: before then.

    Raises:
        AwsError: a call failed.
    """
    paginator = client.get_paginator("get_metric_data")
    for first in range(0, len(queries), MOST_QUERIES):
        with aws_errors("GetMetricData"):
            pages = paginator.paginate(
                MetricDataQueries=queries[first : first + MOST_QUERIES],
                StartTime=start,
                EndTime=end,
                ScanBy="TimestampDescending",
            )
            for page in pages:
                yield from page["MetricDataResults"]


# AWS: a term in quotation marks is searched for literally, including its case (filter pattern syntax). Characters that
# need an escape, there or in JSON, are left out of it: the caller filters the lines again.
_PLAIN = re.compile(r'[^"\\\x00-\x1f\x7f-\U0010ffff]+')


class LogCalls:
    """
    Reads one log group; every method raises `AwsError`.

    Args:
        client: of CloudWatch Logs.
        group: name of the log group.
    """

    def __init__(self, *, client: Any, group: str) -> None:
        self._client = client
        self.group = group

    def lines(
        self, *, since: float, until: float | None = None, containing: Sequence[str] = ()
    ) -> Iterator[LogLine]:
        """Return the lines of a period by streams; if texts are given, at least those that contain one of them."""
        request: dict[str, Any] = {"logGroupName": self.group, "startTime": max(0, int(since * 1000))}
        if until is not None:
            request["endTime"] = int(until * 1000) + 1
        if pattern := _pattern(containing):
            request["filterPattern"] = pattern
        with aws_errors("FilterLogEvents"):
            # AWS: pages may be empty and yet not the last (FilterLogEvents); the paginator goes on.
            for page in self._client.get_paginator("filter_log_events").paginate(**request):
                for event in page["events"]:
                    yield LogLine(
                        id=_id_of(event),
                        at=event["timestamp"] / 1000,
                        text=event["message"],
                        stream=event.get("logStreamName", ""),
                    )


def _id_of(event: Mapping[str, Any]) -> str:
    # Emulations of CloudWatch leave eventId out, which AWS does not require in an answer (FilteredLogEvent).
    return event.get("eventId") or f"{event.get('logStreamName')} {event['timestamp']} {event['message']}"


def _pattern(texts: Sequence[str]) -> str:
    """Return the filter pattern of the lines that contain one of the texts; none if a text has no plain part."""
    terms = [max(_PLAIN.findall(text), key=len, default="") for text in texts]
    if not all(terms):
        return ""
    # AWS: a question mark before each term makes one of them enough (filter pattern syntax).
    return f'"{terms[0]}"' if len(terms) == 1 else " ".join(f'?"{term}"' for term in terms)
