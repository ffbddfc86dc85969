"""
The alarm rules: which figures are worth waking somebody for, as data, and the pages that say what to do then.

Owns the word severity. ``add_alarms`` makes CloudWatch alarms of the rules; the pages are in ``docs/runbook``.
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
from lanes.consumer.telemetry import Metric

from .lane_queues import LaneQueue, LaneQueues
from .priority_consumer import PriorityConsumer

PERIOD = timedelta(minutes=5)

STARVED = timedelta(minutes=30)
"""For how long a lane without ``max_wait`` makes way without being served before somebody hears of it."""

# AWS: an alarm of periods under an hour looks at no more than a day (PutMetricAlarm).
MOST_PERIODS = timedelta(days=1) // PERIOD

CALL_ERRORS = 10
"""Failed calls of the consumer in a period that are more than a call now and then."""


class Severity(StrEnum):
    """How soon somebody has to look."""

    WARNING = "warning"
    """During working hours."""
    CRITICAL = "critical"
    """Now: messages are being lost, or urgent work stands still."""


class Page(StrEnum):
    """The pages of the runbook, by the name of their file."""

    DEAD_LETTERS = "dead-letters"
    OLDEST_AGE = "oldest-age"
    NEAR_EXPIRY = "near-expiry"
    STARVED = "starved"
    CALL_ERRORS = "call-errors"
    ERRORS = "errors"
    THROTTLES = "throttles"
    OUTBOX_ABANDONED = "outbox-abandoned"
    OUTBOX_OLDEST_AGE = "outbox-oldest-age"
    OUTBOX_ERRORS = "outbox-errors"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRule:
    """
    One alarm.

    Attributes:
        name: The key in the construct's ``alarms``, and the end of the alarm's name.
        severity: How soon somebody has to look.
        metric: What is watched.
        threshold: The value from which on it alarms.
        periods: For how many periods on end.
        description: What has happened.
        first_step: What to do first.
        page: The page of the runbook that says the rest.
        lane: The lane that it is about, if it is about one.

    """

    name: str
    severity: Severity
    metric: cloudwatch.Metric | cloudwatch.MathExpression
    threshold: float
    periods: int = 1
    description: str
    first_step: str
    page: Page
    lane: str | None = None


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
    config = queues.config
    for queue in queues.lanes:
        age = oldest_age.get(queue.lane.name, default_oldest_age(config, queue.lane))
        yield from _lane_rules(queue, age=age, highest=queue.lane == config.lanes[0])
        if config.lanes_above(queue.lane):
            yield _starved(queue.lane, consumer)
    yield _call_errors(config, consumer)
    yield AlarmRule(
        name="Errors",
        severity=Severity.WARNING,
        metric=consumer.function.metric_errors(period=_period(), statistic="Sum"),
        threshold=1,
        description="An invocation crashed or ran out of time. Failures of single messages don't count here.",
        first_step="read the function's log at that time for `Task timed out`, `Runtime exited` or a traceback.",
        page=Page.ERRORS,
    )
    yield _throttles(config, consumer)


def _lane_rules(queue: LaneQueue, *, age: timedelta, highest: bool) -> Iterator[AlarmRule]:
    name = queue.lane.name
    yield AlarmRule(
        name=f"{name}DeadLetters",
        severity=Severity.WARNING,
        metric=queue.metric_dead_letters(period=PERIOD),
        threshold=1,
        description=f"Lane {name} has dead letters.",
        first_step=f"`lanes dead-letters list {name}` shows their reasons.",
        page=Page.DEAD_LETTERS,
        lane=name,
    )
    yield AlarmRule(
        name=f"{name}OldestAge",
        severity=Severity.CRITICAL if highest else Severity.WARNING,
        metric=queue.metric_oldest_age(period=PERIOD),
        threshold=age.total_seconds(),
        description=f"A message has waited {format_duration(age)} in lane {name}.",
        first_step="`lanes status` shows whether the lane moves, and what is above it.",
        page=Page.OLDEST_AGE,
        lane=name,
    )
    yield AlarmRule(
        name=f"{name}NearExpiry",
        severity=Severity.CRITICAL,
        metric=queue.metric_oldest_age(period=PERIOD),
        threshold=(queue.retention / 2).total_seconds(),
        description=(
            f"A message in lane {name} has used half of the {format_duration(queue.retention)} that SQS keeps it. SQS "
            "drops expired messages without a dead letter."
        ),
        first_step="`lanes status` and `lanes check` show why the lane is not drained.",
        page=Page.NEAR_EXPIRY,
        lane=name,
    )


def _starved(lane: Lane, consumer: PriorityConsumer) -> AlarmRule:
    patience = lane.max_wait or STARVED
    return AlarmRule(
        name=f"{lane.name}Starved",
        severity=Severity.WARNING,
        metric=cloudwatch.MathExpression(
            expression="IF(FILL(handled, 0) < 1, FILL(yielded, 0), 0)",
            label="Yields while nothing is handled",
            period=_period(),
            using_metrics={
                "handled": consumer.metric(Metric.HANDLED, lane.name, period=PERIOD),
                "yielded": consumer.metric(Metric.YIELDED, lane.name, period=PERIOD),
            },
        ),
        threshold=1,
        periods=min(math.ceil(patience / PERIOD) + 1, MOST_PERIODS),
        description=f"Lane {lane.name} has only made way for {format_duration(patience)} and got nothing done.",
        first_step="`lanes status` shows which lane above it is busy, and whether that one drains.",
        page=Page.STARVED,
        lane=lane.name,
    )


def _call_errors(config: LanesConfig, consumer: PriorityConsumer) -> AlarmRule:
    lanes = {f"lane{place}": lane.name for place, lane in enumerate(config.lanes)}
    return AlarmRule(
        name="CallErrors",
        severity=Severity.CRITICAL,
        metric=cloudwatch.MathExpression(
            expression=" + ".join(f"FILL({key}, 0)" for key in lanes),
            label="Failed calls of the consumer",
            period=_period(),
            using_metrics={
                key: consumer.metric(Metric.AWS_ERRORS, name, period=PERIOD) for key, name in lanes.items()
            },
        ),
        threshold=CALL_ERRORS,
        periods=2,
        description="Calls of the consumer to SQS or to its table fail again and again; meanwhile it yields or waits.",
        first_step="`lanes check` shows a missing permission, a missing table or a changed queue.",
        page=Page.CALL_ERRORS,
    )


def _throttles(config: LanesConfig, consumer: PriorityConsumer) -> AlarmRule:
    most = config.function_concurrency
    if most >= sum(lane.maximum_concurrency for lane in config.lanes):
        return AlarmRule(
            name="Throttles",
            severity=Severity.WARNING,
            metric=consumer.function.metric_throttles(period=_period(), statistic="Sum"),
            threshold=1,
            description=f"Lambda throttled the function, though all mappings together start no more than its {most}.",
            first_step="`lanes check` shows whether the reserved concurrency was changed by hand.",
            page=Page.THROTTLES,
        )
    return AlarmRule(
        name="Throttles",
        severity=Severity.CRITICAL,
        metric=_throttles_without_work(consumer),
        threshold=1,
        # One invocation may run all through a period; none can run through one more than its timeout spans.
        periods=math.ceil(config.consumer.function_timeout / PERIOD) + 1,
        description=(
            "Lambda throttles the function and no invocation starts: its concurrency is zero or used up. Each "
            "throttled batch costs its messages a receive. (Throttles as such are ordinary here: the mappings may "
            f"start more than the {most} that may run.)"
        ),
        first_step="`lanes check` shows the function's reserved concurrency and the account's quota.",
        page=Page.THROTTLES,
    )


def _throttles_without_work(consumer: PriorityConsumer) -> cloudwatch.MathExpression:
    return cloudwatch.MathExpression(
        expression="IF(FILL(invocations, 0) < 1, throttles, 0)",
        label="Throttles while nothing runs",
        period=_period(),
        using_metrics={
            "invocations": consumer.function.metric_invocations(period=_period(), statistic="Sum"),
            "throttles": consumer.function.metric_throttles(period=_period(), statistic="Sum"),
        },
    )


def _period() -> Duration:
    return Duration.seconds(int(PERIOD.total_seconds()))
