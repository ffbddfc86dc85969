"""The alarm rule of schedules."""

from aws_cdk import Duration

from ..schedules import Schedules
from .rule import PERIOD, AlarmRule, Page, Severity


def schedules_rule(schedules: Schedules) -> AlarmRule:
    """Give the rule of the messages that EventBridge Scheduler could not send."""
    return AlarmRule(
        name="Undelivered",
        severity=Severity.CRITICAL,
        metric=schedules.undelivered.metric_approximate_number_of_messages_visible(
            statistic="Maximum", period=Duration.seconds(int(PERIOD.total_seconds()))
        ),
        threshold=1,
        description="EventBridge Scheduler could not send scheduled messages for a day.",
        first_step="read the error attributes of a message in the queue of undelivered messages.",
        page=Page.SCHEDULES,
    )
