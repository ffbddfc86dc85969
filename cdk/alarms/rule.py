"""Alarm rules as data (metric, threshold, first step and section of the runbook), and the alarms that they become."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

from aws_cdk import Duration, Stack, Tags, Token
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from cdk_monitoring_constructs import (
    AlarmFactory,
    AlarmFactoryDefaults,
    AlarmWithAnnotation,
    MetricFactoryDefaults,
)
from constructs import Construct

PERIOD = timedelta(minutes=5)
RUNBOOK = "docs/runbook.md"
RELATIVE_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]+\)")
FOLDER = Path(__file__).resolve().parent  # in a checkout `lanes_cdk` is a link to this package
INSTALLED = FOLDER / "runbook.md"
"""The wheel has the runbook beside this file; in a checkout it is in the documentation alone."""

THROTTLED = 10
"""Throttled writes in a period that are more than DynamoDB's growth with the load."""


class Severity(StrEnum):
    """How soon you have to act on an alarm."""

    WARNING = "warning"
    """During working hours."""
    CRITICAL = "critical"
    """Now: messages are being lost, or urgent work has stopped."""


class Section(StrEnum):
    """The sections of the runbook, by the anchors of their headings."""

    DEAD_LETTERS = "dead-letters"
    OLDEST_AGE = "oldest-age"
    NEAR_EXPIRY = "near-expiry"
    STARVED = "starved"
    CALL_ERRORS = "call-errors"
    ERRORS = "errors"
    UNKNOWN_KINDS = "unknown-kinds"
    BLOCKED = "blocked"
    RESOURCE_AWAY = "resource-away"
    THROTTLES = "throttles"
    HEARTBEAT = "heartbeat"
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
        section: The section of the runbook.
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
    section: Section
    lane: str | None = None


def age_problems(prop: str, age: timedelta) -> list[str]:
    """Return the problem of an age that every message has."""
    return [] if age > timedelta() else [f"{prop} is {age.total_seconds():g} seconds; it must be more than 0"]


def alarm_period() -> Duration:
    """Give the period of the metrics of alarms."""
    return Duration.seconds(int(PERIOD.total_seconds()))


def link_to(rule: AlarmRule, runbook: str) -> str:
    """Give the section of an alarm in a runbook's file or URL."""
    return f"{runbook}#{rule.section}"


def first_steps(rules: Iterable[AlarmRule], runbook: str) -> str:
    """
    Give the meaning of each alarm, the first step and the link to its section.

    Args:
        rules: The rules of the alarms.
        runbook: The file or URL of the runbook.

    """
    parts = ["### Runbook"]
    for rule in rules:
        # Without a URL it is a file of the repository, which no browser opens.
        more = f"[{rule.section}]({link_to(rule, runbook)})" if "://" in runbook else "below"
        parts.append(
            f"**{rule.name}** ({rule.severity}). {rule.description} First: {rule.first_step} More: {more}"
        )
    return "\n\n".join(parts)


def sections(rules: Iterable[AlarmRule]) -> Iterator[str]:
    """Give the text of each section that the alarms need, once, without links that only its folder can resolve."""
    file = INSTALLED if INSTALLED.is_file() else FOLDER.parents[1] / RUNBOOK
    texts = {
        text.partition("\n")[0].lower().replace(" ", "-"): f"## {text}"
        for text in file.read_text(encoding="utf-8").split("\n## ")
    }
    for section in dict.fromkeys(rule.section for rule in rules):
        yield RELATIVE_LINK.sub(r"\1", texts[section])


def throttled_writes(table: dynamodb.Table, *, indexes: Sequence[str], first_step: str) -> AlarmRule:
    """
    Give the rule of one table.

    Args:
        table: The table to watch.
        indexes: The names of its global indexes: a hot key of an index throttles the writes of the table.
        first_step: The first thing to do.

    """
    index = "GlobalSecondaryIndexName"
    dimensions = [{"TableName": table.table_name}]
    dimensions += [{"TableName": table.table_name, index: name} for name in indexes]
    metrics = {
        f"writes{number}": cloudwatch.Metric(
            namespace="AWS/DynamoDB",
            metric_name="WriteThrottleEvents",
            dimensions_map=each,
            statistic="Sum",
            period=alarm_period(),
        )
        for number, each in enumerate(dimensions)
    }
    return AlarmRule(
        name="TableThrottles",
        severity=Severity.WARNING,
        metric=cloudwatch.MathExpression(
            expression=" + ".join(f"FILL({name}, 0)" for name in metrics),
            label="Throttled writes",
            period=alarm_period(),
            using_metrics=metrics,
        ),
        threshold=THROTTLED,
        periods=2,
        spare=1,
        description="DynamoDB throttles writes to the table or to one of its indexes.",
        first_step=first_step,
        section=Section.CALL_ERRORS,
    )


def add_alarms(
    scope: Construct,
    rules: Iterable[AlarmRule],
    *,
    actions: Mapping[Severity, Sequence[cloudwatch.IAlarmAction]],
    runbook: str,
) -> dict[str, AlarmWithAnnotation]:
    """
    Add one alarm for each rule.

    Args:
        scope: The construct to add them to.
        rules: The rules.
        actions: The actions of the alarms by severity.
        runbook: The file or URL of the runbook.

    Returns:
        The alarms by rule name, with their threshold as a line for graphs.

    """
    stack, path = path_of(scope)
    factory = AlarmFactory(
        scope,
        global_alarm_defaults=AlarmFactoryDefaults(actions_enabled=True, alarm_name_prefix=stack),
        global_metric_defaults=MetricFactoryDefaults(),
        local_alarm_name_prefix=path,
    )
    return {rule.name: _add(factory, rule, actions=actions, runbook=runbook) for rule in rules}


def _add(
    factory: AlarmFactory,
    rule: AlarmRule,
    *,
    actions: Mapping[Severity, Sequence[cloudwatch.IAlarmAction]],
    runbook: str,
) -> AlarmWithAnnotation:
    comparison, missing = cloudwatch.ComparisonOperator, cloudwatch.TreatMissingData
    added = factory.add_alarm(
        rule.metric,
        alarm_name_suffix=rule.name,
        alarm_description=rule.description,
        alarm_description_override=f"{rule.severity.upper()}. {rule.description} First: {rule.first_step}",
        runbook_link=link_to(rule, runbook),
        threshold=rule.threshold,
        evaluation_periods=rule.periods + rule.spare,
        datapoints_to_alarm=rule.periods,
        comparison_operator=(
            comparison.LESS_THAN_THRESHOLD if rule.below else comparison.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
        ),
        # AWS: SQS reports no metrics for a queue that was unused for hours (SQS Developer Guide, CloudWatch).
        treat_missing_data=missing.BREACHING if rule.below else missing.NOT_BREACHING,
    )
    Tags.of(added.alarm).add("severity", rule.severity.value)
    if chosen := actions.get(rule.severity):
        added.alarm.add_alarm_action(*chosen)
    return added


def path_of(scope: Construct) -> tuple[str, str]:
    """Give the stack and the path in it as names: all stacks share the names of alarms and dashboards."""
    stack = Stack.of(scope)
    path = scope.node.path.removeprefix(f"{stack.node.path}/").replace("/", "-")
    known = not Token.is_unresolved(stack.stack_name)
    return (stack.stack_name if known else stack.node.path.replace("/", "-")), path
