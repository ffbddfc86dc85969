"""Schedules: the group, the role of Scheduler, the periodic messages, and who may send for later."""

import json

import pytest
from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk.assertions import Annotations, Match, Template

from cdk import LaneQueues, LanesParameter, Ledger, PriorityConsumer, PriorityLanesStack, Schedules
from lanes.config import LanesConfig
from lanes.config.deployment import Deployment
from lanes.errors import ConfigurationError
from lanes.message import Message
from tests.support.infrastructure import FUNCTION_FOLDER, allowed, new_app, render, resources

NIGHTLY = {
    "name": "nightly",
    "kind": "statements.render",
    "cron": "30 3 * * mon",
    "timezone": "Europe/Zurich",
    "priority": "BULK",
    "data": {"text": 'a "quoted" <word>, and <aws.scheduler.scheduled-time>'},
    "overlap": "skip",
}
TICK = {"name": "tick", "kind": "tick", "every": "5m", "priority": "HIGH", "group": "g", "enabled": False}
SCHEDULE = "AWS::Scheduler::Schedule"
GROUP = "AWS::Scheduler::ScheduleGroup"
AT = "2026-11-30T02:30:00Z"


def made(*tables, key=False, **root):
    """Make a stack with schedules, and with a role that sends for later."""
    stack = Stack(new_app(), "Foreign")
    config = LanesConfig.from_dict({"schedules": list(tables), **root})
    encryption = kms.Key(stack, "Key", enable_key_rotation=True) if key else None
    queues = LaneQueues(stack, "Lanes", config=config, encryption_key=encryption)
    schedules = Schedules(stack, "Schedules", queues=queues)
    schedules.grant_send_later(iam.Role(stack, "Sender", assumed_by=iam.AccountRootPrincipal()))
    LanesParameter(stack, "Parameter", queues=queues, ledger=Ledger(stack, "Ledger"), schedules=schedules)
    return stack


def stack_with(raw):
    """Make this repository's stack with a configuration."""
    config = LanesConfig.from_dict(raw)
    return PriorityLanesStack(new_app(), "Whole", config=config, function_folder=FUNCTION_FOLDER)


@pytest.fixture(scope="module")
def template():
    """Give the template of two schedules."""
    return Template.from_stack(made(NIGHTLY, TICK))


def named(template, kind, start):
    """Give the logical id of the resource whose id begins so."""
    (name,) = [name for name in template.find_resources(kind) if name.startswith(start)]
    return name


def schedule(template, name):
    """Give the properties of a schedule, by its name."""
    return next(one for one in resources(template, SCHEDULE).values() if one["Name"] == name)


def sent(template, name):
    """Give the parameters of SendMessage, as Scheduler makes the call at a time."""
    text = render(schedule(template, name)["Target"]["Input"])
    return json.loads(text.replace("<aws.scheduler.scheduled-time>", AT))


def test_a_schedule_has_its_expression_and_its_zone(template):
    """And is off where the configuration says so."""
    nightly, tick = schedule(template, "s-nightly"), schedule(template, "s-tick")

    assert nightly["ScheduleExpression"] == "cron(30 3 ? * MON *)"
    assert nightly["ScheduleExpressionTimezone"] == "Europe/Zurich"
    assert (nightly["State"], tick["State"]) == ("ENABLED", "DISABLED")
    assert tick["ScheduleExpression"] == "rate(5 minutes)"
    assert {one["FlexibleTimeWindow"]["Mode"] for one in (nightly, tick)} == {"OFF"}


def test_a_message_is_named_by_its_schedule_and_its_scheduled_time(template):
    """A second firing is the same message, for SQS and for the consumer."""
    call = sent(template, "s-nightly")
    message = Message.from_body(call["MessageBody"], group=call["MessageGroupId"])

    assert message.id == f"nightly@{AT}"
    assert message.time.isoformat() == "2026-11-30T02:30:00+00:00"
    assert message.message_deduplication_id == call["MessageDeduplicationId"]
    assert (message.kind, message.priority, message.data) == ("statements.render", -100, NIGHTLY["data"])
    assert call["MessageGroupId"] == "schedule-nightly"
    assert call["MessageAttributes"] == {"lanes.overlap": {"DataType": "String", "StringValue": "skip"}}


def test_it_is_sent_to_the_lane_of_its_priority(template):
    """With the group that the configuration names."""
    assert (
        sent(template, "s-nightly")["QueueUrl"] == f"<{named(template, 'AWS::SQS::Queue', 'LanesMAINQueue')}>"
    )
    tick = sent(template, "s-tick")
    assert tick["QueueUrl"] == f"<{named(template, 'AWS::SQS::Queue', 'LanesHIGHQueue')}>"
    assert tick["MessageGroupId"] == "g"
    assert "MessageAttributes" not in tick


def test_scheduler_may_send_to_the_lanes_alone(template):
    """And write down what it could not send; only schedules of the group use the role."""
    lanes = [named(template, "AWS::SQS::Queue", f"Lanes{lane}Queue") for lane in ("HIGH", "MEDIUM", "MAIN")]
    undelivered = named(template, "AWS::SQS::Queue", "SchedulesUndelivered")
    role = resources(template, "AWS::IAM::Role")[named(template, "AWS::IAM::Role", "SchedulesRole")]
    (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
    group = named(template, GROUP, "SchedulesGroup")

    assert allowed(template, "SchedulesRole") == {
        ("sqs:SendMessage", f"<{queue}.Arn>") for queue in (*lanes, undelivered)
    }
    assert trust["Principal"] == {"Service": "scheduler.amazonaws.com"}
    assert render(trust["Condition"]["ArnLike"]["aws:SourceArn"]).endswith(f"schedule-group/<{group}>")
    for one in resources(template, SCHEDULE).values():
        assert one["GroupName"] == {"Ref": group}
        assert render(one["Target"]["DeadLetterConfig"]["Arn"]) == f"<{undelivered}.Arn>"


def test_who_sends_for_later_may_add_messages_and_nothing_periodic(template):
    """By the beginning of their names; and pass the role to Scheduler alone."""
    rights = allowed(template, "Sender")
    schedules = {resource for action, resource in rights if action.startswith("scheduler:")}

    assert {action for action, _ in rights} == {
        "iam:PassRole",
        "scheduler:CreateSchedule",
        "scheduler:DeleteSchedule",
        "scheduler:GetSchedule",
    }
    assert all(resource.endswith("/m-*") for resource in schedules)
    passed = [
        statement
        for policy in resources(template, "AWS::IAM::Policy").values()
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Action"] == "iam:PassRole"
    ]
    assert passed[0]["Condition"] == {"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}}


def test_the_deployment_document_says_where_to_send_for_later(template):
    """Group, role and queue."""
    (parameter,) = resources(template, "AWS::SSM::Parameter").values()
    found = Deployment.from_json(render(parameter["Value"])).scheduler

    assert found.group == f"<{named(template, GROUP, 'SchedulesGroup')}>"
    assert found.role_arn == f"<{named(template, 'AWS::IAM::Role', 'SchedulesRole')}.Arn>"
    assert found.role_id == f"<{named(template, 'AWS::IAM::Role', 'SchedulesRole')}.RoleId>"
    assert found.dead_letter_arn == f"<{named(template, 'AWS::SQS::Queue', 'SchedulesUndelivered')}.Arn>"


@pytest.mark.parametrize("policy", [RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE, RemovalPolicy.DESTROY])
def test_what_sends_a_message_for_later_lives_as_long_as_the_message(policy):
    """A kept group whose role or queue is gone loses each message without a trace."""
    stack = Stack(new_app(), "Foreign")
    Schedules(
        stack, "Schedules", queues=LaneQueues(stack, "Lanes", config=LanesConfig()), removal_policy=policy
    )
    found = Template.from_stack(stack).to_json()["Resources"]
    parts = {GROUP, "AWS::IAM::Role", "AWS::IAM::Policy", "AWS::SQS::Queue"}
    lives = {
        (one["Type"], one.get("DeletionPolicy"), one.get("UpdateReplacePolicy"))
        for name, one in found.items()
        if name.startswith("Schedules") and one["Type"] in parts
    }

    assert {kind for kind, *_ in lives} == parts
    assert len({one[1:] for one in lives}) == 1


def test_lanes_under_your_key_let_scheduler_use_it():
    """Else each message would end in the queue of undelivered ones; messages for later are under it too."""
    template = Template.from_stack(made(NIGHTLY, key=True))
    (parameter,) = resources(template, "AWS::SSM::Parameter").values()
    found = Deployment.from_json(render(parameter["Value"])).scheduler
    sender = {action for action, _ in allowed(template, "Sender")}

    assert ("kms:GenerateDataKey", f"<{named(template, 'AWS::KMS::Key', 'Key')}.Arn>") in allowed(
        template, "SchedulesRole"
    )
    assert found.key_arn == f"<{named(template, 'AWS::KMS::Key', 'Key')}.Arn>"
    assert sender >= {"kms:DescribeKey", "kms:GenerateDataKey", "kms:Decrypt"}


def test_data_that_is_too_large_is_refused_at_synth():
    """With the size and the limit."""
    with pytest.raises(ConfigurationError, match=r"schedule nightly: its data makes 3.* takes 262144"):
        made({**NIGHTLY, "data": "x" * 300_000})


def test_a_kind_that_its_lane_does_not_take_is_refused_at_synth():
    """Each occurrence would be a dead letter."""
    lanes = [{"name": "HIGH", "threshold": 0}, {"name": "MAIN", "kinds": ["statements.render.all"]}]
    with pytest.raises(ConfigurationError, match=r"schedule nightly.*statements.render goes to lane MAIN"):
        made(NIGHTLY, lanes=lanes)


@pytest.mark.parametrize("root", [{"scheduler": True}, {"schedules": [NIGHTLY]}], ids=str)
def test_the_stack_has_it_where_the_configuration_asks_for_it(root):
    """And nothing of it elsewhere; its handlers may send for later."""
    with_it, without = (Template.from_stack(stack_with(config)) for config in (root, {}))

    assert with_it.find_resources(GROUP)
    alarms = with_it.find_resources("AWS::CloudWatch::Alarm")
    assert any("Undelivered" in name for name in alarms)
    assert not without.find_resources(GROUP)
    assert "scheduler:CreateSchedule" in {action for action, _ in allowed(with_it, "ConsumerRole")}


@pytest.mark.parametrize("passed", [True, False])
def test_a_consumer_without_its_schedules_is_a_finding(passed):
    """It could not tell their messages from those of other senders."""
    stack = Stack(new_app(), "Own")
    queues = LaneQueues(stack, "Lanes", config=LanesConfig.from_dict({"schedules": [TICK]}))
    schedules = Schedules(stack, "Schedules", queues=queues)
    PriorityConsumer(
        stack,
        "Consumer",
        queues=queues,
        ledger=Ledger(stack, "Ledger"),
        code=lambda_.Code.from_inline("pass"),
        **({"schedules": schedules} if passed else {}),
    )

    found = Annotations.from_stack(stack).find_warning("*", Match.string_like_regexp("overlap"))
    assert bool(found) is not passed
