"""The mapped engine: events of its lanes, and those that an earlier deployment left behind."""

import pytest

from lanes.bell import BODY
from lanes.errors import ConfigurationError
from lanes.metrics import Metric
from lanes.testing.function import InvocationContext, sqs_event
from tests.support.memory import World
from tests.support.scenario import Scenario


def ring_event(*bodies):
    """Return an event of the bell."""
    world = World()
    for number, body in enumerate(bodies):
        world.send_body("MAIN", body, group=f"slot-{number}")
    return sqs_event("bell", world.receive("MAIN"))


def test_a_ring_that_comes_after_a_change_to_mappings_is_let_go():
    """No slot waits for it, and each error would bring it back."""
    assert World().consumer.handle(ring_event(BODY, BODY), None) == {"batchItemFailures": []}


@pytest.mark.parametrize("bodies", [("order",), (BODY, "order"), ("order", BODY)])
def test_records_of_an_unknown_queue_are_kept(bodies):
    """Only rings may be let go."""
    world, event = World(), ring_event(*bodies)

    with pytest.raises(ConfigurationError, match="is not a lane"):
        world.consumer.handle(event, None)


@pytest.mark.parametrize("engine", ["mappings", "pull"])
def test_a_batch_of_a_lane_that_this_version_does_not_know_returns(engine):
    """A mapping of the other version may deliver during a deploy. The log names its queue, and the alarm counts it."""
    world = World({"consumer": {"engine": engine}})
    for number in range(3):
        world.send("MAIN", data=number)
    event = sqs_event("GONE", world.receive("MAIN"))

    with pytest.raises(ConfigurationError, match=r"GONE.* is not a lane"):
        world.consumer.handle(event, InvocationContext(world.clock, seconds=30, request="r"))

    ((name, fields),) = world.recorder.problems
    assert (name, fields["records"], len(fields["messages"])) == ("lane_unknown", 3, 3)
    assert "GONE.fifo" in fields["queue"]
    assert world.recorder.counts["ConsumerCallErrors"] == 1


def test_the_time_of_a_batch_is_reported_in_milliseconds():
    """From its event to its answer."""
    scenario = Scenario()
    scenario.takes = 0.25
    scenario.send("MAIN", "a")
    scenario.send("MAIN", "b")

    scenario.step("MAIN")

    assert scenario.world.recorder.durations[Metric.BATCH] == [pytest.approx(500.0)]
