"""Which mappings are the consumer's: on a queue that another function reads too, and from queues that are no lanes."""

import io
import json
import zipfile
from types import SimpleNamespace

import boto3
import pytest

from lanes.aws.clients import Clients
from lanes.aws.stack import Operations
from lanes.errors import ConfigurationError
from lanes.operate.check import Check
from lanes.operate.pause import switch, the_mapping
from tests.support.operating import STACK, make_deployment

pytestmark = pytest.mark.usefixtures("aws_account")


@pytest.fixture
def deployment():
    """Three lanes without a function."""
    return make_deployment(boto3.client)


def function(name, deployment=None, **variables):
    """Make a function, with the document of the lanes if it is a consumer; return its ARN."""
    role = boto3.client("iam").create_role(
        RoleName=name, AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": []})
    )
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("index.py", "")
    return boto3.client("lambda").create_function(
        FunctionName=name,
        Runtime="python3.14",
        Role=role["Role"]["Arn"],
        Handler="index.handle",
        Code={"ZipFile": code.getvalue()},
        Environment={
            "Variables": ({"LANES_DEPLOYMENT": deployment.to_json()} if deployment else {}) | variables
        },
    )["FunctionArn"]


def mapping(url, name):
    """Map a queue to a function; return the mapping's UUID."""
    sqs = boto3.client("sqs")
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    made = boto3.client("lambda").create_event_source_mapping(
        EventSourceArn=arn, FunctionName=name, FunctionResponseTypes=["ReportBatchItemFailures"]
    )
    return made["UUID"]


@pytest.fixture
def made(deployment):
    """The lanes with their function, another function on HIGH, and a queue that is no lane mapped to the consumer."""
    function("Consumer", deployment)
    function("Older")
    # First: the order of the list must not decide.
    older = mapping(deployment.queues["HIGH"].url, "Older")
    own = {name: mapping(queues.url, "Consumer") for name, queues in deployment.queues.items()}
    orders = boto3.client("sqs").create_queue(QueueName="orders", Attributes={"VisibilityTimeout": "180"})
    return SimpleNamespace(older=older, own=own, foreign=mapping(orders["QueueUrl"], "Consumer"))


@pytest.fixture
def operations(deployment):
    """What verbs call."""
    return Operations(deployment=deployment, clients=Clients(), stack_name=STACK)


def states():
    """Give the state of each mapping."""
    found = boto3.client("lambda").list_event_source_mappings()["EventSourceMappings"]
    return {one["UUID"]: one["State"] for one in found}


@pytest.mark.parametrize("enabled", [False, True])
def test_only_the_consumers_mapping_is_switched(operations, made, enabled):
    """The other function's queue is its owner's matter."""
    client = boto3.client("lambda")
    for uuid in (made.older, made.own["HIGH"]):
        client.update_event_source_mapping(UUID=uuid, Enabled=not enabled)
    before = states()

    switch(
        operations.mappings,
        "HIGH",
        enabled=enabled,
        audit=operations.audit,
        report=lambda _state: None,
        pause=lambda _seconds: None,
    )

    assert states() == before | {made.own["HIGH"]: "Enabled" if enabled else "Disabled"}
    assert [one.uuid for one in operations.mappings.others("HIGH")] == [made.older]
    assert operations.mappings.others("MAIN") == []


def test_a_lane_that_only_another_function_reads_is_not_switched(operations, made):
    """Two mappings are left to look at, and neither is the consumer's."""
    client = boto3.client("lambda")
    client.delete_event_source_mapping(UUID=made.own["HIGH"])
    function("Newer")
    mapping(operations.deployment.queues["HIGH"].url, "Newer")

    with pytest.raises(ConfigurationError, match="no event source mappings"):
        the_mapping(operations.mappings, "HIGH")


def test_a_mapping_outlives_its_function(operations, made):
    """What is gone is not the consumer."""
    boto3.client("lambda").delete_function(FunctionName="Older")

    assert the_mapping(operations.mappings, "HIGH").uuid == made.own["HIGH"]


def test_the_check_names_the_mapping_of_a_queue_that_is_no_lane(operations, made):
    """With its UUID, its queue and the way to end it."""
    found = Check(deployment=operations.deployment, state=operations.state).run()

    (foreign,) = [one for one in found if one.code == "foreign_mapping"]
    assert f"mapping {made.foreign} (Enabled)" in foreign.found
    assert "the queue orders, which is not a lane" in foreign.found
    assert f"delete-event-source-mapping --uuid {made.foreign}" in foreign.advice
    (other,) = [one for one in found if one.code == "mapping_count"]
    assert f"mapping {made.older} (Enabled) gives its messages to Older" in other.found
