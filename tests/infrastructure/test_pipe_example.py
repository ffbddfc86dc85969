"""The example of a pipe into a lane: where the group and the id come from, and the rights of its role."""

import json

import pytest
from aws_cdk import Duration, Stack
from aws_cdk import aws_sqs as sqs
from aws_cdk.assertions import Template
from cfnlint.api import lint
from cfnlint.config import ManualArgs

from cdk import LaneQueues
from examples.pipe import add_pipe
from lanes import LanesConfig
from tests.support.infrastructure import allowed, new_app, render, resources


@pytest.fixture(scope="module", params=["mappings", "pull"])
def template(request):
    """Give the template of a stack with lanes, a standard queue and the pipe."""
    stack = Stack(new_app(), "Shop")
    config = LanesConfig.from_dict({"consumer": {"engine": request.param}})
    orders = sqs.Queue(stack, "Orders", retention_period=Duration.days(14))
    add_pipe(stack, orders, LaneQueues(stack, "Lanes", config=config))
    return Template.from_stack(stack)


@pytest.fixture(scope="module")
def pipe(template):
    """Give the whole resource of the pipe."""
    (pipe,) = template.find_resources("AWS::Pipes::Pipe").values()
    return pipe


def named(template, start):
    """Give the queue whose logical id begins so, as its ARN is written."""
    names = [name for name in resources(template, "AWS::SQS::Queue") if name.startswith(start)]
    (name,) = [name for name in names if "DeadLetter" not in name]
    return f"<{name}.Arn>"


def test_group_and_id_come_from_the_message(template, pipe):
    """A repeated receive of the pipe has the same id, so the lane drops it."""
    made = pipe["Properties"]

    assert render(made["Source"]) == named(template, "Orders")
    assert render(made["Target"]) == named(template, "LanesMAIN")
    assert made["TargetParameters"] == {
        "InputTemplate": "<$.body>",
        "SqsQueueParameters": {
            "MessageGroupId": "$.body.customer",
            "MessageDeduplicationId": "$.messageId",
        },
    }


def test_the_role_may_empty_the_queue_and_send_to_the_lane_alone(template):
    """No ring: a pipe can't."""
    orders = named(template, "Orders")

    assert allowed(template, "PipeRole") == {
        ("sqs:ReceiveMessage", orders),
        ("sqs:ChangeMessageVisibility", orders),
        ("sqs:GetQueueUrl", orders),
        ("sqs:DeleteMessage", orders),
        ("sqs:GetQueueAttributes", orders),
        ("sqs:SendMessage", named(template, "LanesMAIN")),
    }
    (role,) = resources(template, "AWS::IAM::Role").values()
    (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "pipes.amazonaws.com"}


def test_the_pipe_waits_for_the_rights_of_its_role(template, pipe):
    """AWS refuses a pipe with a role that may not read its source."""
    (policy,) = resources(template, "AWS::IAM::Policy")

    assert policy in pipe["DependsOn"]


def test_cloudformation_knows_every_property(template):
    """As cfn-lint has its schema."""
    assert lint(json.dumps(template.to_json()), config=ManualArgs(regions=["eu-central-1"])) == []
