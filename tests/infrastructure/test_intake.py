"""Intake: its queues, its function, and their permissions."""

import json

import pytest
from aws_cdk import Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from aws_cdk.assertions import Match, Template
from cfnlint.api import lint
from cfnlint.config import ManualArgs

import app as cdk_app
from cdk import Intake, LaneQueues, Ledger
from lanes.config.deployment import Deployment
from lanes.errors import ConfigurationError
from tests.support.infrastructure import (
    FOREIGN_CODE,
    allowed,
    lanes_config,
    live_function,
    new_app,
    render,
    resources,
)

FUNCTION = "AWS::Lambda::Function"
MAPPING = "AWS::Lambda::EventSourceMapping"
QUEUE = "AWS::SQS::Queue"
# AWS: SQS drops a repeat within five minutes (SQS Developer Guide, "Using the message deduplication ID").
DEDUPLICATION_INTERVAL = 300


def made(**how):
    """Make another app's stack with two lanes, an intake, and a role that sends."""
    stack = Stack(new_app(), "Foreign")
    intake = Intake(
        stack,
        "Intake",
        queues=LaneQueues(stack, "Lanes", config=lanes_config(2, engine="pull")),
        ledger=Ledger(stack, "Ledger"),
        code=lambda_.Code.from_inline(FOREIGN_CODE),
        handler="index.lambda_handler",
        **how,
    )
    intake.grant_send(iam.Role(stack, "Sender", assumed_by=iam.AccountRootPrincipal()))
    return stack


@pytest.fixture(scope="module")
def intake():
    """Give its template."""
    return Template.from_stack(made())


def named(template, kind, start):
    """Give the logical id of the resource whose id begins so."""
    (name,) = [name for name in resources(template, kind) if name.startswith(start)]
    return name


def test_the_queue_is_mapped_to_a_function_of_its_own(intake):
    """With partial batch responses, and with a limit, so that a flood leaves concurrency to others."""
    (mapping,) = resources(intake, MAPPING).values()

    assert live_function(intake, mapping["FunctionName"]) == named(intake, FUNCTION, "IntakeFunction")
    assert mapping["EventSourceArn"] == {"Fn::GetAtt": [named(intake, QUEUE, "IntakeQueue"), "Arn"]}
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["ScalingConfig"]["MaximumConcurrency"] >= 2
    assert "FilterCriteria" not in mapping


def test_a_repeat_comes_while_the_lanes_still_drop_it(intake):
    """A message is hidden longer than an invocation lasts, and shorter than the deduplication interval."""
    queue = resources(intake, QUEUE)[named(intake, QUEUE, "IntakeQueue")]
    function = resources(intake, FUNCTION)[named(intake, FUNCTION, "IntakeFunction")]

    assert function["Timeout"] < queue["VisibilityTimeout"] < DEDUPLICATION_INTERVAL - function["Timeout"] / 2


def test_both_queues_are_as_safe_as_a_lane(intake):
    """FIFO by group, encrypted, two weeks, kept with the stack, a dead-letter queue as the last resort."""
    for name in (named(intake, QUEUE, "IntakeQueue"), named(intake, QUEUE, "IntakeDeadLetterQueue")):
        queue = resources(intake, QUEUE)[name]
        assert (
            queue["FifoQueue"] is queue["ContentBasedDeduplication"] is queue["SqsManagedSseEnabled"] is True
        )
        assert queue["DeduplicationScope"] == "messageGroup"
        assert queue["MessageRetentionPeriod"] == 14 * 86400
        assert intake.find_resources(QUEUE)[name]["DeletionPolicy"] == "RetainExceptOnCreate"
        denied = {"Effect": "Deny", "Condition": {"Bool": {"aws:SecureTransport": "false"}}}
        intake.has_resource_properties(
            "AWS::SQS::QueuePolicy",
            {
                "Queues": [{"Ref": name}],
                "PolicyDocument": {"Statement": Match.array_with([Match.object_like(denied)])},
            },
        )
    redrive = resources(intake, QUEUE)[named(intake, QUEUE, "IntakeQueue")]["RedrivePolicy"]
    dead = named(intake, QUEUE, "IntakeDeadLetterQueue")
    assert redrive == {"deadLetterTargetArn": {"Fn::GetAtt": [dead, "Arn"]}, "maxReceiveCount": 1000}


def test_the_function_may_take_from_the_intake_send_to_the_lanes_and_ring(intake):
    """And write its log; it may not receive from a lane, nor touch the table."""
    queue = named(intake, QUEUE, "IntakeQueue")
    lanes = [named(intake, QUEUE, f"Lanes{name}") for name in ("L0Queue", "L1Queue", "bell")]
    group = named(intake, "AWS::Logs::LogGroup", "Intake")

    assert allowed(intake, "IntakeRole") == {
        *(
            (f"sqs:{action}", f"<{queue}.Arn>")
            for action in ("ReceiveMessage", "DeleteMessage", "GetQueueAttributes")
        ),
        *(("sqs:SendMessage", f"<{lane}.Arn>") for lane in lanes),
        ("logs:CreateLogStream", f"<{group}.Arn>"),
        ("logs:PutLogEvents", f"<{group}.Arn>"),
    }


def test_a_sender_may_send_to_the_intake_and_nothing_else(intake):
    """Neither to a lane nor to the bell."""
    assert allowed(intake, "Sender") == {("sqs:SendMessage", f"<{named(intake, QUEUE, 'IntakeQueue')}.Arn>")}


def test_the_function_knows_lanes_and_bell(intake):
    """From the same document as the consumer's function."""
    (function,) = resources(intake, FUNCTION).values()

    document = Deployment.from_json(render(function["Environment"]["Variables"]["LANES_DEPLOYMENT"]))

    assert document.bell == f"<{named(intake, QUEUE, 'Lanesbell')}>"
    assert document.queues.keys() == {"L0", "L1"}


def test_it_alarms_on_its_dead_letters_and_on_waits(intake):
    """Both say what to do first and name the page."""
    alarms = {
        alarm["AlarmName"].rpartition("-")[2]: alarm
        for alarm in resources(intake, "AWS::CloudWatch::Alarm").values()
    }

    watched = {name: alarm["Dimensions"][0]["Value"]["Fn::GetAtt"][0] for name, alarm in alarms.items()}
    assert watched == {
        "DeadLetters": named(intake, QUEUE, "IntakeDeadLetterQueue"),
        "OldestAge": named(intake, QUEUE, "IntakeQueue"),
    }
    for alarm in alarms.values():
        assert alarm["AlarmDescription"].startswith("CRITICAL. ")
        assert alarm["AlarmDescription"].endswith("Runbook: docs/runbook/intake.md")


def test_this_repositorys_app_has_an_intake_on_demand():
    """`-c intake=on` adds it and its address; without it the stack is as small as before."""
    without, with_it = (
        Template.from_stack(cdk_app.add_stacks(new_app(**context))) for context in ({}, {"intake": "on"})
    )

    assert not [name for name in resources(without, QUEUE) if "Intake" in name]
    with_it.has_output("IntakeQueueUrl", {"Value": {"Ref": named(with_it, QUEUE, "IntakeQueue")}})


def test_the_function_is_known_as_that_of_an_intake(intake):
    """`lanes check` finds it by its rules, default ones too."""
    (function,) = resources(intake, FUNCTION).values()

    rules = json.loads(function["Environment"]["Variables"]["LANES_INTAKE"])
    assert rules == {"group_by": None, "id_by": None, "priority": 0}


def test_a_standard_queue_is_for_senders_that_know_no_fifo_queue():
    """The function knows where the body has group and id."""
    template = Template.from_stack(made(standard=True, group_by="detail.id", priority=50))
    (function,) = resources(template, FUNCTION).values()

    for name in (named(template, QUEUE, "IntakeQueue"), named(template, QUEUE, "IntakeDeadLetterQueue")):
        assert not {"FifoQueue", "ContentBasedDeduplication", "DeduplicationScope"} & {
            *resources(template, QUEUE)[name]
        }
    rules = function["Environment"]["Variables"]["LANES_INTAKE"]
    assert json.loads(rules) == {"group_by": "detail.id", "id_by": None, "priority": 50}
    findings = lint(json.dumps(template.to_json()), config=ManualArgs(regions=["eu-central-1"]))
    assert [str(finding) for finding in findings] == []


def existing(queue):
    """Make a stack whose intake forwards from a queue that is there already."""
    stack = Stack(new_app(), "Foreign")
    Intake(
        stack,
        "Intake",
        queues=LaneQueues(stack, "Lanes", config=lanes_config(2)),
        ledger=Ledger(stack, "Ledger"),
        code=lambda_.Code.from_inline(FOREIGN_CODE),
        handler="index.lambda_handler",
        existing=queue(stack) if callable(queue) else queue,
    )
    return Template.from_stack(stack)


ARN = "arn:aws:sqs:eu-central-1:123456789012:orders"


def test_an_existing_queue_is_mapped_and_stays_its_owners():
    """By its ARN: the stack defines no queue of the intake, and the function may take from it."""
    template = existing(ARN)

    (mapping,) = [one for one in resources(template, MAPPING).values() if one["EventSourceArn"] == ARN]
    assert live_function(template, mapping["FunctionName"]) == named(template, FUNCTION, "IntakeFunction")
    assert not [name for name in resources(template, QUEUE) if name.startswith("Intake")]
    assert {action for action, resource in allowed(template, "IntakeRole") if resource == ARN} == {
        "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes",
    }  # fmt: skip
    alarms = resources(template, "AWS::CloudWatch::Alarm").values()
    assert [one["AlarmName"].rpartition("-")[2] for one in alarms] == ["OldestAge"]


def test_the_dead_letter_queue_of_an_existing_queue_is_watched():
    """If this app defines it; and the function may use the key."""

    def queue(stack):
        key = kms.Key(stack, "Key")
        letters = sqs.DeadLetterQueue(
            queue=sqs.Queue(stack, "Dead", visibility_timeout=Duration.seconds(30)), max_receive_count=1000
        )
        return sqs.Queue(
            stack,
            "Orders",
            visibility_timeout=Duration.minutes(2),
            encryption_master_key=key,
            dead_letter_queue=letters,
        )

    template = existing(queue)

    watched = {
        alarm["AlarmName"].rpartition("-")[2]: alarm["Dimensions"][0]["Value"]["Fn::GetAtt"][0]
        for alarm in resources(template, "AWS::CloudWatch::Alarm").values()
    }
    assert watched == {
        "DeadLetters": named(template, QUEUE, "Dead"),
        "OldestAge": named(template, QUEUE, "Orders"),
    }
    assert "kms:Decrypt" in {action for action, _ in allowed(template, "IntakeRole")}


@pytest.mark.parametrize(
    ("queue", "why"),
    [
        ("orders", "existing is 'orders', which is not the ARN of an SQS queue"),
        (
            lambda stack: sqs.Queue(stack, "Orders"),
            "has a visibility timeout of 30s; change it where",
        ),
        (
            lambda stack: sqs.Queue(stack, "Orders", visibility_timeout=Duration.minutes(5)),
            "has a visibility timeout of 5m; change it where the queue is defined, to 1m to 4m",
        ),
    ],
)
def test_an_existing_queue_that_cannot_be_an_intake_is_refused(queue, why):
    """As far as this app knows it."""
    with pytest.raises(ConfigurationError, match=why):
        existing(queue)


def test_a_place_that_is_none_is_refused():
    """At synth, not with the first message."""
    with pytest.raises(ConfigurationError, match="is not a path"):
        made(group_by="detail..id")
