"""Observability: alarms and the dashboard."""

from datetime import timedelta

import pytest
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Match, Template

from cdk import Observability, Severity
from cdk.alarm_rules import default_oldest_age
from lanes.errors import ConfigurationError
from tests.support.infrastructure import foreign_stack, lanes_config, render, resources

ALARM = "AWS::CloudWatch::Alarm"
SQS = {"Namespace": "AWS/SQS", "ComparisonOperator": "GreaterThanOrEqualToThreshold"}


def observed(config, *, topic_arn=None, **props):
    """Give the template of a foreign stack with observability, critical alarms going to the topic."""

    def add(stack, queues, consumer):
        if topic_arn:
            topic = sns.Topic.from_topic_arn(stack, "OnCall", topic_arn)
            props["actions"] = {Severity.CRITICAL: [actions.SnsAction(topic)]}
        Observability(stack, "Observability", queues=queues, consumer=consumer, **props)

    return Template.from_stack(foreign_stack(config, then=add))


def queue_name(template, start):
    """Give how an alarm names the queue whose logical id starts like this."""
    (name,) = [name for name in resources(template, "AWS::SQS::Queue") if name.startswith(start)]
    return [{"Name": "QueueName", "Value": {"Fn::GetAtt": [name, "QueueName"]}}]


@pytest.mark.parametrize("lane", ["HIGH", "MEDIUM", "MAIN"])
def test_the_first_dead_letter_of_a_lane_alarms(template, lane):
    """The visible count of the dead-letter queue is watched, which also counts what SQS moved there."""
    template.has_resource_properties(
        ALARM,
        SQS
        | {
            "MetricName": "ApproximateNumberOfMessagesVisible",
            "Dimensions": queue_name(template, f"Lanes{lane}DeadLetterQueue"),
            "Threshold": 1,
            "TreatMissingData": "notBreaching",
        },
    )


@pytest.mark.parametrize(("lane", "seconds"), [("HIGH", 300), ("MEDIUM", 3600), ("MAIN", 86400)])
def test_a_long_wait_alarms_by_lane(template, lane, seconds):
    """Urgent work alarms after minutes, bulk work after a day."""
    template.has_resource_properties(
        ALARM,
        SQS
        | {
            "MetricName": "ApproximateAgeOfOldestMessage",
            "Dimensions": queue_name(template, f"Lanes{lane}Queue"),
            "Threshold": seconds,
        },
    )


@pytest.mark.parametrize("lane", ["HIGH", "MEDIUM", "MAIN"])
def test_a_message_near_its_expiry_alarms_as_critical(template, lane):
    """SQS drops expired messages silently, so half of the retention is the last call."""
    template.has_resource_properties(
        ALARM,
        {
            "MetricName": "ApproximateAgeOfOldestMessage",
            "Dimensions": queue_name(template, f"Lanes{lane}Queue"),
            "Threshold": 7 * 86400,
            "AlarmDescription": Match.string_like_regexp("^CRITICAL. "),
            "Tags": Match.array_with([{"Key": "severity", "Value": "critical"}]),
        },
    )


def test_the_wait_that_alarms_can_be_chosen_by_lane():
    """A lane's own figure replaces its default and leaves the others alone."""
    template = observed(lanes_config(2), oldest_age={"L1": timedelta(minutes=30)})

    thresholds = {
        name: alarm["Threshold"] for name, alarm in resources(template, ALARM).items() if "OldestAge" in name
    }
    assert sorted(thresholds.values()) == [300, 1800]


def test_a_wait_for_an_unknown_lane_is_refused():
    """A typing mistake would leave a lane with its default unnoticed."""
    with pytest.raises(ConfigurationError, match="oldest_age names lane 'L9'; there are L0, L1"):
        observed(lanes_config(2), oldest_age={"L9": timedelta(minutes=1)})


@pytest.mark.parametrize(
    ("count", "ages"), [(1, ["1h"]), (2, ["5m", "1d"]), (4, ["5m", "1h", "1h", "1d"])], ids="{} lanes".format
)
def test_default_waits_follow_the_order_of_lanes(count, ages):
    """Any number of lanes gets sensible figures."""
    units = {"m": 60, "h": 3600, "d": 86400}
    config = lanes_config(count)

    found = [default_oldest_age(config, lane).total_seconds() for lane in config.lanes]

    assert found == [int(age[:-1]) * units[age[-1]] for age in ages]


def test_throttles_alarm_where_the_mappings_compete_only_when_nothing_runs(template):
    """With one slot for three mappings throttles are ordinary; throttles without any invocation are not."""
    template.has_resource_properties(
        ALARM,
        {
            "AlarmDescription": Match.string_like_regexp("no invocation starts"),
            "EvaluationPeriods": 2,
            "Metrics": Match.array_with(
                [Match.object_like({"Expression": "IF(FILL(invocations, 0) < 1, throttles, 0)"})]
            ),
        },
    )


def test_a_long_function_timeout_makes_the_throttle_alarm_wait_longer():
    """A single invocation of fifteen minutes doesn't look like standstill."""
    template = observed(lanes_config(2, function_timeout="15m"))

    (alarm,) = [alarm for name, alarm in resources(template, ALARM).items() if "Throttles" in name]
    assert alarm["EvaluationPeriods"] == 4


def test_any_throttle_alarms_where_there_are_slots_for_all():
    """With as many slots as the mappings may start, something else must be wrong."""
    template = observed(lanes_config(1, reserved_concurrency=4))

    template.has_resource_properties(ALARM, {"MetricName": "Throttles", "Threshold": 1, "Statistic": "Sum"})


def test_errors_of_the_function_alarm(template):
    """Failures of single messages are answered, so an error is a crash or a timeout."""
    (function,) = resources(template, "AWS::Lambda::Function")

    template.has_resource_properties(
        ALARM,
        {
            "MetricName": "Errors",
            "Dimensions": [{"Name": "FunctionName", "Value": {"Ref": function}}],
            "Threshold": 1,
        },
    )


def test_actions_follow_the_severity():
    """The on-call topic hears of critical alarms only."""
    topic = "arn:aws:sns:eu-central-1:123456789012:on-call"
    template = observed(lanes_config(2), topic_arn=topic)

    told = {
        name.removeprefix("Observability")[:-8]
        for name, alarm in resources(template, ALARM).items()
        if alarm.get("AlarmActions") == [topic]
    }

    assert told == {"L0OldestAge", "L0NearExpiry", "L1NearExpiry", "Throttles"}


def test_the_dashboard_has_a_row_for_each_lane_and_one_for_the_function(template):
    """Waiting, outcomes, waits and dead letters of every lane are in sight."""
    (dashboard,) = resources(template, "AWS::CloudWatch::Dashboard").values()
    body = render(dashboard["DashboardBody"])

    for lane in ("HIGH", "MEDIUM", "MAIN"):
        assert f"{lane}: waiting and in flight" in body
        assert f'"YieldedMessages","lane","{lane}","service","PriorityLanes"' in body
        assert f"{lane}: dead letters" in body
    assert "Function: invocations, errors, throttles" in body


def test_alarms_are_found_by_name():
    """Another app can add its own actions to an alarm."""
    found = {}

    def add(stack, queues, consumer):
        found.update(Observability(stack, "Observability", queues=queues, consumer=consumer).alarms)

    foreign_stack(lanes_config(1), then=add)

    assert set(found) == {"L0DeadLetters", "L0OldestAge", "L0NearExpiry", "Errors", "Throttles"}
    assert all(isinstance(alarm, cloudwatch.Alarm) for alarm in found.values())
