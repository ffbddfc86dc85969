"""Observability of a set of lanes: alarms and one dashboard."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from lanes.errors import ConfigurationError

from .alarms.cloudwatch import add_alarms
from .alarms.lanes import alarm_rules
from .alarms.rule import RUNBOOK, AlarmRule, Section, Severity, alarm_period
from .consumer import PriorityConsumer
from .dashboard import add_dashboard
from .outbox import Outbox
from .queues.lane_queues import LaneQueues
from .schedules import Schedules

__all__ = ["Observability", "Severity"]


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
        ConfigurationError: ``oldest_age`` names a lane that doesn't exist.

    Attributes:
        alarms: The alarms by name: ``<lane>DeadLetters``, ``<lane>OldestAge``, ``<lane>NearExpiry``,
            ``<lane>Starved`` for lanes below another, ``CallErrors``, ``Errors``, ``Interrupted``, ``TableThrottles``,
            ``Throttles`` with mappings or ``Heartbeat`` with the pull engine, and ``Undelivered`` with schedules.
        dashboard: The dashboard.

    """

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
        _refuse_unknown(ages, queues)
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


def _refuse_unknown(ages: Mapping[str, timedelta], queues: LaneQueues) -> None:
    names = [queue.lane.name for queue in queues.lanes]
    problems = [
        f"oldest_age names lane {name!r}; there are {', '.join(names)}" for name in ages if name not in names
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
