"""What queues and functions tell CloudWatch on this machine."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from moto.cloudwatch.models import CloudWatchBackend

from lanes.testing.fifo.queue import FifoQueue
from local.deployed import make_client
from local.figures import Figures, read_narrowly, tell_lines, tell_queues
from local.server import AwsServer

AT = 1_790_000_040.0
MINUTE = datetime.fromtimestamp(AT, UTC)
LANE = {"lane": "MAIN", "service": "orders"}


@pytest.fixture
def backend():
    """CloudWatch of one account and region, with nothing in it."""
    return CloudWatchBackend("eu-central-1", "123456789012")


@pytest.fixture
def figures(backend):
    """Figures that go there."""
    return Figures(backend)


def emf(*, at, **metrics):
    """Write a line as the consumer does."""
    named = [{"Name": name, "Unit": "Count"} for name in metrics]
    directive = {"Namespace": "PriorityLanes", "Dimensions": [["lane", "service"]], "Metrics": named}
    note = {"Timestamp": int(at * 1000), "CloudWatchMetrics": [directive]}
    return json.dumps({"_aws": note, **LANE, **metrics})


def query(name, statistic, *, namespace="PriorityLanes", dimensions=LANE):
    """Ask for a metric minute by minute."""
    named = [{"Name": key, "Value": value} for key, value in dimensions.items()]
    metric = {"Namespace": namespace, "MetricName": name, "Dimensions": named}
    return {"Id": "q", "MetricStat": {"Metric": metric, "Period": 60, "Stat": statistic}}


def read(backend, *queries):
    """Read an hour around the time of the tests, as moto keeps times."""
    start = MINUTE.replace(tzinfo=None)
    narrowly = read_narrowly(CloudWatchBackend.get_metric_data)
    found = narrowly(backend, list(queries), start - timedelta(minutes=30), start + timedelta(minutes=30))
    return [one["values"] for one in found]


def test_the_lines_of_a_minute_are_one_figure(backend, figures):
    """With the sum of all values and their number, which is how many lines had one; the next minute has its own."""
    tell_lines(
        figures, [emf(at=AT, Handled=[3.0]), emf(at=AT + 19, Handled=[4.0]), emf(at=AT + 60, Handled=5)]
    )

    sums, numbers, most = read(
        backend, query("Handled", "Sum"), query("Handled", "SampleCount"), query("Handled", "Maximum")
    )

    assert (sums, numbers, most) == ([7.0, 5.0], [2.0, 1.0], [4.0, 5.0])


@pytest.mark.parametrize(
    "line",
    [
        "plain words",
        'broken { "_aws"',
        '["_aws"]',
        '{"_aws": null}',
        '{"_aws": {"Timestamp": "now", "CloudWatchMetrics": []}}',
        '{"_aws": {"Timestamp": 1, "CloudWatchMetrics": [{"Namespace": "N", "Dimensions": [["a"]], "Metrics": []}]}}',
    ],
)
def test_a_line_without_metrics_is_a_line_and_nothing_more(backend, figures, line):
    """Whatever a function prints, those after it are read."""
    tell_lines(figures, [line, emf(at=AT, Handled=[1.0])])

    assert [datum.name for datum in backend.metric_data] == ["Handled"]


def test_metrics_of_other_dimensions_and_namespaces_are_told_apart(backend, figures):
    """A query gets its own metric alone."""
    figures.add("A", "Sent", {"QueueName": "one"}, [1.0], at=AT)
    figures.add("A", "Sent", {"QueueName": "two"}, [2.0], at=AT)
    figures.add("B", "Sent", {"QueueName": "one"}, [4.0], at=AT)

    one = query("Sent", "Sum", namespace="A", dimensions={"QueueName": "one"})
    other = query("Sent", "Sum", namespace="B", dimensions={"QueueName": "one"})

    assert read(backend, one, other) == [[1.0], [4.0]]


def test_figures_of_more_than_three_hours_ago_are_dropped(backend, figures):
    """What a long run holds stays small."""
    for minute in range(400):
        figures.add("A", "Sent", {}, [1.0], at=AT + 60 * minute)

    assert len(backend.metric_data) == 181
    assert backend.metric_data[-1].timestamp - backend.metric_data[0].timestamp == timedelta(hours=3)


def test_a_queue_tells_what_it_holds_each_time(backend, figures):
    """What a queue says of itself becomes figures under its name."""

    class Queue:
        def take_figures(self):
            return {"ApproximateNumberOfMessagesVisible": 3, "ApproximateAgeOfOldestMessage": 12.5}

    tell_queues(figures, [("MAIN.fifo", Queue())], at=AT)

    asked = {"namespace": "AWS/SQS", "dimensions": {"QueueName": "MAIN.fifo"}}
    visible = query("ApproximateNumberOfMessagesVisible", "Average", **asked)
    age = query("ApproximateAgeOfOldestMessage", "Maximum", **asked)
    assert read(backend, visible, age) == [[3.0], [12.5]]


def test_the_oldest_message_of_a_queue_is_that_sent_first():
    """In flight or not; an empty queue has none."""
    now = [100.0]
    queue = FifoQueue(lambda: now[0])
    assert queue.oldest_sent_at() is None

    queue.send("a", group="g", deduplication_id="1")
    now[0] = 110.0
    queue.send("b", group="h", deduplication_id="2")
    (first,) = queue.receive(1)

    assert queue.oldest_sent_at() == 100.0
    queue.delete(first.receipt_handle)
    assert queue.oldest_sent_at() == 110.0


def test_a_server_that_tells_figures_makes_them_of_log_lines(tmp_path):
    """Put as Lambda puts them, and read as `lanes status` reads them."""
    now = datetime.now(UTC)
    with AwsServer(log_path=tmp_path / "server.log", figures=True) as server:
        logs = make_client("logs", server.endpoint_url)
        logs.create_log_group(logGroupName="/aws/lambda/orders")
        logs.create_log_stream(logGroupName="/aws/lambda/orders", logStreamName="one")
        event = {"timestamp": int(now.timestamp() * 1000), "message": emf(at=now.timestamp(), Handled=[2.0])}
        logs.put_log_events(logGroupName="/aws/lambda/orders", logStreamName="one", logEvents=[event])
        found = make_client("cloudwatch", server.endpoint_url).get_metric_data(
            MetricDataQueries=[query("Handled", "Sum")],
            StartTime=now - timedelta(minutes=10),
            EndTime=now + timedelta(minutes=10),
        )

    assert found["MetricDataResults"][0]["Values"] == [2.0]
