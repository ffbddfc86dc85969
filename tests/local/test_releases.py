"""Versions and the alias of a function: deployments publish, and mappings follow."""

import json

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from aws_cdk.assertions import Template

from cdk.function.lambda_function import ALIAS
from local.deployed import DeploymentReader, make_client

STACK = "Released"


def template_of(code):
    """Give the template of a function behind a mapping, with the versions and the alias of the constructs."""
    stack = Stack(App(), STACK)
    function = lambda_.Function(
        stack,
        "Function",
        code=lambda_.Code.from_inline(code),
        handler="index.handle",
        runtime=lambda_.Runtime.PYTHON_3_14,
        reserved_concurrent_executions=3,
    )
    queue = sqs.Queue(stack, "Queue", fifo=True)
    live = lambda_.Alias(stack, "Live", alias_name=ALIAS, version=function.current_version)
    lambda_.EventSourceMapping(stack, "Mapping", target=live, event_source_arn=queue.queue_arn)
    return json.dumps(Template.from_stack(stack).to_json())


@pytest.fixture
def stack(server):
    """The stack after a first deployment, as clients and a function that deploys another code."""
    cloudformation = make_client("cloudformation", server.endpoint_url)
    parameter = {"Name": "/cdk-bootstrap/hnb659fds/version", "Value": "30", "Type": "String"}
    make_client("ssm", server.endpoint_url).put_parameter(**parameter, Overwrite=True)
    settings = {"StackName": STACK, "Capabilities": ["CAPABILITY_IAM"]}
    cloudformation.create_stack(TemplateBody=template_of("first"), **settings)
    yield lambda code: cloudformation.update_stack(TemplateBody=template_of(code), **settings)
    cloudformation.delete_stack(StackName=STACK)


def deployed(server):
    """Read the one function, as the platform does before it runs it."""
    found = DeploymentReader(server.endpoint_url).read()
    (settings,) = [one for one in found.functions.values() if one.name.startswith(STACK)]
    return settings


def test_a_deployment_publishes_a_version_and_the_mapping_follows_the_alias(server, stack):
    """The code of the version runs, not the latest; the reserved concurrency is that of the function."""
    first = deployed(server)
    stack("second")
    second = deployed(server)

    assert (first.version, second.version) == ("1", "2")
    assert first.arn == second.arn
    assert first.arn.endswith(":live")
    assert first.code_sha256 != second.code_sha256
    assert second.reserved_concurrency == 3


def test_a_version_made_live_by_hand_is_not_the_newest(server, stack):
    """The mapping follows it, and the next deployment that changes the function ends it."""
    first = deployed(server)
    stack("second")
    functions = make_client("lambda", server.endpoint_url)
    functions.update_alias(FunctionName=first.name, Name="live", FunctionVersion="1")
    back = deployed(server)
    stack("third")

    assert back.version == "1"
    assert back.same_environments(first)
    assert deployed(server).version == "3"
