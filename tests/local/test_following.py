"""The platform follows what others deploy: here CloudFormation stacks made without the CDK."""

import json
import threading

import pytest

from local.platform import Platform

STACK = "followed"
HANDLER = """
import os
def handle(event, context):
    for record in event["Records"]:
        print(os.environ["NAME"], record["body"], "pid", os.getpid())
"""


def _function(name):
    return {
        "Type": "AWS::Lambda::Function",
        "Properties": {
            "Code": {"ZipFile": HANDLER},
            "Handler": "index.handle",
            "Runtime": "python3.13",
            "Role": {"Fn::GetAtt": ["Role", "Arn"]},
            "Environment": {"Variables": {"NAME": name}},
        },
    }


def _template(*, function="First", timeout=30, **mapping):
    source = {"EventSourceArn": {"Fn::GetAtt": ["Queue", "Arn"]}, "FunctionName": {"Ref": function}}
    resources = {
        "Role": {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {"Statement": []}}},
        "Queue": {
            "Type": "AWS::SQS::Queue",
            "Properties": {
                "FifoQueue": True,
                "ContentBasedDeduplication": True,
                "VisibilityTimeout": timeout,
            },
        },
        "First": _function("first"),
        "Second": _function("second"),
        "Mapping": {"Type": "AWS::Lambda::EventSourceMapping", "Properties": {**source, **mapping}},
    }
    outputs = {"Url": {"Value": {"Ref": "Queue"}}}
    return json.dumps({"Resources": resources, "Outputs": outputs})


class _Lines:
    """Waits for what the functions print."""

    def __init__(self):
        self._changed = threading.Condition()
        self._seen = []

    def __call__(self, _function, line):
        with self._changed:
            self._seen.append(line)
            self._changed.notify_all()

    def wait_for(self, text):
        with self._changed:
            assert self._changed.wait_for(lambda: any(text in one for one in self._seen), 60), self._seen
            return next(one for one in self._seen if text in one)


@pytest.fixture
def lines():
    """What the functions printed."""
    return _Lines()


@pytest.fixture
def platform(tmp_path, lines):
    """A platform with nothing deployed by itself, and one stack that somebody made."""
    with Platform(on_line=lines, build_directory=tmp_path) as running:
        cloudformation = running.client("cloudformation")
        cloudformation.create_stack(StackName=STACK, TemplateBody=_template())
        running.follow_now()
        yield running


def _update(platform, **changes):
    platform.client("cloudformation").update_stack(StackName=STACK, TemplateBody=_template(**changes))
    platform.follow_now()


def _send(platform, body):
    (stack,) = platform.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"]
    url = stack["Outputs"][0]["OutputValue"]
    platform.client("sqs").send_message(QueueUrl=url, MessageBody=body, MessageGroupId="g")


def test_a_stack_is_followed_from_its_creation_to_its_end(platform, lines):
    """Inline code runs, the mapping moves to another function, pauses and resumes, and the end leaves nothing."""
    _send(platform, "one")
    lines.wait_for("first one")
    (warm,) = next(iter(platform.functions.values())).environments

    _update(platform, function="Second", timeout=40)
    _send(platform, "two")
    lines.wait_for("second two")
    assert warm.pid is None

    _update(platform, function="Second", timeout=40, Enabled=False)
    _send(platform, "three")
    (mapping,) = platform.mappings.values()
    assert not mapping.settings.enabled
    _update(platform, function="Second", timeout=40, Enabled=True, ScalingConfig={"MaximumConcurrency": 7})
    lines.wait_for("second three")
    assert mapping.settings.slots == 7

    platform.client("cloudformation").delete_stack(StackName=STACK)
    platform.follow_now()
    assert not platform.mappings
    assert not platform.functions
