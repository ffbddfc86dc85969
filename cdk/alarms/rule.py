"""An alarm rule: the metric to watch, the threshold, and the first step to take, as data."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from aws_cdk import aws_cloudwatch as cloudwatch

PERIOD = timedelta(minutes=5)


class Severity(StrEnum):
    """How soon you have to act on an alarm."""

    WARNING = "warning"
    """During working hours."""
    CRITICAL = "critical"
    """Now: messages are being lost, or urgent work has stopped."""


class Page(StrEnum):
    """The pages of the runbook, by file name."""

    DEAD_LETTERS = "dead-letters"
    OLDEST_AGE = "oldest-age"
    NEAR_EXPIRY = "near-expiry"
    STARVED = "starved"
    CALL_ERRORS = "call-errors"
    ERRORS = "errors"
    UNKNOWN_KINDS = "unknown-kinds"
    RESOURCE_AWAY = "resource-away"
    THROTTLES = "throttles"
    HEARTBEAT = "heartbeat"
    INTAKE = "intake"
    OUTBOX_ABANDONED = "outbox-abandoned"
    OUTBOX_OLDEST_AGE = "outbox-oldest-age"
    OUTBOX_ERRORS = "outbox-errors"
    OUTBOX_LANE_WAITS = "outbox-lane-waits"
    SCHEDULES = "schedules"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRule:
    """
    One alarm.

    Attributes:
        name: The key in the construct's ``alarms``, and the end of the alarm's name.
        severity: How soon you have to act.
        metric: The metric to watch.
        threshold: The lowest value that raises the alarm.
        below: Whether values below the threshold raise it instead, and no value does too.
        periods: The number of periods that raise it.
        spare: The number of periods to look at beyond these. An expression that fills in missing values needs one:
            a late value of the newest period would else keep the alarm in its state (CloudWatch, "Using metric math").
        description: The event, in one sentence.
        first_step: The first thing to do.
        page: The page of the runbook.
        lane: The lane, if the alarm is about one.

    """

    name: str
    severity: Severity
    metric: cloudwatch.Metric | cloudwatch.MathExpression
    threshold: float
    below: bool = False
    periods: int = 1
    spare: int = 0
    description: str
    first_step: str
    page: Page
    lane: str | None = None
