"""The waiting room from the consumer's side: no slot, no work; no loss and no attempt for having waited."""

import pytest

from lanes.config import LanesConfig
from lanes.testing import InMemoryLanes
from tests.support.memory import aws_error
from tests.support.story import Story

TIMEOUT = 30.0
ROOM = {"consumer": {"waiting_room": True}}


@pytest.mark.parametrize("lane", ["HIGH", "MAIN"])
@pytest.mark.parametrize("after_effect", [False, True])
def test_where_the_register_fails_nothing_runs_and_nothing_is_lost(lane, after_effect):
    """Without an answer nobody knows whether the slot is one's own."""
    story = Story(ROOM)
    for number in range(3):
        story.send(lane, f"m{number}", group=f"g{number}")
    hook = "lose_if" if after_effect else "break_if"
    setattr(story.world.calls, hook, lambda operation, _: aws_error() if operation == "UpdateItem" else None)

    story.step(lane)
    assert story.starts == []
    setattr(story.world.calls, hook, lambda _operation, _: None)
    story.drain()

    assert [start.attempt for start in story.starts] == [1, 1, 1]
    story.check_kept()


def test_the_slot_of_a_crashed_invocation_stays_taken_as_long_as_it_might_run():
    """Nobody can tell a crash from a long record; then it is free."""
    story = Story(ROOM, environments=2)
    story.send("MAIN", "crashes", "crash", "ok", group="one")
    story.send("HIGH", "high", group="two")
    began = story.world.clock.now
    story.step("MAIN", environment=0)
    assert story.crashes == 1

    story.step("HIGH", environment=1)
    assert "high" not in story.done
    story.drain()

    (high,) = (start for start in story.starts if start.id == "high")
    assert TIMEOUT <= high.at - began <= TIMEOUT + 12
    story.check_kept()


@pytest.mark.parametrize(("lane", "yielded"), [("HIGH", 0), ("MAIN", 1)])
def test_who_waited_in_vain_goes_back_without_an_attempt(lane, yielded):
    """After a third of its time: lower lanes as for a yield, the highest at once."""
    story = Story(ROOM, environments=2)
    story.send("MEDIUM", "crashes", "crash", "ok")
    story.send(lane, "waits")
    story.step("MEDIUM", environment=0)
    began = story.world.clock.now

    story.step(lane, environment=1)

    assert TIMEOUT / 3 <= story.world.clock.now - began <= TIMEOUT / 3 + 1
    assert story.world.recorder.counts["YieldedMessages"] == yielded
    story.drain()
    assert next(start for start in story.starts if start.id == "waits").attempt == 1
    story.check_kept()


def test_a_slot_is_given_back_although_one_call_fails():
    """It is tried again, or nobody had the slot until the function timeout is over."""
    story = Story(ROOM, environments=2)
    story.send("MAIN", "first", group="one")
    story.send("MAIN", "second", group="two")
    story.break_once(lambda operation: operation == "UpdateItem" and bool(story.done), aws_error())

    story.step("MAIN", 1, environment=0)
    began = story.world.clock.now
    story.step("MAIN", 1, environment=1)

    assert story.done == ["first", "second"]
    assert story.world.clock.now - began < 1


def test_nobody_waits_until_there_is_no_time_left_for_a_record():
    """Records of 25 seconds in 30: a slot that comes after five is of no use."""
    raw = {"consumer": {"waiting_room": True, "record_time": 25}}
    story = Story(raw, environments=2)
    story.send("MEDIUM", "crashes", "crash", "ok")
    story.send("MAIN", "waits")
    story.step("MEDIUM", environment=0)
    began = story.world.clock.now

    story.step("MAIN", environment=1)

    assert story.world.clock.now - began <= 4.5


def test_no_queue_is_read():
    """Who waits stands in line; how many messages a queue may hold is nothing to go by."""
    story = Story(ROOM)
    for number in range(20):
        story.send("MAIN", f"m{number}", group=f"g{number}")
    story.send("HIGH", "in its queue")

    story.step("MAIN")

    assert len(story.done) == 10
    assert "GetQueueAttributes" not in story.world.calls.log


def test_lanes_in_memory_do_without():
    """There a test's only thread would wait for itself."""
    lanes = InMemoryLanes(config=LanesConfig.from_dict(ROOM))

    assert not lanes.config.has_waiting_room


def test_one_lane_of_many_slots_has_no_room_to_wait_in():
    """Where the mappings start no more than there are slots, nothing changes."""
    story = Story(
        {
            "consumer": {"waiting_room": True, "reserved_concurrency": 8},
            "lanes": [{"name": "ONLY", "maximum_concurrency": 8}],
        }
    )

    assert not story.world.config.has_waiting_room
    assert story.world.config.function_concurrency == 8


def test_lambda_may_run_what_all_mappings_start():
    """So it throttles none of them."""
    config = Story({"consumer": {"waiting_room": True, "reserved_concurrency": 3}}).world.config

    assert config.function_concurrency == sum(lane.maximum_concurrency for lane in config.lanes) == 12
    assert [note for note in config.notes() if "throttles" in note] == []
