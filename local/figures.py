"""
Metrics of queues and of functions' log lines in CloudWatch, published within the AWS server.

moto counts nothing by itself, so `lanes status` and the page would know no figures. Figures are sums of a
minute, as CloudWatch keeps them.
"""

import copy
import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from moto.cloudwatch.models import CloudWatchBackend, MetricAggregatedDatum, cloudwatch_backends
from moto.logs.models import LogStream
from moto.sqs.models import sqs_backends

from .corrections.sqs_queue import LocalQueue

_logger = logging.getLogger(__name__)
MINUTE = 60
_KEPT_MINUTES = 180
_QUEUES = "AWS/SQS"

Dimensions = tuple[tuple[str, str], ...]
Key = tuple[str, str, Dimensions, int]
"""Namespace, name, dimensions, and the epoch second at which the minute begins."""


@dataclass(slots=True)
class Figures:
    """
    Adds values to the metrics of one account and region; those of the latest three hours are kept.

    Args:
        backend: gets them.
    """

    backend: CloudWatchBackend
    _known: dict[Key, MetricAggregatedDatum] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(
        self,
        namespace: str,
        name: str,
        dimensions: Mapping[str, str],
        values: Sequence[float],
        *,
        at: float,
        unit: str = "Count",
    ) -> None:
        """Add values to a metric, in the minute of an epoch second."""
        minute = int(at // MINUTE) * MINUTE
        key = (namespace, name, tuple(sorted(dimensions.items())), minute)
        with self._lock:
            known = self._known.get(key) or self._begin(key, values[0], unit)
            known.min, known.max = min(known.min, *values), max(known.max, *values)
            known.sum += sum(values)
            known.sample_count += len(values)

    def _begin(self, key: Key, value: float, unit: str) -> MetricAggregatedDatum:
        namespace, name, dimensions, minute = key
        self._forget_before(minute - _KEPT_MINUTES * MINUTE)
        datum = MetricAggregatedDatum(
            namespace=namespace,
            name=name,
            min_stat=value,
            max_stat=value,
            sample_count=0.0,
            sum_stat=0.0,
            dimensions=[{"Name": label, "Value": text} for label, text in dimensions],
            timestamp=datetime.fromtimestamp(minute, UTC).replace(tzinfo=None),  # as moto keeps times
            unit=unit,
        )
        self._known[key] = datum
        self.backend.metric_data.append(datum)
        return datum

    def _forget_before(self, minute: int) -> None:
        # In the order of their beginning, near enough.
        while self._known and (oldest := next(iter(self._known)))[-1] < minute:
            datum = self._known.pop(oldest)
            self.backend.metric_data = [one for one in self.backend.metric_data if one is not datum]


def tell_lines(figures: Figures, lines: Iterable[str]) -> None:
    """
    Take the metrics out of log lines in the embedded metric format.

    # AWS: CloudWatch Logs makes metrics of the object `_aws` in a line of JSON (CloudWatch user guide,
    # "Specification: Embedded metric format"). A line that is none is a line and nothing more.
    """
    for line in lines:
        if '"_aws"' not in line:
            continue
        try:
            document = json.loads(line)
            at = document["_aws"]["Timestamp"] / 1000
            for directive in document["_aws"]["CloudWatchMetrics"]:
                _tell_directive(figures, directive, document, at=at)
        except (ValueError, KeyError, TypeError):
            continue


def _tell_directive(
    figures: Figures, directive: Mapping[str, Any], document: Mapping[str, Any], *, at: float
) -> None:
    for names in directive["Dimensions"]:
        dimensions = {name: str(document[name]) for name in names}
        for metric in directive["Metrics"]:
            value = document[metric["Name"]]
            values = [float(one) for one in value] if isinstance(value, list) else [float(value)]
            if values:
                figures.add(
                    directive["Namespace"],
                    metric["Name"],
                    dimensions,
                    values,
                    at=at,
                    unit=metric.get("Unit", "None"),
                )


def tell_queues(figures: Figures, queues: Iterable[tuple[str, LocalQueue]], *, at: float) -> None:
    """
    Publish the metrics of FIFO queues since the last time.

    # AWS: a queue's figures come once a minute (SQS developer guide, "Available CloudWatch metrics").
    """
    for name, queue in queues:
        dimensions = {"QueueName": name}
        for metric, value in queue.take_figures().items():
            unit = "Seconds" if "Age" in metric else "Bytes" if "Size" in metric else "Count"
            figures.add(_QUEUES, metric, dimensions, [float(value)], at=at, unit=unit)


def read_narrowly(read: Callable[..., list[dict[str, Any]]]) -> Callable[..., list[dict[str, Any]]]:
    """Have each query look at its own metric alone: moto looks at all of them for each minute of each query."""

    def narrowly(
        self: CloudWatchBackend, queries: list[dict[str, Any]], *arguments: Any, **named: Any
    ) -> list[dict[str, Any]]:
        if any("MetricStat" not in query for query in queries):
            return read(self, queries, *arguments, **named)
        found = []
        for query in queries:
            metric = query["MetricStat"]["Metric"]
            view: Any = copy.copy(self)
            chosen = [
                one
                for one in self.get_all_metrics()
                if (one.namespace, one.name) == (metric["Namespace"], metric["MetricName"])
            ]
            view.get_all_metrics = lambda chosen=chosen: chosen
            found += read(view, [query], *arguments, **named)
        return found

    return narrowly


def start_figures(*, account: str, region: str) -> None:
    """Publish metrics from now on, in this process, until it ends."""
    backend = cloudwatch_backends[account][region]
    figures = Figures(backend)
    CloudWatchBackend.get_metric_data = read_narrowly(CloudWatchBackend.get_metric_data)
    put: Any = LogStream.put_log_events

    def put_and_tell(self: LogStream, log_events: list[dict[str, Any]]) -> Any:
        tell_lines(figures, [event["message"] for event in log_events])
        return put(self, log_events)

    LogStream.put_log_events = put_and_tell
    arguments = {"figures": figures, "account": account, "region": region}
    threading.Thread(target=_tell_every_minute, kwargs=arguments, name="figures", daemon=True).start()


def _tell_every_minute(*, figures: Figures, account: str, region: str) -> None:
    pause = threading.Event()
    while True:
        now = time.time()
        pause.wait(MINUTE - now % MINUTE)
        try:
            queues = dict(sqs_backends[account][region].queues)
            fifo = [(name, LocalQueue.of(queue)) for name, queue in queues.items() if queue.fifo_queue]
            tell_queues(figures, fifo, at=now)
        except Exception:
            # The border of a thread: a queue that is deleted at this moment costs the others one minute.
            _logger.exception("the metrics of a minute could not be published")
