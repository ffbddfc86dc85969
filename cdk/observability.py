"""Observability of a set of lanes: alarms and one dashboard."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
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
from lanes.errors import ConfigurationError
from lanes.metrics import Metric
from lanes.outbox.telemetry import RelayMetric

from .alarms.lanes import alarm_rules
from .alarms.rule import (
    RUNBOOK,
    AlarmRule,
    Section,
    Severity,
    add_alarms,
    age_problems,
    alarm_period,
    first_steps,
    path_of,
    sections,
)
from .consumer import PriorityConsumer
from .outbox import Outbox
from .props import checked
from .queues.lane_queue import LaneQueue
from .queues.lane_queues import LaneQueues
from .schedules import Schedules

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


class Observability(Construct):
    """
    Alarms on dead letters, waits, starvation, errors and throttles, and a dashboard with a section for each lane.

    Every alarm has its severity as a tag and at the start of its description. The description also names the first
    step and the section of the runbook with the others. Alarms do nothing until you give them actions.

    Example:
        >>> Observability(
        ...     stack,
        ...     "Observability",
        ...     queues=queues,
        ...     consumer=consumer,
        ...     actions={Severity.CRITICAL: [SnsAction(on_call)]},
        ... )

    Args:
        scope: The parent construct.
        construct_id: The id in the parent.
        queues: The queues of the lanes.
        consumer: Their consumer.
        outbox: An outbox to show on the dashboard, none by default. It has its own alarms.
        schedules: Schedules to watch, none by default.
        oldest_age: The wait that raises an alarm, by lane name. By default five minutes for the highest lane, a day
            for the last one and an hour in between.
        actions: The actions of the alarms by severity, none by default.
        runbook: The URL of the runbook, by default its file in this repository.

    Raises:
        ConfigurationError: ``oldest_age`` names a lane that doesn't exist, or a time that isn't positive.

    Attributes:
        alarms: The alarms by name: ``<lane>DeadLetters``, ``<lane>OldestAge``, ``<lane>NearExpiry``,
            ``<lane>Starved`` for lanes below another, ``CallErrors``, ``Errors``, ``Interrupted``, ``TableThrottles``,
            ``Throttles`` with mappings or ``Heartbeat`` with the pull engine, and ``Undelivered`` with schedules.
        dashboard: The dashboard.

    """

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        queues: LaneQueues,
        consumer: PriorityConsumer,
        outbox: Outbox | None = None,
        schedules: Schedules | None = None,
        oldest_age: Mapping[str, timedelta] | None = None,
        actions: Mapping[Severity, Sequence[cloudwatch.IAlarmAction]] | None = None,
        runbook: str = RUNBOOK,
    ) -> None:
        super().__init__(scope, construct_id)
        ages = oldest_age or {}
        _refuse_ages(ages, queues)
        rules = [*alarm_rules(queues=queues, consumer=consumer, oldest_age=ages)]
        if schedules is not None:
            rules.append(schedules_rule(schedules))
        added = add_alarms(self, rules, actions=actions or {}, runbook=runbook)
        self.alarms: dict[str, cloudwatch.AlarmBase] = {name: one.alarm for name, one in added.items()}
        self.dashboard = add_dashboard(
            self,
            queues=queues,
            consumer=consumer,
            outbox=outbox,
            alarms=added,
            rules=[*rules, *(outbox.rules if outbox else ())],
            runbook=runbook,
        )


def _refuse_ages(ages: Mapping[str, timedelta], queues: LaneQueues) -> None:
    names = [queue.lane.name for queue in queues.lanes]
    problems = [
        f"oldest_age names lane {name!r}; there are {', '.join(names)}" for name in ages if name not in names
    ]
    problems += [
        problem for name, age in ages.items() for problem in age_problems(f"oldest_age of {name}", age)
    ]
    if problems:
        raise ConfigurationError(problems)


def schedules_rule(schedules: Schedules) -> AlarmRule:
    """Give the rule of the messages that EventBridge Scheduler could not send."""
    return AlarmRule(
        name="Undelivered",
        severity=Severity.CRITICAL,
        metric=schedules.undelivered.metric_approximate_number_of_messages_visible(
            statistic="Maximum", period=alarm_period()
        ),
        threshold=1,
        description="EventBridge Scheduler could not send scheduled messages for a day.",
        first_step="read the error attributes of a message in the queue of undelivered messages.",
        section=Section.SCHEDULES,
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


__all__ = ["Observability", "Severity"]
