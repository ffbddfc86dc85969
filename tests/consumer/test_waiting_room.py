"""The waiting room from the consumer's side: no slot, no work; no loss and no attempt for having waited."""

import dataclasses

import pytest

from lanes.config import LanesConfig
from lanes.consumer.slots import Occupation
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


@pytest.mark.parametrize(("since", "served_after"), [(5.0, 0.5), (-5.0, TIMEOUT / 3)])
def test_of_two_overdue_batches_in_line_the_one_that_waits_longer_goes_first(since, served_after):
    """And not neither, because each of them sees the other."""
    raw = {
        "consumer": {"waiting_room": True},
        "lanes": [{"name": "HIGH", "threshold": 0}, {"name": "MAIN", "max_wait": 60}],
    }
    story = Story(raw)
    now = story.world.clock.now
    line = Occupation(environment="other", lane="MAIN", records=1, busy=False, until=now + 300)
    story.world.register.lines["other"] = dataclasses.replace(line, waiting_since=now + 60 + since, rank=-1)
    story.send("MAIN", "mine")
    story.world.clock.advance(60.1)

    began = story.world.clock.now
    story.step("MAIN")

    assert (story.done == ["mine"]) == (served_after < 1)
    assert story.world.clock.now - began <= served_after + 1


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


def left_by_a_full_batch(*, lane="HIGH", groups=1, takes=0.2):
    """One slot that ten records of a lane have just left, with others behind them and some of MAIN in their queue."""
    story = Story(ROOM, environments=2)
    for number in range(20):
        story.send(lane, f"{lane}-{number}", group=f"g{number % groups}")
    story.send("MAIN", "below", group="other")
    story.takes = takes
    story.step(lane, environment=0)
    assert len(story.done) == 10
    return story


def waited(story, lane):
    """Return for how many seconds the next record of a lane waits for the slot."""
    began = story.world.clock.now
    story.step(lane, 1, environment=1)
    return story.starts[-1].at - began


def test_the_slot_of_a_full_batch_of_one_group_stays_with_its_lane_for_a_moment():
    """Until the next batch of the group has been received; a lower lane would make way again after one record."""
    assert 0.09 <= waited(left_by_a_full_batch(), "MAIN") <= 0.25


def test_the_next_batch_of_that_lane_takes_it_at_once():
    """The place was kept for it."""
    assert waited(left_by_a_full_batch(), "HIGH") < 0.05


@pytest.mark.parametrize(
    "left",
    [{"takes": 0.05}, {"groups": 20}, {"lane": "MAIN"}],
    ids=["short batch", "several groups", "last lane"],
)
def test_elsewhere_the_slot_is_anybodys_at_once(left):
    """A short batch is not worth the time, of several groups the rest isn't blocked, and below MAIN there is nobody."""
    story = left_by_a_full_batch(**left)

    assert waited(story, "MAIN") < 0.05


def test_a_batch_that_is_expected_makes_nobody_yield():
    """It is not there yet: a lower lane's batch that is at work goes on."""
    story = Story(ROOM | {"consumer": {"waiting_room": True, "reserved_concurrency": 2}}, environments=2)
    for number in range(10):
        story.send("HIGH", f"high-{number}")
    for number in range(10):
        story.send("MAIN", f"main-{number}", group=f"m{number}")
    story.takes = 0.2
    story.step("HIGH", environment=0)
    story.takes = 0.01

    story.step("MAIN", environment=1)

    assert len(story.done) == 20
    assert story.starts[-1].at - story.starts[10].at < 0.2
