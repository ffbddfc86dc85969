"""CloudWatch alarms from alarm rules; the description has severity, first step and section of the runbook."""

from collections.abc import Iterable, Mapping, Sequence

from aws_cdk import Stack, Tags, Token
from aws_cdk import aws_cloudwatch as cloudwatch
from cdk_monitoring_constructs import (
    AlarmFactory,
    AlarmFactoryDefaults,
    AlarmWithAnnotation,
    MetricFactoryDefaults,
)
from constructs import Construct

from .rule import AlarmRule, Severity, link_to


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
