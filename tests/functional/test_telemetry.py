"""What the consumer prints: JSON lines with an event, and one object of metrics for each invocation."""

import dataclasses
import io
import json

import pytest

from lanes import Consumer
from lanes.aws.telemetry import MOST_VALUES, PowertoolsTelemetry
from lanes.errors import AwsError
from lanes.metrics import Metric
from lanes.testing.table import PAUSES_READ, MemoryPauses
from tests.support.memory import World, aws_error


class Context:
    aws_request_id = "request-7"


@pytest.fixture
def stream():
    """Return the stream that the telemetry writes to."""
    return io.BytesIO()


@pytest.fixture
def new_telemetry(stream):
    """Return a maker of telemetry."""
    environ = {"POWERTOOLS_METRICS_NAMESPACE": "PriorityLanes", "POWERTOOLS_SERVICE_NAME": "orders"}
    return lambda: PowertoolsTelemetry(environ=environ, stream=stream)


@pytest.fixture
def printed(stream):
    """Return the objects printed since the last call, each on a line of its own."""

    def take():
        lines = [json.loads(line) for line in stream.getvalue().splitlines()]
        stream.truncate(0)
        stream.seek(0)
        return lines

    return take


def metrics_of(lines):
    return [line for line in lines if "_aws" in line]


def test_an_empty_namespace_is_none(stream, printed):
    """CloudWatch drops metrics without one, and no alarm would ring."""
    telemetry = PowertoolsTelemetry(environ={"POWERTOOLS_METRICS_NAMESPACE": ""}, stream=stream)
    telemetry.begin("HIGH", Context())
    telemetry.count(Metric.HANDLED)
    telemetry.end()

    (metrics,) = metrics_of(printed())
    assert [one["Namespace"] for one in metrics["_aws"]["CloudWatchMetrics"]] == ["PriorityLanes"]


def test_problems_come_with_their_traceback(new_telemetry, printed):
    """As warnings: the consumer lives with them."""
    telemetry = new_telemetry()
    telemetry.begin("HIGH", Context())
    try:
        int("no")
    except ValueError:
        telemetry.problem("handler_failed", lane="HIGH", message_id="m")

    (line,) = printed()
    assert (line["event"], line["level"], line["message_id"]) == ("handler_failed", "WARNING", "m")
    assert line["correlation_id"] == "request-7"
    assert "ValueError: invalid literal" in line["exception"]


def test_a_problem_that_repeats_has_a_count_and_no_traceback(new_telemetry, printed):
    """The first one of the outage has had it."""
    try:
        raise aws_error()
    except AwsError:
        new_telemetry().problem("ledger_not_read", lane="HIGH", failures=2)

    (line,) = printed()
    assert (line["failures"], "exception" in line) == (2, False)


def test_an_invocation_has_one_object_of_metrics(new_telemetry, printed):
    """Counts are added up, durations are kept one by one, the lane is the dimension."""
    telemetry = new_telemetry()
    telemetry.begin("HIGH", Context())
    telemetry.count(Metric.HANDLED)
    telemetry.count(Metric.HANDLED, 2)
    telemetry.count("ReceivesFirst")
    telemetry.milliseconds(Metric.WAIT, 12.5)
    telemetry.milliseconds(Metric.WAIT, 7)
    telemetry.end()

    (found,) = printed()
    (directive,) = found["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "PriorityLanes"
    assert "lane" in directive["Dimensions"][0]
    assert found["lane"] == "HIGH"
    assert {metric["Name"]: metric["Unit"] for metric in directive["Metrics"]} == {
        "HandledMessages": "Count",
        "ReceivesFirst": "Count",
        "WaitTime": "Milliseconds",
    }
    assert (found["HandledMessages"], found["WaitTime"]) == ([3.0], [12.5, 7.0])


def test_an_invocation_without_figures_prints_none(new_telemetry, printed):
    """There is nothing to tell."""
    telemetry = new_telemetry()
    telemetry.begin("HIGH", Context())
    telemetry.end()

    assert printed() == []


@pytest.mark.parametrize("values", [99, 100, 101, 500])
def test_more_values_than_an_object_holds_are_in_the_next_one(new_telemetry, printed, values):
    """AWS: a metric has at most 100 values in one object."""
    telemetry = new_telemetry()
    telemetry.begin("HIGH", Context())
    for number in range(values):
        telemetry.milliseconds(Metric.DURATION, number)
    telemetry.count(Metric.HANDLED, values)
    telemetry.end()

    found = metrics_of(printed())
    assert sum(len(line.get("HandlerTime", [])) for line in found) == values
    assert [line["HandledMessages"] for line in found if "HandledMessages" in line] == [[float(values)]]
    assert len(found) == -(-values // MOST_VALUES)


def test_a_whole_invocation_prints_lines_that_can_be_read(new_telemetry, printed):
    """Handled, failed, dead-lettered, yielded: every line is JSON, each event is named."""
    telemetry = new_telemetry()
    world = World({"consumer": {"max_attempts": 1}})
    world.recorder = telemetry
    consumer = world.environment()

    @consumer.handler("work")
    def work(message):
        if message.data == "bad":
            raise ValueError("größer \x00")

    world.send("HIGH", group="one")
    world.send("HIGH", group="two", data="bad")
    world.send("MAIN")
    world.step("MAIN", consumer=consumer)
    world.step("HIGH", consumer=consumer)

    lines = printed()
    assert [line["lane"] for line in metrics_of(lines)] == ["MAIN", "HIGH"]
    events = [line["event"] for line in lines if "_aws" not in line]
    assert {"batch_yielded", "message_handled", "message_dead_lettered", "handler_failed"} <= set(events)


@pytest.mark.parametrize(
    ("call", "event", "sent"),
    [
        (PAUSES_READ, "pauses_not_read", 0),
        (PAUSES_READ, "pauses_not_read", 3),
        ("ReceiveMessage", "lane_not_received", 3),
        ("SendMessageBatch", "bell_not_rung", 0),
        ("SendMessageBatch", "bell_not_rung", 30),
        ("ChangeMessageVisibility", "bell_not_returned", 0),
    ],
)
def test_each_failed_call_of_a_slot_is_counted_in_its_invocation(new_telemetry, printed, call, event, sent):
    """Also one before the first batch or after the last: an alarm watches the count, you look for the request id."""
    lanes = [{"name": "HIGH", "threshold": 50}, {"name": "MAIN", "maximum_concurrency": 2}]
    world = World({"consumer": {"reserved_concurrency": 3}, "lanes": lanes}, engine="pull")
    pauses = MemoryPauses(world.calls)
    runtime = dataclasses.replace(world.consumer._runtime, telemetry=new_telemetry(), pauses=pauses)
    consumer = Consumer(runtime)
    consumer.handler("work")(lambda _message: world.clock.advance(1))
    world.step("HIGH", consumer=consumer)
    world.clock.advance(60)
    for number in range(sent):
        world.send("HIGH" if number % 3 else "MAIN", group=f"g{number}")
    printed()
    world.calls.break_if = lambda operation, _: aws_error() if operation == call else None

    world.ring(consumer=consumer)
    world.deliver(consumer=consumer)

    lines = printed()
    problems = [line for line in lines if line.get("event") == event]
    failed = sum(sum(line.get("ConsumerCallErrors", [])) for line in metrics_of(lines))
    # One line a minute of each lane and call.
    assert failed >= len(problems) == (2 if event == "lane_not_received" else 1)
    started = {f"request-{number}" for number in range(2, world.requests + 1)}
    assert {line["correlation_id"] for line in problems} <= started
