"""What AWS leaves open does something: each parameter is seen to act."""

from random import Random

import pytest

from lanes.config import LanesConfig
from lanes.mapping.rules import Winner
from lanes.testing.calls import Calls
from lanes.testing.fifo.message import GroupOrder
from simulator.parameters import Unknowns, all_variants, variants
from simulator.queues import ApproximateQueues
from simulator.scheduler import Scheduler
from simulator.simulated_lanes import Pattern, SimulatedLanes


def counts_with(**unknowns):
    """Queues seen through these unknowns, and their time."""
    scheduler = Scheduler()
    queues = ApproximateQueues(
        LanesConfig(),
        scheduler=scheduler,
        calls=Calls(),
        unknowns=Unknowns(**unknowns),
        chance=Random(1),
    )
    return queues, scheduler


def send(queues, count, *, group="g", start=0):
    for number in range(start, start + count):
        queues.live["HIGH"].send("{}", group=group, deduplication_id=str(number))


@pytest.mark.parametrize("age", [0.5, 5, 60])
def test_counts_are_as_old_as_they_are_set_to_be(age):
    """What was sent is not counted before, and is soon after."""
    queues, scheduler = counts_with(stale=age)
    scheduler.run(seconds=age)
    send(queues, 3)
    scheduler.run(seconds=age * 0.95)

    assert queues.depth("HIGH").backlog == 0

    scheduler.run(seconds=age * 0.2)
    assert queues.depth("HIGH").backlog == 3


def test_counts_are_exact_unless_told_otherwise():
    """The default is the bound that nothing can be better than."""
    queues, _ = counts_with()
    send(queues, 3)

    assert queues.depth("HIGH").backlog == 3


def test_noisy_counts_stay_within_their_share():
    """Wrong up and down, by no more than asked for."""
    queues, _ = counts_with(noise=0.3)
    send(queues, 100)
    seen = {queues.depth("HIGH").backlog for _ in range(50)}

    assert len(seen) > 10
    assert 70 <= min(seen) < 100 < max(seen) <= 130


def test_messages_behind_a_group_in_flight_may_or_may_not_count():
    """Both readings of a page that says nothing."""
    for counted, expected in ((True, 5), (False, 2)):
        queues, _ = counts_with(blocked_counted=counted)
        send(queues, 4, group="blocked")
        send(queues, 2, group="free", start=4)
        queues.live["HIGH"].receive(1)

        assert queues.depth("HIGH").backlog == expected


def loaded(*, slots=1, concurrency=2, until, **unknowns):
    """Ten MAIN and ten HIGH messages at once, without priority."""
    config = LanesConfig.from_dict(
        {
            "consumer": {"reserved_concurrency": slots},
            "lanes": [
                {"name": "HIGH", "threshold": 50, "batch_size": 1, "maximum_concurrency": concurrency},
                {"name": "MAIN", "batch_size": 1, "maximum_concurrency": concurrency},
            ],
        }
    )
    lanes = SimulatedLanes(config, pattern=Pattern.NONE, unknowns=Unknowns(**unknowns))
    for number in range(40):
        for lane in ("MAIN", "HIGH"):
            lanes.send(lane, group=f"{lane}{number}", seconds=0.2)
    lanes.run(seconds=600, until=lambda: until(lanes))
    return lanes


def share_of_high(winner):
    lanes = loaded(winner=winner, until=lambda lanes: len(lanes.handled) == 30)
    return sum(one.lane == "HIGH" for one in lanes.handled) / 30


def test_the_slot_that_becomes_free_goes_to_whom_the_parameter_names():
    """Without any yielding, the winner decides whose messages go first."""
    assert share_of_high(Winner.HIGHEST) > 0.9
    assert share_of_high(Winner.LOWEST) < 0.1
    assert 0.3 < share_of_high(Winner.OLDEST) < 0.7


def test_pollers_grow_from_few_to_the_maximum_concurrency_while_there_is_work():
    """As far as the ramp allows, and no further."""
    few = loaded(slots=9, concurrency=5, first_pollers=1, ramp=0.5, until=lambda lanes: lanes.handled)
    many = loaded(
        slots=9, concurrency=5, first_pollers=1, ramp=2.0, until=lambda lanes: lanes.done == lanes.sent
    )

    assert few.mappings["MAIN"].pollers == 1
    assert many.mappings["MAIN"].pollers == 5


def test_calls_differ_by_their_spread():
    """Some are slower than the middle, some faster, and the whole takes about as long."""
    even, spread = (
        loaded(call_spread=sigma, until=lambda lanes: lanes.done == lanes.sent) for sigma in (0.0, 0.7)
    )

    assert [one.started_at for one in even.handled] == [one.started_at for one in spread.handled]

    even, spread = (prioritized(call_spread=sigma) for sigma in (0.0, 0.7))
    assert even.scheduler.now != spread.scheduler.now


def prioritized(**unknowns):
    lanes = SimulatedLanes(LanesConfig(), unknowns=Unknowns(**unknowns))
    for number in range(20):
        lanes.send("MAIN", group=f"g{number}", seconds=0.1)
    assert lanes.settle(within=600)
    return lanes


def place_of_the_group_behind(**settings):
    """When the one message is handled that was sent behind a large group."""
    config = LanesConfig.from_dict({"consumer": {"reserved_concurrency": 3}})
    lanes = SimulatedLanes(config, **settings)
    for _ in range(25):
        lanes.send("MAIN", group="large", seconds=0.1)
    lanes.send("MAIN", group="behind", seconds=0.1)
    assert lanes.settle(within=600)
    return next(at for at, one in enumerate(lanes.handled) if one.group == "behind")


def test_a_group_that_fills_the_look_ahead_hides_the_groups_behind_it():
    """A handful of messages in place of 120,000: the other group waits until the large one has become short."""
    assert place_of_the_group_behind() <= 2
    assert place_of_the_group_behind(look_ahead=20) >= 5


def order_of_groups(**unknowns):
    """Receive two messages at a time from three groups of four, and name the group of each receive."""
    queues, _ = counts_with(**unknowns)
    for start, group in enumerate("abc"):
        send(queues, 4, group=group, start=4 * start)
    queue, order = queues.live["HIGH"], ""
    while received := queue.receive(2):
        order += received[0].group
        for message in received:
            queue.delete(message.receipt_handle)
    return order


def test_groups_are_received_by_their_oldest_message_or_in_turn():
    """AWS promises neither: by age one group is emptied first, in turn all proceed together."""
    assert order_of_groups() == "aabbcc"
    assert order_of_groups(group_order=GroupOrder.TURN) == "abcabc"


def test_a_new_group_waits_behind_one_that_had_its_turn_before_it_came():
    """It was sent later, and the other has waited since."""
    queues, _ = counts_with(group_order=GroupOrder.TURN)
    send(queues, 3, group="a")
    queue = queues.live["HIGH"]
    (first,) = queue.receive(1)
    send(queues, 1, group="b", start=3)
    queue.delete(first.receipt_handle)

    assert [queue.receive(1)[0].group for _ in range(2)] == ["a", "b"]


def test_a_throttled_batch_is_dropped_in_no_plan_but_in_claims():
    """AWS documents that it is retried, so only a claim over all behaviour has to hold without."""
    dropped = set(all_variants(Unknowns())) - set(variants(Unknowns()))

    assert [all_variants(Unknowns())[name].backoff.retries for name in dropped] == [False, False]
    assert {all_variants(Unknowns())[name].group_order for name in dropped} == {
        GroupOrder.OLDEST,
        GroupOrder.BACK,
    }


@pytest.mark.parametrize(("shrinks", "expected"), [(False, 4), (True, 1)])
def test_throttles_may_shrink_the_concurrency_of_a_mapping(shrinks, expected):
    """AWS documents it without numbers: here by one for each throttled try, down to one, until it grows again."""
    found = loaded(
        concurrency=4,
        throttles_shrink=shrinks,
        ramp=0.0,
        until=lambda lanes: len(lanes.handled) == 30,
    )

    assert {mapping.pollers for mapping in found.mappings.values()} == {expected}
