"""What X-Ray's daemon is sent of each message, and that nothing depends on it."""

import json
import os
import socket
import subprocess
import sys
from collections import Counter

import pytest

from lanes.aws.surroundings import _traced
from lanes.aws.tracing import _Subsegment
from lanes.config import LanesConfig, Tracing
from lanes.consumer.context import Yielded
from lanes.consumer.telemetry import Silence
from lanes.consumer.tracing import Untraced
from lanes.deployment import Deployment, LaneQueues
from lanes.errors import DeadLetter, Retry
from lanes.trace_context import TraceContext

INVOCATION = "1-5759e988-bd862e3fe1be46a994272793"
FUNCTION = "53995c3f42cd8ad8"
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
COMMAND = [sys.executable, "-m", "tests.support.traced_consumer", TRACEPARENT]


def traced(**variables):
    """Run the traced consumer with some variables of Lambda, and give what it printed and said."""
    environ = {
        key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "LAMBDA_", "_X_"))
    }
    done = subprocess.run(COMMAND, env={**environ, **variables}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


@pytest.fixture(scope="module")
def recorded():
    """Give what handlers saw, and the subsegments that a daemon got: of runs by the message's id, others by name."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as daemon:
        daemon.bind(("127.0.0.1", 0))
        daemon.setblocking(False)
        seen, said = traced(
            LAMBDA_TASK_ROOT="/var/task",
            _X_AMZN_TRACE_ID=f"Root={INVOCATION};Parent={FUNCTION};Sampled=1",
            AWS_XRAY_DAEMON_ADDRESS=f"127.0.0.1:{daemon.getsockname()[1]}",
        )
        documents = [json.loads(line) for line in datagrams(daemon)]
    assert not said
    runs = {one["annotations"]["id"]: one for one in documents if one["name"] == "order.placed"}
    return seen, runs, {one["name"]: one for one in documents if one["name"] != "order.placed"}


def datagrams(daemon):
    """Give the second line of whatever has arrived; the first one names the format."""
    while True:
        try:
            yield daemon.recv(65_536).decode().splitlines()[1]
        except BlockingIOError:
            return


def test_each_run_of_a_handler_has_a_subsegment_that_says_what_came_of_it(recorded):
    """Named after the kind, in the invocation's trace; what belongs to the message can be searched for."""
    _, runs, _ = recorded

    assert {key: one["annotations"]["outcome"] for key, one in runs.items()} == {
        "traced": "handled",
        "untraced": "handled",
        "retry": "retry",
        "hopeless": "dead_letter",
        "bad": "failed",
    }
    annotations = runs["traced"]["annotations"]
    assert (annotations["lane"], annotations["group"], annotations["attempt"]) == ("HIGH", "traced", 1)
    assert (annotations["cause"], annotations["trace_id"]) == ("first", TRACEPARENT.split("-")[1])
    assert annotations["message_id"]
    assert {(one["trace_id"], one["parent_id"]) for one in runs.values()} == {(INVOCATION, FUNCTION)}


def test_faults_are_marked_as_such_and_what_was_asked_for_is_not(recorded):
    """The map of services turns red where a handler failed."""
    _, runs, others = recorded

    assert {key for key, one in runs.items() if one.get("fault")} == {"hopeless", "bad"}
    assert {key for key, one in runs.items() if one.get("error")} == {"retry"}
    assert not any(one.get("fault") or one.get("error") for one in others.values())
    assert runs["bad"]["cause"]["exceptions"][0]["message"] == "wrong"


def test_yields_and_dead_letters_can_be_seen(recorded):
    """By subsegments of their own: no handler ran, or it has ended."""
    _, _, others = recorded

    yielded = others["yielded"]["annotations"]
    assert (yielded["lane"], yielded["to_lane"], yielded["records"]) == ("MAIN", "HIGH", 1)
    assert others["yielded"]["metadata"]["default"]["messages"][0]["id"] == "low"
    assert others["dead-lettered"]["annotations"]["reason"] == "no"


def test_the_subsegment_is_the_parent_of_what_the_handler_sends(recorded):
    """In the message's own trace where it has one, else in that of the invocation."""
    seen, runs, _ = recorded

    for message, trace_id in (
        ("traced", TRACEPARENT.split("-")[1]),
        ("untraced", INVOCATION[2:].replace("-", "")),
    ):
        mine, sent = seen["places"][message]
        assert mine == sent
        trace = TraceContext.parse(mine)
        assert (trace.trace_id, trace.span_id) == (trace_id, runs[message]["id"])


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"LAMBDA_TASK_ROOT": "/var/task"},
        {"LAMBDA_TASK_ROOT": "/var/task", "_X_AMZN_TRACE_ID": "nonsense"},
        {
            "LAMBDA_TASK_ROOT": "/var/task",
            "_X_AMZN_TRACE_ID": f"Root={INVOCATION};Parent={FUNCTION};Sampled=0",
        },
        {
            "LAMBDA_TASK_ROOT": "/var/task",
            "_X_AMZN_TRACE_ID": f"Root={INVOCATION};Parent={FUNCTION};Sampled=1",
            "AWS_XRAY_DAEMON_ADDRESS": "127.0.0.1:9",
        },
    ],
    ids=["outside of Lambda", "no header", "a broken header", "not sampled", "no daemon"],
)
def test_messages_are_handled_whatever_becomes_of_the_trace(variables):
    """And their own trace goes on."""
    seen, _ = traced(**variables)

    mine, sent = seen["places"]["traced"]
    assert mine == sent
    assert TraceContext.parse(mine).trace_id == TRACEPARENT.split("-")[1]
    told = Counter(event for event in seen["events"] if event.startswith("message_"))
    assert told == {"message_handled": 2, "message_failed": 2, "message_dead_lettered": 1}


class Broken:
    """A recorder, or its subsegment, of which nothing works."""

    sampled = False

    def __getattr__(self, name):
        raise RuntimeError(f"{name} is broken")


class HalfBroken:
    """A recorder that begins a subsegment, and nothing more."""

    def begin_subsegment(self, name):
        return Broken()


@pytest.mark.parametrize("recorder", [Broken(), HalfBroken()], ids=["all of it", "its subsegments"])
def test_a_recorder_that_breaks_costs_no_message(recorder, caplog):
    """Each step says so in the log and goes on; the message's own trace does too."""
    segment = _Subsegment(recorder)
    segment.begin("order.placed")
    segment.annotate(lane="HIGH")
    for error in (ValueError("no"), Retry(reason="busy"), DeadLetter("no"), Yielded()):
        segment.failed(error)
    segment.end()

    assert segment.place_in(None) is None
    assert segment.place_in(TraceContext.parse(TRACEPARENT)).trace_id == TRACEPARENT.split("-")[1]
    assert {record.message for record in caplog.records} == {"a trace could not be recorded"}


def test_a_function_without_the_tracers_library_handles_messages_untraced(monkeypatch, caplog):
    """Somebody's own bundling may have left it out."""
    monkeypatch.setitem(sys.modules, "lanes.aws.tracing", None)

    _, tracing = _traced(Silence(), Tracing.XRAY)

    assert isinstance(tracing, Untraced)
    assert "the function has no aws-xray-sdk" in caplog.text


def loaded_with(tracing):
    """Give the packages that a deployed consumer has loaded when it is ready for its first event."""
    deployment = Deployment(
        config=LanesConfig.from_dict({"consumer": {"tracing": tracing}}),
        queues={
            name: LaneQueues(
                url=f"https://sqs/1/{name}.fifo", dead_letter_url=f"https://sqs/1/{name}-dead.fifo"
            )
            for name in ("HIGH", "MEDIUM", "MAIN")
        },
        table="ledger",
    )
    code = (
        "import sys; from lambdas.consumer import handler; from lanes.aws.surroundings import surroundings_from_env; "
        "surroundings_from_env(); print(*sys.modules)"
    )
    variables = {
        "LANES_DEPLOYMENT": deployment.to_json(),
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
    }
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_the_tracer_is_loaded_only_where_tracing_is_on():
    """It takes longer than all the rest of the consumer; so do the event types, which are loaded on demand."""
    heavy = {"aws_xray_sdk", "wrapt", "aws_lambda_powertools.utilities.data_classes", "opentelemetry"}

    assert not loaded_with("off") & heavy
    assert {"aws_xray_sdk", "wrapt"} <= loaded_with("xray")
