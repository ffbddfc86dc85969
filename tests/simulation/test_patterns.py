"""The patterns to compare with: the ideal is the bound that it claims, and the plain one is that of its author."""

from __future__ import annotations

import itertools
from random import Random

import pytest

from lanes.config import LanesConfig
from lanes.depth import LaneDepth
from simulator.patterns import IdealLanes, PlainConsumer
from simulator.simulated_lanes import Pattern, SimulatedLanes


def ideal(*, slots=1):
    return IdealLanes(LanesConfig.from_dict({"consumer": {"reserved_concurrency": slots}}))


def order(lanes):
    return [f"{one.lane}-{one.group}{one.number}" for one in lanes.handled]


def test_a_slot_takes_the_highest_lane_and_there_the_oldest_message():
    """All are sent at one moment, the lowest first."""
    lanes = ideal()
    for lane in ("MAIN", "MEDIUM", "HIGH"):
        for group in "ab":
            lanes.send(lane, group=group, seconds=1.0)
    lanes.run(seconds=6.0)

    assert order(lanes) == ["HIGH-a1", "HIGH-b1", "MEDIUM-a1", "MEDIUM-b1", "MAIN-a1", "MAIN-b1"]


def test_a_running_handler_is_not_interrupted():
    """The urgent message starts at its end."""
    lanes = ideal()
    lanes.send("MAIN", group="a", seconds=2.0)
    lanes.scheduler.after(0.5, lambda: lanes.send("HIGH", group="a", seconds=1.0))
    lanes.run(seconds=10.0)

    assert lanes.handled.waits("HIGH") == [1.5]


def test_groups_run_one_message_at_a_time_and_slots_side_by_side():
    """Three slots have work for two: the third message of the lane is behind its group."""
    lanes = ideal(slots=3)
    for group in "aab":
        lanes.send("MAIN", group=group, seconds=1.0)
    lanes.run(seconds=10.0)

    assert [(one.group, one.number) for one in lanes.handled] == [("a", 1), ("b", 1), ("a", 2)]
    assert lanes.handled.waits("MAIN") == [0.0, 0.0, 1.0]


def test_the_same_group_in_two_lanes_is_two_groups():
    """Order is promised within a lane."""
    lanes = ideal(slots=2)
    lanes.send("HIGH", group="a", seconds=1.0)
    lanes.send("MAIN", group="a", seconds=1.0)
    lanes.run(seconds=10.0)

    assert lanes.handled.waits("MAIN") == [0.0]


@pytest.mark.parametrize(
    ("one_queue", "expected"), [(False, ["HIGH", "MAIN", "MAIN"]), (True, ["MAIN", "MAIN", "HIGH"])]
)
def test_one_queue_for_all_lanes_keeps_the_order_of_sending(one_queue, expected):
    """The control of figures over a backlog: an urgent message waits for all that was sent before it."""
    lanes = IdealLanes(LanesConfig.from_dict({}), one_queue=one_queue)
    for lane in ("MAIN", "MAIN", "HIGH"):
        lanes.send(lane, group=f"{lane}{lanes.sent}", seconds=1.0)
    lanes.run(seconds=10.0)

    assert [one.lane for one in lanes.handled] == expected


def test_a_fault_is_refused():
    """The ideal of a load with failures is not defined."""
    with pytest.raises(ValueError, match="no faults"):
        ideal().send("MAIN", group="a", seconds=1.0, fault="always")


def load(lanes, *, seed, messages=200):
    """Send messages to all lanes at random times, and wait for all of them."""
    chance = Random(seed)
    for _ in range(messages):
        lane, group = chance.choice(("HIGH", "MEDIUM", "MAIN")), f"g{chance.randrange(12)}"
        lanes.scheduler.after(
            chance.uniform(0.0, 10.0),
            lambda lane=lane, group=group: lanes.send(lane, group=group, seconds=0.1),
        )
    assert lanes.run(seconds=600.0, until=lambda: len(lanes.handled) == messages)
    return lanes


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("slots", [1, 3])
def test_no_slot_is_free_while_a_group_could_start(slots, seed):
    """All of the work is done in the shortest time: at one slot the sum of the handlers' times."""
    lanes = load(ideal(slots=slots), seed=seed)
    running = sorted(
        [(one.started_at, 1) for one in lanes.handled] + [(one.finished_at, -1) for one in lanes.handled],
    )
    most = max(itertools.accumulate(change for _, change in running))

    assert most <= slots
    for one in lanes.handled:
        if one.started_at > one.sent_at:
            ends = [other.finished_at for other in lanes.handled]
            assert any(abs(end - one.started_at) < 1e-9 for end in ends)


@pytest.mark.parametrize("slots", [1, 3])
def test_no_consumer_finishes_the_top_lane_earlier(slots):
    """Under the same arrivals."""
    real = SimulatedLanes(
        LanesConfig.from_dict({"consumer": {"reserved_concurrency": slots}}), pattern=Pattern.LANES
    )
    ours, bound = load(real, seed=7), load(ideal(slots=slots), seed=7)

    assert sum(bound.handled.waits("HIGH")) < sum(ours.handled.waits("HIGH"))


class Depths:
    """The same counts for each lane."""

    def __init__(self, backlog, in_flight):
        self.found = LaneDepth(backlog=backlog, in_flight=in_flight)

    def depth(self, _lane):
        return self.found


def event(lane, *groups):
    """Give the event of a batch."""
    return {
        "Records": [
            {
                "eventSourceARN": lane,
                "messageId": f"{lane}-{group}",
                "attributes": {"MessageGroupId": group},
                "body": "",
            }
            for group in groups
        ]
    }


@pytest.mark.parametrize(
    ("slots", "backlog", "in_flight", "yields"),
    [
        (1, 0, 0, False),
        (1, 1, 0, True),
        (1, 0, 1, True),
        (3, 3, 3, False),
        (3, 4, 0, True),
        (3, 0, 4, True),
    ],
)
def test_it_yields_to_one_count_above_the_slots(slots, backlog, in_flight, yields):
    """With one slot to any message; it returns the whole batch then, of which the highest lane has never any."""
    handled = []
    consumer = PlainConsumer(
        config=LanesConfig.from_dict({"consumer": {"reserved_concurrency": slots}}),
        depths=Depths(backlog, in_flight),
        lane_of=lambda arn: arn,
        work=lambda _lane, group, _body: handled.append(group),
        yields=True,
    )

    assert not consumer.handle(event("HIGH", "u"), None)["batchItemFailures"]
    returned = consumer.handle(event("MAIN", "a", "b"), None)["batchItemFailures"]

    assert handled == (["u"] if yields else ["u", "a", "b"])
    assert [one["itemIdentifier"] for one in returned] == (["MAIN-a", "MAIN-b"] if yields else [])


def test_a_message_that_always_fails_has_no_end():
    """It has no dead-letter queue: the message comes again each time that its visibility ends."""
    lanes = SimulatedLanes(LanesConfig(), pattern=Pattern.PLAIN)
    lanes.send("MAIN", group="a", seconds=0.1, fault="always")
    lanes.run(seconds=600)

    assert (lanes.dead, lanes.left, lanes.done) == (0, 1, 0)
    assert lanes.history.times_begun(lanes.sent) == 600 // 30
