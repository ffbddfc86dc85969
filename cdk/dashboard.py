"""The dashboard: a section of graphs for each lane, one for the function, and one for the outbox if there is one."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from cdk_monitoring_constructs import (
    AlarmFactoryDefaults,
    AlarmWithAnnotation,
    CustomMetricGroup,
    DefaultDashboardFactory,
    MonitoringFacade,
)
from constructs import Construct

from lanes.config import LanesConfig
from lanes.consumer.ledger import Cause
from lanes.consumer.telemetry import receives
from lanes.metrics import Metric
from lanes.outbox.telemetry import RelayMetric

from .alarms.cloudwatch import path_of
from .alarms.rule import AlarmRule, first_steps, sections
from .consumer import PriorityConsumer
from .outbox import Outbox
from .queues.lane_queue import LaneQueue
from .queues.lane_queues import LaneQueues

FULL_WIDTH = 24
THIRD = FULL_WIDTH // 3
MINUTE = Duration.minutes(1)
OUTCOMES = (
    Metric.HANDLED,
    Metric.YIELDED,
    Metric.FAILED,
    Metric.RETURNED,
    Metric.DEAD_LETTERED,
    Metric.CANCELLED,
    Metric.EXPIRED,
    Metric.MOVED,
)


def add_dashboard(
    scope: Construct,
    *,
    queues: LaneQueues,
    consumer: PriorityConsumer,
    outbox: Outbox | None,
    alarms: Mapping[str, AlarmWithAnnotation],
    rules: Sequence[AlarmRule],
    runbook: str,
) -> cloudwatch.Dashboard:
    """
    Add the dashboard.

    Args:
        scope: The construct to add it to.
        queues: The queues of the lanes.
        consumer: Their consumer.
        outbox: The outbox, or None.
        alarms: The alarms to show, by name; those of a lane also appear as lines in its graphs.
        rules: Their rules; the first steps and the sections of the runbook are below the graphs.
        runbook: The file or URL of the runbook.

    """
    name = "-".join(path_of(scope))
    monitoring = MonitoringFacade(
        scope,
        "Monitoring",
        alarm_factory_defaults=AlarmFactoryDefaults(actions_enabled=True, alarm_name_prefix=name),
        dashboard_factory=DefaultDashboardFactory(
            scope,
            "Dashboards",
            dashboard_name_prefix=name,
            create_summary_dashboard=False,
            detail_dashboard_range=Duration.hours(3),
        ),
    )
    states = [*alarms.values()]
    shown = [one.alarm for one in states] + ([*outbox.alarms.values()] if outbox else [])
    monitoring.add_widget(cloudwatch.AlarmStatusWidget(alarms=shown, title="Alarms", width=FULL_WIDTH))
    for queue in queues.lanes:
        _add(monitoring, f"Lane {queue.lane.name}", _lane(queue, consumer, queues.config, alarms))
    _add(monitoring, "Function", _function(consumer, queues))
    if outbox is not None:
        _add(monitoring, "Outbox", _outbox(outbox))
    dashboard = monitoring.created_dashboard()
    assert dashboard is not None  # noqa: S101 - the factory above makes one
    dashboard.add_widgets(_text(first_steps(rules, runbook), width=FULL_WIDTH))
    for left, right in zip_longest(*[sections(rules)] * 2):
        dashboard.add_widgets(*(_text(text, width=FULL_WIDTH // 2) for text in (left, right) if text))
    return dashboard


def _text(markdown: str, *, width: int) -> cloudwatch.TextWidget:
    # A widget that is too low scrolls; two lines take about one unit of its height.
    return cloudwatch.TextWidget(markdown=markdown, width=width, height=markdown.count("\n") // 2 + 2)


def _add(monitoring: MonitoringFacade, title: str, groups: Iterator[CustomMetricGroup]) -> None:
    monitoring.monitor_custom(human_readable_name=title, alarm_friendly_name=title, metric_groups=[*groups])


def _lane(
    queue: LaneQueue,
    consumer: PriorityConsumer,
    config: LanesConfig,
    alarms: Mapping[str, AlarmWithAnnotation],
) -> Iterator[CustomMetricGroup]:
    name = queue.lane.name
    yield _graph(
        "Waiting and in flight",
        queue.metric_backlog().with_(label="waiting"),
        queue.metric_in_flight().with_(label="in flight"),
    )
    yield _graph(
        "Wait until handled (ms)",
        *(consumer.metric(Metric.WAIT, name, statistic=part, label=part) for part in ("p50", "p99")),
    )
    yield _graph(
        "Age of the oldest message (s)", queue.metric_oldest_age(), line=alarms.get(f"{name}OldestAge")
    )
    yield _graph("Outcomes", *(consumer.metric(outcome, name) for outcome in OUTCOMES))
    yield _graph(
        "Receives by cause",
        *(consumer.metric(receives(cause), name, label=cause.replace("_", " ")) for cause in Cause),
    )
    yield _graph("Dead letters", queue.metric_dead_letters(), line=alarms.get(f"{name}DeadLetters"))
    if queue.bell is not None:
        yield _graph("Served from the reserve", consumer.metric(Metric.RESERVE, name))
        return
    if config.lanes_above(queue.lane):
        yield _graph("Share of receives that yielded (%)", _yield_ratio(consumer, name))
        yield _graph("Served from the reserve, woken early", *_reserve_and_woken(consumer, name))
        yield _graph("Work done while a higher lane waited (ms)", consumer.metric(Metric.INVERSION, name))


def _yield_ratio(consumer: PriorityConsumer, lane: str) -> cloudwatch.MathExpression:
    return cloudwatch.MathExpression(
        expression="100 * yielded / (yielded + FILL(handled, 0) + FILL(failed, 0))",
        label="yielded",
        period=MINUTE,
        using_metrics={
            "yielded": consumer.metric(Metric.YIELDED, lane),
            "handled": consumer.metric(Metric.HANDLED, lane),
            "failed": consumer.metric(Metric.FAILED, lane),
        },
    )


def _reserve_and_woken(consumer: PriorityConsumer, lane: str) -> Iterator[cloudwatch.Metric]:
    yield consumer.metric(Metric.RESERVE, lane, label="from the reserve")
    yield consumer.metric(Metric.WOKEN, lane, label="woken")


def _function(consumer: PriorityConsumer, queues: LaneQueues) -> Iterator[CustomMetricGroup]:
    function, config = consumer.function, queues.config
    busy = function.metric("ConcurrentExecutions", period=MINUTE, statistic="Maximum", label="busy")
    slots = config.consumer.reserved_concurrency
    free = cloudwatch.MathExpression(
        expression=f"{slots} - FILL(busy, 0)", label="free", period=MINUTE, using_metrics={"busy": busy}
    )
    yield _graph(
        "Invocations, errors, throttles",
        function.metric_invocations(period=MINUTE),
        function.metric_errors(period=MINUTE),
        function.metric_throttles(period=MINUTE),
    )
    yield _graph(
        "Duration of an invocation (ms)",
        function.metric_duration(period=MINUTE, statistic="p50", label="p50"),
        function.metric_duration(period=MINUTE, statistic="p99", label="p99"),
    )
    yield _graph(f"Busy and free of {slots} slots", busy, free)
    yield _graph(
        "Failed calls of the consumer",
        *(consumer.metric(Metric.AWS_ERRORS, lane.name, label=lane.name) for lane in config.lanes),
    )
    if queues.bell is not None:
        yield _graph(
            "Rings of the bell",
            queues.bell.metric_rings().with_(label="accepted"),
            queues.bell.metric_waiting().with_(label="waiting"),
        )


def _outbox(outbox: Outbox) -> Iterator[CustomMetricGroup]:
    yield _graph("Age of the oldest entry (s)", outbox.metric(RelayMetric.OLDEST_AGE, statistic="Maximum"))
    yield _graph(
        "Entries waiting, failed and abandoned",
        *(
            outbox.metric(metric, statistic="Maximum")
            for metric in (RelayMetric.WAITING, RelayMetric.WAITING_FAILED, RelayMetric.KEPT_ABANDONED)
        ),
    )
    yield _graph(
        "Published and failed", outbox.metric(RelayMetric.PUBLISHED), outbox.metric(RelayMetric.FAILED)
    )
    yield _graph(
        "From written to published (ms)",
        *(outbox.metric(RelayMetric.LATENCY, statistic=part).with_(label=part) for part in ("p50", "p99")),
    )


def _graph(
    title: str,
    *metrics: cloudwatch.Metric | cloudwatch.MathExpression,
    line: AlarmWithAnnotation | None = None,
) -> CustomMetricGroup:
    return CustomMetricGroup(
        title=title,
        metrics=[*metrics],
        graph_widget_width=THIRD,
        horizontal_annotations=None if line is None else [line.annotation],
    )
