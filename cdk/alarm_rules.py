"""
The alarm rules: which figures of the lanes are worth waking somebody for, as data.

Owns the word severity. :class:`Observability` makes CloudWatch alarms of them.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from lanes.config import Lane, LanesConfig
from lanes.config_table import format_duration

from .lane_queues import LaneQueue, LaneQueues
from .priority_consumer import PriorityConsumer

PERIOD = timedelta(minutes=5)


class Severity(StrEnum):
    """How soon somebody has to look."""

    WARNING = "warning"
    """During working hours."""
    CRITICAL = "critical"
    """Now: messages are being lost, or urgent work stands still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRule:
    """
    One alarm.

    Attributes:
        name: Its construct id and the key in :attr:`Observability.alarms`.
        severity: How soon somebody has to look.
        metric: What is watched.
        threshold: The value from which on it alarms.
        periods: For how many periods on end.
        description: What has happened and what to do.

    """

    name: str
    severity: Severity
    metric: cloudwatch.IMetric
    threshold: float
    periods: int = 1
    description: str


def default_oldest_age(config: LanesConfig, lane: Lane) -> timedelta:
    """
    Give the wait in a lane from which on somebody should look.

    Five minutes for the highest lane, a day for the last one, whose bulk work may wait, an hour in between.
    A single lane counts as one in between.
    """
    if len(config.lanes) == 1:
        return timedelta(hours=1)
    if lane == config.lanes[0]:
        return timedelta(minutes=5)
    return timedelta(days=1) if lane == config.last_lane else timedelta(hours=1)


def alarm_rules(
    *, queues: LaneQueues, consumer: PriorityConsumer, oldest_age: Mapping[str, timedelta]
) -> Iterator[AlarmRule]:
    """
    Give the rules of one set of lanes.

    Args:
        queues: The lanes' queues.
        consumer: Their consumer.
        oldest_age: Waits from which on to alarm, by lane name, in place of the defaults.

    """
    for queue in queues.lanes:
        age = oldest_age.get(queue.lane.name, default_oldest_age(queues.config, queue.lane))
        yield from _lane_rules(queue, age=age, highest=queue.lane == queues.config.lanes[0])
    yield from _function_rules(queues.config, consumer)


def _lane_rules(queue: LaneQueue, *, age: timedelta, highest: bool) -> Iterator[AlarmRule]:
    name = queue.lane.name
    yield AlarmRule(
        name=f"{name}DeadLetters",
        severity=Severity.WARNING,
        metric=queue.metric_dead_letters(period=PERIOD),
        threshold=1,
        description=f"Lane {name} has dead letters: read their reasons, mend the cause, then redrive them.",
    )
    yield AlarmRule(
        name=f"{name}OldestAge",
        severity=Severity.CRITICAL if highest else Severity.WARNING,
        metric=queue.metric_oldest_age(period=PERIOD),
        threshold=age.total_seconds(),
        description=(
            f"A message has waited {format_duration(age)} in lane {name}: look whether its group fails again "
            "and again, or whether there is more work above it than the function's concurrency can bear."
        ),
    )
    yield AlarmRule(
        name=f"{name}NearExpiry",
        severity=Severity.CRITICAL,
        metric=queue.metric_oldest_age(period=PERIOD),
        threshold=(queue.retention / 2).total_seconds(),
        description=(
            f"A message in lane {name} has used half of the {format_duration(queue.retention)} that SQS "
            "keeps it. SQS drops expired messages without a dead letter: drain the lane or move its "
            "messages elsewhere."
        ),
    )


def _function_rules(config: LanesConfig, consumer: PriorityConsumer) -> Iterator[AlarmRule]:
    period = Duration.seconds(int(PERIOD.total_seconds()))
    yield AlarmRule(
        name="Errors",
        severity=Severity.WARNING,
        metric=consumer.function.metric_errors(period=period, statistic="Sum"),
        threshold=1,
        description=(
            "An invocation crashed or ran out of time. Failures of single messages don't count here: the "
            "function answers them. Its log says where."
        ),
    )
    slots = config.consumer.reserved_concurrency
    if slots >= sum(lane.maximum_concurrency for lane in config.lanes):
        yield AlarmRule(
            name="Throttles",
            severity=Severity.WARNING,
            metric=consumer.function.metric_throttles(period=period, statistic="Sum"),
            threshold=1,
            description=(
                f"Lambda throttled the function, though its {slots} slots suffice for all mappings: "
                "something else invokes it, or its reserved concurrency was changed by hand."
            ),
        )
        return
    yield AlarmRule(
        name="Throttles",
        severity=Severity.CRITICAL,
        metric=_throttles_without_work(consumer, period=period),
        threshold=1,
        # One invocation may run all through a period; none can run through one more than its timeout spans.
        periods=math.ceil(config.consumer.function_timeout / PERIOD) + 1,
        description=(
            "Lambda throttles the function and no invocation starts: its concurrency is zero or used up. "
            "Each throttled batch costs its messages a receive, and in the end the queue dead-letters them. "
            f"(Throttles as such are ordinary here: the mappings share {slots} slots.)"
        ),
    )


def _throttles_without_work(consumer: PriorityConsumer, *, period: Duration) -> cloudwatch.MathExpression:
    return cloudwatch.MathExpression(
        expression="IF(FILL(invocations, 0) < 1, throttles, 0)",
        label="Throttles while nothing runs",
        period=period,
        using_metrics={
            "invocations": consumer.function.metric_invocations(period=period, statistic="Sum"),
            "throttles": consumer.function.metric_throttles(period=period, statistic="Sum"),
        },
    )
