"""The last hours of lanes from CloudWatch, as moto plays it."""

from datetime import UTC, datetime, timedelta

import boto3
import pytest
from moto import mock_aws

from lanes.aws.cloudwatch import CloudWatchFigures
from lanes.operate.figures import LaneMinute
from tests.support.operating import STACK, make_deployment

NOW = datetime(2027, 1, 15, 8, 0, 30, tzinfo=UTC)
MINUTE = datetime(2027, 1, 15, 7, 59, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _aws():
    """Start with an empty account for each test."""
    with mock_aws():
        yield


def put(namespace, metric, value, at, **dimensions):
    """Put one figure."""
    named = [{"Name": name, "Value": one} for name, one in dimensions.items()]
    boto3.client("cloudwatch").put_metric_data(
        Namespace=namespace,
        MetricData=[{"MetricName": metric, "Timestamp": at, "Value": value, "Dimensions": named}],
    )


def test_each_minute_is_told_as_far_as_it_is_known():
    """The oldest first; what the consumer did not count was nothing, what SQS did not tell is unknown."""
    deployment = make_deployment(boto3.client)
    queue = deployment.queues["MAIN"].url.rpartition("/")[2]
    before = MINUTE - timedelta(minutes=1)
    put("AWS/SQS", "ApproximateNumberOfMessagesVisible", 40, before, QueueName=queue)
    put("AWS/SQS", "ApproximateNumberOfMessagesNotVisible", 10, before, QueueName=queue)
    for value in (2.0, 3.0):
        put("PriorityLanes", "YieldedMessages", value, MINUTE, lane="MAIN", service=STACK)
    put("PriorityLanes", "InversionTime", 250, MINUTE, lane="MAIN", service=STACK)
    put("PriorityLanes", "HandledMessages", 7, MINUTE, lane="MAIN", service="another")
    put("PriorityLanes", "HandledMessages", 9, MINUTE - timedelta(hours=2), lane="MAIN", service=STACK)

    history = CloudWatchFigures(
        deployment=deployment, client=boto3.client("cloudwatch"), service=lambda: STACK, now=lambda: NOW
    ).minutes(60)

    nothing = {"handled": 0.0, "failed": 0.0, "dead_lettered": 0.0}
    assert history == {
        "HIGH": [],
        "MEDIUM": [],
        "MAIN": [
            LaneMinute(at=before.timestamp(), waiting=40, in_flight=10, yields=0.0, inversion=0.0, **nothing),
            LaneMinute(at=MINUTE.timestamp(), yields=5.0, inversion=250.0, **nothing),
        ],
    }
