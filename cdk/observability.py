"""
What operators look at: alarms and one dashboard of a set of lanes.

Owns the construct ``Observability``.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from aws_cdk import Duration, Tags
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from lanes.consumer.telemetry import Metric
from lanes.errors import ConfigurationError

from .alarm_rules import AlarmRule, Severity, alarm_rules
from .lane_queues import LaneQueue, LaneQueues
from .priority_consumer import PriorityConsumer

__all__ = ["Observability", "Severity"]

FULL_WIDTH = 24


class Observability(Construct):
    """
    Alarms on dead letters, waiting times, errors and throttles, and a dashboard with a row for each lane.

    Every alarm carries its severity as a tag and at the start of its description. Alarms do nothing until
    they are given actions.

    Example:
        >>> Observability(
        ...     stack,
        ...     "Observability",
        ...     queues=queues,
        ...     consumer=consumer,
        ...     actions={Severity.CRITICAL: [SnsAction(on_call)]},
        ... )

    Args:
        scope: The construct that holds this one.
        construct_id: Its id there.
        queues: The lanes' queues.
        consumer: Their consumer.
        oldest_age: The wait from which on a lane alarms, by lane name. By default five minutes for the
            highest lane, a day for the last one and an hour in between.
        actions: What alarms of a severity do, nothing by default.

    Raises:
        ConfigurationError: ``oldest_age`` names a lane that doesn't exist.

    Attributes:
        alarms: The alarms by name: ``<lane>DeadLetters``, ``<lane>OldestAge``, ``<lane>NearExpiry``,
            ``Errors`` and ``Throttles``.
        dashboard: The dashboard.

    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        queues: LaneQueues,
        consumer: PriorityConsumer,
        oldest_age: Mapping[str, timedelta] | None = None,
        actions: Mapping[Severity, Sequence[cloudwatch.IAlarmAction]] | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        ages = oldest_age or {}
        _refuse_unknown(ages, queues)
        self.alarms: dict[str, cloudwatch.Alarm] = {
            rule.name: self._add_alarm(rule, actions=(actions or {}).get(rule.severity, ()))
            for rule in alarm_rules(queues=queues, consumer=consumer, oldest_age=ages)
        }
        self.dashboard = cloudwatch.Dashboard(
            self,
            "Dashboard",
            default_interval=Duration.hours(3),
            widgets=[
                [
                    cloudwatch.AlarmStatusWidget(
                        alarms=[*self.alarms.values()], title="Alarms", width=FULL_WIDTH
                    )
                ],
                *(_lane_row(queue, consumer) for queue in queues.lanes),
                _function_row(consumer),
            ],
        )

    def _add_alarm(self, rule: AlarmRule, *, actions: Sequence[cloudwatch.IAlarmAction]) -> cloudwatch.Alarm:
        alarm = cloudwatch.Alarm(
            self,
            rule.name,
            metric=rule.metric,
            threshold=rule.threshold,
            evaluation_periods=rule.periods,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            # AWS: SQS gives no figures for a queue that nobody used for hours (SQS Developer Guide,
            # CloudWatch).
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
            alarm_description=f"{rule.severity.upper()}. {rule.description}",
        )
        Tags.of(alarm).add("severity", rule.severity.value)
        if actions:
            alarm.add_alarm_action(*actions)
        return alarm


def _refuse_unknown(ages: Mapping[str, timedelta], queues: LaneQueues) -> None:
    names = [queue.lane.name for queue in queues.lanes]
    problems = [
        f"oldest_age names lane {name!r}; there are {', '.join(names)}" for name in ages if name not in names
    ]
    if problems:
        raise ConfigurationError(problems)


def _lane_row(queue: LaneQueue, consumer: PriorityConsumer) -> list[cloudwatch.IWidget]:
    name = queue.lane.name
    outcomes = (Metric.HANDLED, Metric.YIELDED, Metric.FAILED, Metric.DEAD_LETTERED)
    return [
        _graph(
            f"{name}: waiting and in flight",
            queue.metric_backlog().with_(label="waiting"),
            queue.metric_in_flight().with_(label="in flight"),
        ),
        _graph(f"{name}: outcomes", *(consumer.metric(outcome, name) for outcome in outcomes)),
        _graph(
            f"{name}: wait until handled (ms)",
            *(consumer.metric(Metric.WAIT, name, statistic=part, label=part) for part in ("p50", "p99")),
        ),
        _graph(f"{name}: age of the oldest message (s)", queue.metric_oldest_age()),
        _graph(f"{name}: dead letters", queue.metric_dead_letters()),
        _graph(f"{name}: work done while a higher lane waited (ms)", consumer.metric(Metric.INVERSION, name)),
    ]


def _function_row(consumer: PriorityConsumer) -> list[cloudwatch.IWidget]:
    function = consumer.function
    minute = Duration.minutes(1)
    return [
        _graph(
            "Function: invocations, errors, throttles",
            function.metric_invocations(period=minute),
            function.metric_errors(period=minute),
            function.metric_throttles(period=minute),
        ),
        _graph(
            "Function: duration (ms)",
            function.metric_duration(period=minute, statistic="p50", label="p50"),
            function.metric_duration(period=minute, statistic="p99", label="p99"),
        ),
        _graph(
            "Function: concurrent executions",
            function.metric("ConcurrentExecutions", period=minute, statistic="Maximum"),
        ),
    ]


def _graph(title: str, *metrics: cloudwatch.IMetric) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=[*metrics], width=FULL_WIDTH // 3)
