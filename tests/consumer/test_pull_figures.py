"""The figures that a slot of the pull engine reports, and when."""

import dataclasses

import pytest

from lanes.config.deployment import Deployment
from lanes.consumer import Consumer
from lanes.consumer.runtime import Runtime
from lanes.consumer.telemetry import REPORTS_EVERY
from lanes.testing.calls import InLine
from lanes.testing.fifo.queue import FifoQueue
from lanes.testing.function import InvocationContext, sqs_event
from tests.support.memory import Recorder, World


class Reports(Recorder):
    """Telemetry that keeps the lanes of the reports with figures."""

    def __init__(self):
        super().__init__()
        self.reports = []

    def begin(self, lane, context):
        self.lane, self.before = lane, self.counts.total()

    def end(self):
        if self.counts.total() > self.before:
            self.reports.append(self.lane)


@pytest.fixture
def world():
    """Return lanes of the pull engine."""
    return World({"consumer": {"engine": "pull", "linger": "0s", "function_timeout": "15m"}})


def rung(world, handler):
    """Run one invocation that a ring starts; return its telemetry."""
    bell = FifoQueue(world.clock, name="bell")
    bell.send("ring", group="slot-0", deduplication_id="1")
    fields = {
        field.name: getattr(world.deployment, field.name) for field in dataclasses.fields(world.deployment)
    }
    deployment = Deployment(**{**fields, "bell": "https://sqs/1/bell.fifo"})
    telemetry = Reports()
    consumer = Consumer(
        Runtime(
            deployment=deployment,
            queues=world.queues,
            ledger=world.ledger,
            telemetry=telemetry,
            beside=InLine(),
            clock=world.clock,
        )
    )
    consumer.handler("work")(handler)
    event = sqs_event("bell", bell.receive(1))
    consumer.handle(event, InvocationContext(world.clock, seconds=900, request="r"))
    return telemetry


def test_each_batch_reports_its_own_time(world):
    """Without the time of the batch for which it was set aside."""
    for number in range(2):
        world.send("MAIN", group=f"g{number}", data={"seconds": 2})

    def work(message):
        world.clock.advance(message.data["seconds"])
        if message.group == "g0":
            world.send("HIGH", group="urgent", data={"seconds": 1})

    telemetry = rung(world, work)

    assert telemetry.durations["BatchTime"] == [1000.0, 4000.0]
    assert telemetry.reports == ["MAIN", "HIGH", "MAIN"]


def test_a_long_invocation_reports_as_it_works(world):
    """An alarm on a lane that handles nothing must not wait for its end."""
    for number in range(30):
        world.send("MAIN", group=f"g{number}")

    telemetry = rung(world, lambda _message: world.clock.advance(REPORTS_EVERY / 10))

    assert telemetry.counts["HandledMessages"] == 30
    assert telemetry.reports == ["MAIN"] * 3
