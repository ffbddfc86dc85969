"""C1, C4, C8: a message that is done, and that SQS doesn't delete, is not handled again and not dead-lettered."""

import pytest

from lanes.config.settings import MAX_RECEIVES
from tests.support.memory import aws_error
from tests.support.overriding import Overridden
from tests.support.scenario import Scenario

HOURS = 2


def refusing(scenario, *operations):
    """Let calls fail."""
    scenario.world.calls.break_if = lambda name, _: aws_error(name) if name in operations else None


def let_pass(scenario, *, seconds):
    """Deliver the rings of the bell for some time."""
    world, until = scenario.world, scenario.world.clock.now + seconds
    while world.clock.now < until:
        before = world.requests
        scenario._alive(lambda: world.deliver(consumer=scenario.environments[0]), 0)
        world.clock.advance(0.02)
        if world.requests == before:
            world.clock.now = max(world.clock.now, world.bell.next_event_at() or 0.0)


@pytest.mark.parametrize("idempotency", [False, True])
@pytest.mark.parametrize("hides", [True, False], ids=["", "nor hidden"])
def test_a_message_that_can_not_be_deleted_is_handled_once(idempotency, hides):
    """A role without that right, or an outage: each record counts for the alarm, and the pauses grow."""
    scenario = Scenario({"consumer": {"idempotency": idempotency}}, engine="pull")
    refusing(scenario, "DeleteMessageBatch", *([] if hides else ["ChangeMessageVisibilityBatch"]))
    for number in range(5):
        scenario.send("MAIN", f"m{number}", group=f"g{number}")

    let_pass(scenario, seconds=3600 * HOURS)

    counts = scenario.world.recorder.counts
    assert sorted(scenario.done) == [f"m{number}" for number in range(5)]
    receives = [message.receive_count for message in scenario.world.queues.live["MAIN"]._store.messages()]
    assert len(receives) == 5
    assert counts["ConsumerCallErrors"] >= sum(receives)
    if hides:
        assert max(receives) < HOURS * 20 < MAX_RECEIVES
    refusing(scenario)
    scenario.drain()
    assert len(scenario.done) == 5
    scenario.check_kept()


def test_a_message_that_is_done_is_not_dead_lettered_for_a_count_that_was_not_taken_back():
    """Its attempt was written ahead; neither the write after it nor the deletion succeeded, and the process died."""
    scenario = Scenario({"consumer": {"max_attempts": 1}}, engine="pull")
    scenario.send("MAIN", "m")
    scenario.world.receive("MAIN")
    scenario.world.clock.advance(200)
    writes = []

    def break_if(name, _place):
        writes.append(name)
        in_outage = scenario.done and len([one for one in writes if one == "PutItem"]) <= 3
        return aws_error(name) if name == "DeleteMessageBatch" or (in_outage and name == "PutItem") else None

    scenario.world.calls.break_if = break_if
    scenario.step("MAIN")
    scenario.environments = [scenario._new_environment()]
    scenario.world.calls.break_if = lambda _name, _place: None

    scenario.drain()

    assert scenario.done == ["m"]
    assert scenario.dead() == {}
    scenario.check_kept()


def test_an_override_does_not_move_a_message_that_is_done():
    """It would be handled again, in its new lane."""
    scenario = Overridden(engine="pull")
    refusing(scenario, "DeleteMessageBatch")
    scenario.send("MAIN", "m")
    scenario.step("MAIN")
    refusing(scenario)
    scenario.put("prioritize", ids=("m",), priority=50)

    scenario.drain()

    assert scenario.done == ["m"]
    assert scenario.world.recorder.counts["DuplicateMessages"] == 1
    scenario.check_kept()
