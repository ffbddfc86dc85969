"""A first deployment that fails: the next one starts from nothing."""

import json

import pytest
from aws_cdk import CfnResource
from aws_cdk.assertions import Template
from botocore.exceptions import ClientError

from local.deployed import make_client
from tests.support.infrastructure import foreign_stack, lanes_config

STACK = "FailsAtFirst"


def template_of_lanes(*, broken):
    """Give the template of a stack with all stateful resources, and with a queue that AWS refuses if it is broken."""

    def spoil(stack, *_constructs):
        if broken:
            refused = {
                "FifoQueue": True,
                "RedrivePolicy": {"deadLetterTargetArn": "arn:none", "maxReceiveCount": 3},
            }
            CfnResource(stack, "Refused", type="AWS::SQS::Queue", properties=refused)

    return json.dumps(Template.from_stack(foreign_stack(lanes_config(2), then=spoil)).to_json())


@pytest.fixture
def client(server):
    """Clients of the server by service."""
    return lambda service: make_client(service, server.endpoint_url)


def stateful(client):
    """List the queues, tables and log groups of the stack."""
    groups = client("logs").describe_log_groups()["logGroups"]
    names = [
        *client("sqs").list_queues(QueueNamePrefix=STACK).get("QueueUrls", []),
        *client("dynamodb").list_tables()["TableNames"],
        *(group["logGroupName"] for group in groups),
    ]
    return [name for name in names if STACK in name]


def test_a_first_deployment_that_fails_leaves_no_orphans(client):
    """CloudFormation could not adopt them, and they would be forgotten; a complete stack keeps its own."""
    cloudformation = client("cloudformation")
    bootstrap = {"Name": "/cdk-bootstrap/hnb659fds/version", "Value": "30", "Type": "String"}
    client("ssm").put_parameter(**bootstrap, Overwrite=True)
    capabilities = {"StackName": STACK, "Capabilities": ["CAPABILITY_IAM"]}

    with pytest.raises(ClientError, match="dead-letter queue"):
        cloudformation.create_stack(TemplateBody=template_of_lanes(broken=True), **capabilities)
    left = stateful(client)
    cloudformation.create_stack(TemplateBody=template_of_lanes(broken=False), **capabilities)
    deployed = stateful(client)
    cloudformation.delete_stack(StackName=STACK)

    assert left == []
    assert len(deployed) == 6
    assert stateful(client) == deployed
