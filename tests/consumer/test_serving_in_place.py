"""Mappings with enough slots: an invocation serves what is more urgent itself, and rings start the others."""

import dataclasses

import pytest

from lanes import Consumer, LanesConfig
from lanes.bell import BODY, lane_rings
from lanes.testing import InMemoryLanes
from lanes.testing.table import MemoryPauses
from simulator.simulated_lanes import Pattern, SimulatedLanes
from tests.support.memory import IN_PLACE, World
from tests.support.scenario import Scenario


def ring(world, lane, count):
    """Send rings to a lane's own queue."""
    world.queues.ring(lane, lane_rings(count, world.clock.now))


def test_a_slot_serves_what_is_more_urgent_before_its_next_record():
    """Nothing yields."""
    scenario = Scenario(engine=IN_PLACE)
    for number in range(3):
        scenario.send("MAIN", f"m{number}", group=f"m{number}")
    scenario.takes = 0.5
    scenario.in_handler = lambda message: message.id == "m0" and scenario.send("HIGH", "urgent")

    scenario.invoke("MAIN", scenario.world.receive("MAIN"))

    assert scenario.done == ["m0", "urgent", "m1", "m2"]
    assert scenario.world.recorder.counts["Yielded"] == 0


def test_a_slot_goes_on_with_any_lane_after_its_batch():
    """The most urgent first."""
    scenario = Scenario(engine=IN_PLACE)
    scenario.send("HIGH", "first")
    batch = scenario.world.receive("HIGH")
    for lane in ("MAIN", "MEDIUM", "HIGH"):
        scenario.send(lane, f"in {lane}", group=lane)

    scenario.invoke("HIGH", batch)

    assert scenario.done == ["first", "in HIGH", "in MEDIUM", "in MAIN"]


@pytest.mark.parametrize("raw_handler", [False, True])
@pytest.mark.parametrize("way", ["a mapping's batch", "a look"])
def test_a_ring_is_nobodys_message(raw_handler, way):
    """It has no attempt, no entry and no event, and no handler sees it."""
    world, bodies = World(engine=IN_PLACE), []
    if raw_handler:
        world.consumer.raw_handler(lambda record: bodies.append(record.body))
    ring(world, "HIGH" if way == "a look" else "MAIN", 1)
    if way == "a look":
        world.consumer.handler("work")(lambda _message: None)
        world.send("MAIN")

    world.step("MAIN")

    assert bodies == []
    assert not any(
        queue.counts().not_visible + queue.counts().visible for queue in world.queues.live.values()
    )
    assert not any(queue.counts().visible for queue in world.queues.dead.values())
    assert [name for name, _ in world.recorder.events] == (["message_handled"] if way == "a look" else [])
    assert world.ledger.entries == {}


def test_a_body_like_a_ring_in_another_group_is_a_message():
    """Only both together are a ring."""
    world, bodies = World(engine=IN_PLACE), []
    world.consumer.raw_handler(lambda record: bodies.append(record.body))
    world.send_body("MAIN", BODY, group="orders")

    world.step("MAIN")

    assert bodies == [BODY]


def test_each_ring_of_a_batch_starts_an_invocation():
    """A mapping hands over several at once."""
    world = World(engine=IN_PLACE)
    ring(world, "MAIN", 3)
    rings = world.receive("MAIN")
    world.calls.takes = lambda operation: (
        operation == "ReceiveMessage" and visible.append(world.queues.live["MAIN"].counts().visible)
    )
    visible = []

    kept = world.invoke("MAIN", rings)

    assert visible[0] == 2
    assert kept == {one.message_id for one in rings[1:]}


def test_messages_that_wait_start_the_mappings_of_lanes_without_any():
    """Each mapping alone can use its share of the slots only."""
    config = LanesConfig.from_dict({"consumer": {"reserved_concurrency": 10}})
    lanes = SimulatedLanes(config, pattern=Pattern.LANES)
    for number in range(600):
        lanes.send("MAIN", group=f"m{number}", seconds=0.2)

    lanes.run(seconds=15)

    assert lanes.settle(within=5)
    assert lanes.slot_watch.excess == 0


def test_a_paused_lane_is_served_by_no_slot():
    """Neither by those of other mappings, nor by its own, which a deploy may have enabled again."""
    world, done = World(engine=IN_PLACE), []
    pauses = MemoryPauses(world.calls)
    pauses.pause("MAIN")
    consumer = Consumer(dataclasses.replace(world.consumer._runtime, pauses=pauses))
    consumer.handler("work")(lambda message: done.append(message.data))
    world.send("HIGH", data="high")
    world.send("MAIN", data="main", group="one")

    world.step("HIGH", consumer=consumer)
    world.step("MAIN", consumer=consumer)

    assert done == ["high"]
    assert world.queues.live["MAIN"].counts().not_visible == 1
    pauses.resume("MAIN")
    world.clock.advance(70)
    world.step("HIGH", consumer=consumer)
    world.step("MAIN", consumer=consumer)
    assert done == ["high", "main"]


def test_lanes_in_memory_serve_in_place():
    """A run ends, and rings are in no list."""
    consumer = Consumer()
    consumer.handler("work")(lambda _message: None)
    lanes = InMemoryLanes(consumer, config=LanesConfig.from_dict({"consumer": {"reserved_concurrency": 6}}))
    for number in range(60):
        lanes.producer.send("work", {}, priority=(-100, 0, 50)[number % 3], group=str(number))

    lanes.run_until_idle()

    lanes.assert_nothing_waiting()
    assert len(lanes.journal.handled) == len(lanes.journal.sent) == 60
