"""Figures and the function's log, as moto plays CloudWatch."""

from datetime import UTC, datetime, timedelta

import boto3
import pytest
from moto import mock_aws

from lanes.aws.cloudwatch import CloudWatchFigures, LogCalls
from lanes.errors import AwsError
from lanes.operate.figures import LaneMinute
from tests.support.operating import STACK, make_deployment

GROUP = "/aws/lambda/f"


@pytest.fixture
def client():
    """CloudWatch Logs with one group of two streams."""
    with mock_aws():
        client = boto3.client("logs", region_name="eu-central-1")
        client.create_log_group(logGroupName=GROUP)
        for stream in ("a", "b"):
            client.create_log_stream(logGroupName=GROUP, logStreamName=stream)
        yield client


@pytest.fixture
def now():
    """A time that CloudWatch takes events of: not older than 14 days."""
    import time

    return float(int(time.time()) - 60)


def put(client, stream, *events):
    client.put_log_events(
        logGroupName=GROUP,
        logStreamName=stream,
        logEvents=[{"timestamp": int(at * 1000), "message": text} for at, text in events],
    )


def texts(lines):
    return sorted(line.text for line in lines)


def test_lines_of_all_streams_within_a_time(client, now):
    """With the ids by which they can be told apart, to the millisecond."""
    put(client, "a", (now, "one"), (now + 5, "two"))
    put(client, "b", (now + 1.5, "three"))
    logs = LogCalls(client=client, group=GROUP)

    lines = list(logs.lines(since=now + 1, until=now + 5))

    assert texts(lines) == ["three", "two"]
    assert len({line.id for line in lines}) == 2
    assert {line.at for line in lines} == {now + 1.5, now + 5}


@pytest.mark.parametrize("wanted", ["order-7", 'x "quoted" order-7', "órder-7", "a\\b"])
def test_at_least_the_lines_that_contain_a_text(client, now, wanted):
    """What a pattern can't hold is left out of it, and never makes it match less."""
    put(client, "a", (now, f"this has {wanted} in it"), (now, "this has not"))
    logs = LogCalls(client=client, group=GROUP)

    assert f"this has {wanted} in it" in texts(logs.lines(since=now - 1, containing=[wanted]))


def test_other_lines_are_left_to_cloudwatch(client, now):
    """They are not even sent."""
    put(client, "a", (now, "this has order-7 in it"), (now, "this has not"))

    assert texts(LogCalls(client=client, group=GROUP).lines(since=now - 1, containing=["order-7"])) == [
        "this has order-7 in it"
    ]


def test_all_pages_are_read(client, now):
    """CloudWatch gives 10,000 at a time."""
    for start in range(0, 10_500, 500):
        put(client, "a", *[(now, f"line {start + number}") for number in range(500)])

    assert len(texts(LogCalls(client=client, group=GROUP).lines(since=now - 1))) == 10_500


def test_a_group_that_does_not_exist_is_an_error_that_says_so(client):
    """Not an empty log."""
    with pytest.raises(AwsError, match="ResourceNotFoundException"):
        list(LogCalls(client=client, group="/aws/lambda/other").lines(since=0))


def test_lines_without_an_event_id_are_told_apart(client, now, monkeypatch):
    """Some emulations of CloudWatch leave the id out; the same line has the same id at each reading."""
    put(client, "a", (now, "one"), (now, "two"), (now + 1, "one"))
    put(client, "b", (now, "one"))
    whole = client.filter_log_events(logGroupName=GROUP)
    for event in whole["events"]:
        del event["eventId"]

    class Pages:
        def paginate(self, **_request):
            return [whole]

    monkeypatch.setattr(client, "get_paginator", lambda _name: Pages())
    logs = LogCalls(client=client, group=GROUP)

    first, second = ([line.id for line in logs.lines(since=now)] for _ in range(2))

    assert len(set(first)) == 4
    assert first == second


NOW = datetime(2027, 1, 15, 8, 0, 30, tzinfo=UTC)
MINUTE = datetime(2027, 1, 15, 7, 59, tzinfo=UTC)


def put_figure(namespace, metric, value, at, **dimensions):
    """Put one figure."""
    named = [{"Name": name, "Value": one} for name, one in dimensions.items()]
    boto3.client("cloudwatch").put_metric_data(
        Namespace=namespace,
        MetricData=[{"MetricName": metric, "Timestamp": at, "Value": value, "Dimensions": named}],
    )


@mock_aws
def test_each_minute_is_told_as_far_as_it_is_known():
    """The oldest first; what the consumer did not count was nothing, what SQS did not tell is unknown."""
    deployment = make_deployment(boto3.client)
    queue = deployment.queues["MAIN"].url.rpartition("/")[2]
    before = MINUTE - timedelta(minutes=1)
    put_figure("AWS/SQS", "ApproximateNumberOfMessagesVisible", 40, before, QueueName=queue)
    put_figure("AWS/SQS", "ApproximateNumberOfMessagesNotVisible", 10, before, QueueName=queue)
    for value in (2.0, 3.0):
        put_figure("PriorityLanes", "YieldedMessages", value, MINUTE, lane="MAIN", service=STACK)
    put_figure("PriorityLanes", "InversionTime", 250, MINUTE, lane="MAIN", service=STACK)
    put_figure("PriorityLanes", "HandledMessages", 7, MINUTE, lane="MAIN", service="another")
    put_figure("PriorityLanes", "HandledMessages", 9, MINUTE - timedelta(hours=2), lane="MAIN", service=STACK)

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
