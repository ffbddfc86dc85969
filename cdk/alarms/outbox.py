"""The alarm rules of an outbox."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Protocol

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs

from lanes.config.table import format_duration
from lanes.outbox.dynamodb.table import GLOBAL_INDEXES
from lanes.outbox.telemetry import RelayMetric

from ..tables.outbox import OutboxTable
from .rule import PERIOD, AlarmRule, Page, Severity
from .tables import throttled_writes

CRASHES = 3
"""Crashes of the relay in a period that are more than a transient fault; its schedule runs it every minute."""


LANE_FAILURES = 5
"""Rounds of a period in which a lane accepted nothing; in an outage a relay has more in its first seconds."""


class WatchedOutbox(Protocol):
    """An outbox as its rules see it: the relay, and the metrics that it reports."""

    function: lambda_.Function
    table: OutboxTable
    failures: sqs.Queue
    lanes: Sequence[str]

    def metric(
        self,
        metric: RelayMetric,
        *,
        lane: str | None = ...,
        statistic: str = ...,
        period: timedelta = ...,
    ) -> cloudwatch.Metric:
        """Give a metric that the relay reports."""


def outbox_rules(outbox: WatchedOutbox, *, oldest_age: timedelta) -> Iterator[AlarmRule]:
    """
    Give the rules of one outbox.

    Args:
        outbox: The outbox to watch.
        oldest_age: The age of an unfinished entry that raises an alarm.

    """
    yield AlarmRule(
        name="Abandoned",
        severity=Severity.WARNING,
        metric=outbox.metric(RelayMetric.ABANDONED, period=PERIOD),
        threshold=1,
        description="The relay abandoned entries of the outbox.",
        first_step="`lanes outbox list --state ABANDONED` shows why.",
        page=Page.OUTBOX_ABANDONED,
    )
    for lane in outbox.lanes:
        yield AlarmRule(
            name=f"{lane}Waits",
            severity=Severity.CRITICAL,
            metric=outbox.metric(RelayMetric.LANE_FAILURES, lane=lane, period=PERIOD),
            threshold=LANE_FAILURES,
            description=f"Lane {lane} accepts nothing from the outbox; its entries wait.",
            first_step="the metric's dimension `cause`, and `outbox_lane_waits` in the relay's log, name the cause.",
            page=Page.OUTBOX_LANE_WAITS,
            lane=lane,
        )
    yield AlarmRule(
        name="OldestAge",
        severity=Severity.CRITICAL,
        metric=outbox.metric(RelayMetric.OLDEST_AGE, statistic="Maximum", period=PERIOD),
        threshold=oldest_age.total_seconds(),
        description=f"An entry of the outbox has waited {format_duration(oldest_age)}.",
        first_step="`lanes outbox status` shows whether entries fail, wait for their lane, or are too many.",
        page=Page.OUTBOX_OLDEST_AGE,
    )
    yield AlarmRule(
        name="Errors",
        severity=Severity.CRITICAL,
        metric=outbox.function.metric_errors(
            period=Duration.seconds(int(PERIOD.total_seconds())), statistic="Sum"
        ),
        threshold=CRASHES,
        description="The relay of the outbox crashed or ran out of time, several times.",
        first_step="read the relay's log at that time.",
        page=Page.OUTBOX_ERRORS,
    )
    yield AlarmRule(
        name="Failures",
        severity=Severity.WARNING,
        metric=outbox.failures.metric_approximate_number_of_messages_visible(
            period=Duration.seconds(int(PERIOD.total_seconds())), statistic="Maximum"
        ),
        threshold=1,
        description="Lambda or EventBridge could not deliver events to the relay; they are in its failure queue.",
        first_step="`lanes outbox status` shows whether entries are published all the same.",
        page=Page.OUTBOX_ERRORS,
    )
    yield throttled_writes(
        outbox.table.table,
        indexes=[*GLOBAL_INDEXES],
        first_step="`lanes outbox status` shows how many entries are claimed and published.",
    )
