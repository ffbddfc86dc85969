"""The tracing examples record what they say, with the libraries that they name."""

import json
from contextlib import contextmanager

import pytest

from lanes import Producer
from lanes.producer import Pacing
from lanes.testing.clock import FakeClock
from tests.support.memory import World
from tests.support.sending import FakeSqs, make_deployment, queue_url

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


def deliver(example, data):
    """Send one traced order in memory and let the consumer of an example handle it."""
    world = World()
    world.consumer._handlers = example.consumer._handlers
    sqs, clock = FakeSqs(), FakeClock()
    producer = Producer(
        deployment=make_deployment(), sqs=sqs, pacing=Pacing(clock=clock, pause=clock.advance)
    )
    producer.send("order.placed", data, traceparent=TRACEPARENT)
    (entry,) = sqs.queues[queue_url("MEDIUM")]
    world.send_body("MEDIUM", entry.body, group=entry.message_group_id)
    assert world.step("MEDIUM") == set()


class Recorder:
    """Takes the place of X-Ray's recorder and keeps the subsegments."""

    def __init__(self):
        self.subsegments = []

    @contextmanager
    def in_subsegment(self, name):
        self.subsegments.append((name, {}))
        yield self

    def put_annotation(self, key, value):
        self.subsegments[-1][1][key] = value


def test_powertools_records_the_handler_with_its_annotations(monkeypatch):
    """Among them the trace of the message, since X-Ray's own trace is that of the invocation."""
    pytest.importorskip("aws_xray_sdk")
    from examples.tracing import with_powertools as example

    recorder = Recorder()
    monkeypatch.setattr(example.tracer, "provider", recorder)
    monkeypatch.setattr(example.tracer, "disabled", False)

    deliver(example, {"order": 7})

    ((name, annotations),) = recorder.subsegments
    assert name.endswith("place_order")
    assert (annotations["lane"], annotations["attempt"]) == ("MEDIUM", 1)
    assert annotations["traceparent"].split("-")[1] == TRACE
    assert example.RESERVED == [{"order": 7}]


def test_opentelemetry_continues_the_trace_of_the_message(monkeypatch):
    """Also in what the handler sends."""
    pytest.importorskip("opentelemetry")
    from examples.tracing import with_opentelemetry as example

    sent, clock = FakeSqs(), FakeClock()
    producer = Producer(
        deployment=make_deployment(), sqs=sent, pacing=Pacing(clock=clock, pause=clock.advance)
    )
    monkeypatch.setattr(example, "producer", lambda: producer)

    deliver(example, {"order": 7})

    (entry,) = sent.queues[queue_url("MEDIUM")]
    assert json.loads(entry.body)["traceparent"].split("-")[1] == TRACE
