"""The alarm rules of an intake."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Protocol

from aws_cdk import Duration
from aws_cdk import aws_sqs as sqs

from lanes.config.table import format_duration

from .rule import PERIOD, AlarmRule, Page, Severity


class WatchedIntake(Protocol):
    """An intake as its rules see it."""

    queue: sqs.IQueue
    dead_letter_queue: sqs.IQueue | None


def intake_rules(intake: WatchedIntake, *, oldest_age: timedelta) -> Iterator[AlarmRule]:
    """
    Give the rules of one intake.

    Args:
        intake: The intake to watch.
        oldest_age: The age of a message that raises an alarm.

    """
    period = Duration.seconds(int(PERIOD.total_seconds()))
    if intake.dead_letter_queue is not None:
        yield AlarmRule(
            name="DeadLetters",
            severity=Severity.CRITICAL,
            metric=intake.dead_letter_queue.metric_approximate_number_of_messages_visible(
                statistic="Maximum", period=period
            ),
            threshold=1,
            description="Messages of the intake could not be forwarded to their lanes.",
            first_step="read the log of the intake's function, then redrive them with the console of SQS.",
            page=Page.INTAKE,
        )
    yield AlarmRule(
        name="OldestAge",
        severity=Severity.CRITICAL,
        metric=intake.queue.metric_approximate_age_of_oldest_message(statistic="Maximum", period=period),
        threshold=oldest_age.total_seconds(),
        description=f"A message has waited {format_duration(oldest_age)} in the intake.",
        first_step="read the log of the intake's function for `was not forwarded`.",
        page=Page.INTAKE,
    )
