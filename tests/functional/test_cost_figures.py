"""Figures for a bill, as CloudWatch and CloudFormation give them."""

from datetime import UTC, datetime, timedelta

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from lanes.aws.cloudwatch.costs import CloudWatchUse
from lanes.config import LanesConfig
from lanes.config.deployment import Deployment, LaneQueues
from lanes.errors import AwsError
from lanes.operate.lanes.deployed import FunctionState

NOW = datetime(2026, 11, 20, 12, 0, 30, tzinfo=UTC)
CONFIG = LanesConfig.from_dict({"lanes": [{"name": "HIGH", "threshold": 50}, {"name": "MAIN"}]})
DEPLOYMENT = Deployment(
    config=CONFIG,
    queues={
        name: LaneQueues(url=f"https://sqs/1/{name}.fifo", dead_letter_url="x") for name in ("HIGH", "MAIN")
    },
    table="ledger",
)
FUNCTION = FunctionState(
    name="worker",
    timeout=timedelta(seconds=30),
    memory_mb=256,
    variables={},
    role_arn="role",
    reserved_concurrency=1,
    architecture="arm64",
    log_group="/aws/lambda/worker",
)


@pytest.fixture
def aws():
    """Clients by service."""
    with mock_aws():
        yield lambda service: boto3.client(service, region_name="eu-central-1")


def use(
    aws, *, window=timedelta(hours=1), cloudformation=None, deployment=DEPLOYMENT, endpoint_zones=lambda: 0
):
    return CloudWatchUse(
        deployment=deployment,
        function=FUNCTION,
        service="orders",
        stack_name="Orders",
        cloudwatch=aws("cloudwatch"),
        cloudformation=cloudformation or aws("cloudformation"),
        endpoint_zones=endpoint_zones,
        now=lambda: NOW,
    ).read(window)


def put(aws, namespace, metric, values, *, minutes=10, **dimensions):
    """Put the values of one data point, so many minutes ago."""
    aws("cloudwatch").put_metric_data(
        Namespace=namespace,
        MetricData=[
            {
                "MetricName": metric,
                "Timestamp": NOW - timedelta(minutes=minutes),
                "Value": value,
                "Dimensions": [
                    {"Name": name.rstrip("_"), "Value": text} for name, text in dimensions.items()
                ],
            }
            for value in values
        ],
    )


def test_figures_of_lanes_and_of_what_they_share(aws):
    """Sums over the window, of this service and these queues only."""
    own = {"lane": "MAIN", "service": "orders"}
    put(aws, "PriorityLanes", "HandledMessages", [10, 5], **own)
    put(aws, "PriorityLanes", "HandledMessages", [100], lane="MAIN", service="another")
    put(aws, "PriorityLanes", "DuplicateMessages", [1], **own)
    put(aws, "PriorityLanes", "ReceivesFirst", [12], **own)
    put(aws, "PriorityLanes", "ReceivesAfterYield", [4], minutes=30, **own)
    put(aws, "PriorityLanes", "BatchTime", [100, 300], **own)
    put(aws, "PriorityLanes", "HandlerTime", [90, 200], **own)
    put(aws, "PriorityLanes", "YieldedMessages", [4], **own)
    put(aws, "AWS/SQS", "NumberOfMessagesSent", [12], QueueName="MAIN.fifo")
    put(aws, "AWS/SQS", "SentMessageSize", [500, 700], QueueName="MAIN.fifo")
    put(aws, "AWS/SQS", "NumberOfEmptyReceives", [30], QueueName="HIGH.fifo")
    put(aws, "AWS/Lambda", "Invocations", [2], FunctionName="worker")
    put(aws, "AWS/Lambda", "Duration", [150, 350], FunctionName="worker")
    put(aws, "AWS/DynamoDB", "ConsumedWriteCapacityUnits", [8], TableName="ledger")
    index = {"TableName": "ledger", "GlobalSecondaryIndexName": "parked"}
    put(aws, "AWS/DynamoDB", "ConsumedWriteCapacityUnits", [4], **index)
    put(aws, "AWS/Logs", "IncomingBytes", [9_000], LogGroupName="/aws/lambda/worker")

    found = use(aws)

    high, main = found.lanes
    assert (high.empty_receives, high.handled, high.sent, high.metrics) == (30, 0, None, 0)
    assert (main.handled, main.records, main.yielded, main.batches) == (16, 16, 4, 2)
    assert (main.done_batches, main.yielded_batches) == (2, 1)
    assert (main.batch_seconds, main.handler_seconds) == (0.4, 0.29)
    assert (main.sent, main.sent_bytes, main.received, main.lanes_above) == (12, 1_200, None, 1)
    assert main.metrics == 7
    shared = found.shared
    assert (shared.invocations, shared.seconds, shared.memory_mb, shared.is_arm) == (2, 0.5, 256, True)
    assert (shared.write_units, shared.read_units, shared.log_bytes) == (12, None, 9_000)


def test_figures_of_the_bell_of_the_pull_engine(aws):
    """Its queue is not a lane's, and a report may be about several batches."""
    pull = Deployment(
        config=LanesConfig.from_dict(
            {**CONFIG.to_dict(), "consumer": {"engine": "pull", "reserved_concurrency": 3}}
        ),
        queues=DEPLOYMENT.queues,
        table="ledger",
        bell="https://sqs/1/bell.fifo",
    )
    put(aws, "AWS/SQS", "NumberOfMessagesSent", [30, 33], QueueName="bell.fifo")
    put(aws, "AWS/SQS", "NumberOfEmptyReceives", [7], QueueName="bell.fifo")
    put(aws, "PriorityLanes", "HandledMessages", [10], lane="MAIN", service="orders")

    found = use(aws, deployment=pull)

    bell = found.shared.bell
    assert (bell.slots, bell.sent, bell.received, bell.empty_receives) == (3, 63, None, 7)
    assert found.lanes[1].done_batches == 0
    assert use(aws).shared.bell is None


def test_figures_before_the_window_do_not_count(aws):
    """Nor do those of the minute that runs, which are not complete."""
    for minutes in (0, 59, 63):
        put(aws, "PriorityLanes", "HandledMessages", [1], minutes=minutes, lane="MAIN", service="orders")

    assert use(aws).lanes[1].handled == 1


def test_a_long_window_is_read_by_the_hour(aws):
    """CloudWatch keeps minutes for 15 days only."""
    for hours in (1, 30, 60):
        put(aws, "PriorityLanes", "HandledMessages", [1], minutes=60 * hours, lane="MAIN", service="orders")

    assert use(aws, window=timedelta(days=2)).lanes[1].handled == 2


def test_alarms_and_dashboards_are_those_of_the_stack(aws):
    """A stack that can't be listed leaves them unknown, with a note."""
    unknown = use(aws)
    cloudformation = aws("cloudformation")
    types = ["AWS::CloudWatch::Alarm", "AWS::CloudWatch::Alarm", "AWS::SQS::Queue"]
    with Stubber(cloudformation) as stubbed:
        stubbed.add_response(
            "list_stack_resources",
            {"StackResourceSummaries": [_resource(place, kind) for place, kind in enumerate(types)]},
            {"StackName": "Orders"},
        )

        known = use(aws, cloudformation=cloudformation)

    assert (unknown.shared.alarms, unknown.notes != []) == (None, True)
    assert (known.shared.alarms, known.shared.dashboards, known.notes) == (2, 0, [])


def test_endpoints_of_bulk_jobs_are_charged_while_no_job_runs(aws):
    """Without the right to read their parameter they are unknown, with a note."""

    def denied():
        raise AwsError(operation="GetParameter", code="AccessDenied", retryable=False)

    known, unknown = use(aws, endpoint_zones=lambda: 2), use(aws, endpoint_zones=denied)

    assert known.shared.endpoint_zones == 2
    assert unknown.shared.endpoint_zones is None
    assert any("endpoints of bulk jobs" in note for note in unknown.notes)


def _resource(place, kind):
    return {
        "LogicalResourceId": f"R{place}",
        "ResourceType": kind,
        "LastUpdatedTimestamp": NOW,
        "ResourceStatus": "CREATE_COMPLETE",
    }
