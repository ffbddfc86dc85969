"""The platform follows what others deploy: here CloudFormation stacks made without the CDK."""

import json

import pytest

from tests.support.waiting import until

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


@pytest.fixture
def platform(running_platform):
    """A platform with one stack that CloudFormation made without the CDK."""
    cloudformation = running_platform.client("cloudformation")
    cloudformation.create_stack(StackName=STACK, TemplateBody=_template())
    running_platform.follow_now()
    return running_platform


def _update(platform, **changes):
    platform.client("cloudformation").update_stack(StackName=STACK, TemplateBody=_template(**changes))
    platform.follow_now()


def _url(platform):
    (stack,) = platform.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"]
    return stack["Outputs"][0]["OutputValue"]


def _send(platform, body):
    platform.client("sqs").send_message(QueueUrl=_url(platform), MessageBody=body, MessageGroupId="g")


def test_a_stack_is_followed_from_its_creation_to_its_end(platform, lines):
    """Inline code runs, the mapping moves to another function, pauses and resumes, and the end leaves nothing."""
    queue = _url(platform).rpartition("/")[2]
    _send(platform, "one")
    lines.wait_for("first one")
    (function,) = [
        one for one in platform.functions.values() if one.settings.variables.get("NAME") == "first"
    ]
    (warm,) = function.environments

    _update(platform, function="Second", timeout=40)
    _send(platform, "two")
    lines.wait_for("second two")
    assert warm.pid is None

    _update(platform, function="Second", timeout=40, Enabled=False)
    _send(platform, "three")
    (mapping,) = platform.mappings_of(queue)
    assert not mapping.settings.enabled
    _update(platform, function="Second", timeout=40, Enabled=True, ScalingConfig={"MaximumConcurrency": 7})
    lines.wait_for("second three")
    assert mapping.settings.concurrency == 7

    platform.client("cloudformation").delete_stack(StackName=STACK)
    platform.follow_now()
    assert platform.mappings_of(queue) == []
    assert not [one for one in platform.functions.values() if "NAME" in one.settings.variables]


def test_two_functions_on_one_queue_both_run(platform, lines):
    """Beside each other, as while a queue moves from one function to another; then the first one alone."""
    queue = _url(platform).rpartition("/")[2]
    functions = {
        one.settings.variables["NAME"]: one.name
        for one in platform.functions.values()
        if one.settings.variables.get("NAME")
    }
    assert set(functions) == {"first"}
    client = platform.client("lambda")
    (second,) = [
        one["FunctionName"]
        for one in client.list_functions()["Functions"]
        if one.get("Environment", {}).get("Variables", {}).get("NAME") == "second"
    ]
    arn = client.list_event_source_mappings(FunctionName=functions["first"])["EventSourceMappings"][0]
    made = client.create_event_source_mapping(EventSourceArn=arn["EventSourceArn"], FunctionName=second)
    platform.follow_now()

    mappings = platform.mappings_of(queue)
    assert [one.function.name for one in mappings] == [functions["first"], second]
    client.update_event_source_mapping(UUID=arn["UUID"], Enabled=False)
    platform.follow_now()
    until(lambda: mappings[0].running == 0)
    _send(platform, "four")
    lines.wait_for("second four")

    client.delete_event_source_mapping(UUID=made["UUID"])
    platform.follow_now()
    assert [one.function.name for one in platform.mappings_of(queue)] == [functions["first"]]
    platform.client("cloudformation").delete_stack(StackName=STACK)
    platform.follow_now()
