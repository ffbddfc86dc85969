"""C5: a yield is quick to return, and quiet until then."""

import pytest

from lanes.config import LanesConfig
from lanes.config.lanes import LONG_PARKING
from lanes.consumer.ledger import Park
from lanes.metrics import Metric
from lanes.testing.calls import ProcessKilled
from simulator.simulated_lanes import SimulatedLanes
from tests.support.memory import aws_error
from tests.support.scenario import Scenario

SECONDS = 1.0


def yielded_behind_high(raw=None, *, environments=1, **options):
    """
    Tell a scenario up to the point where a batch of MAIN has yielded to HIGH.

    HIGH has a full batch for each slot, all with its mapping; they are returned beside the scenario.
    """
    scenario = Scenario(raw, environments=environments, **options)
    for number in range(3):
        scenario.send("MAIN", f"main{number}", group=f"g{number % 2}")
    batches = []
    for slot in range(scenario.world.config.consumer.reserved_concurrency):
        for number in range(10):
            scenario.send("HIGH", f"high{slot}{number}", group=f"g{slot}{number}")
        batches.append(scenario.world.receive("HIGH"))
    scenario.step("MAIN")
    assert scenario.starts == []
    return scenario, batches


def parked(scenario):
    """Return the entries that are parked now."""
    return [entry for entry in scenario.world.ledger.entries.values() if entry.park is not None]


def receivable(scenario, lane="MAIN"):
    """Whether a receive would find something now."""
    return scenario.world.queues.live[lane].is_receivable()


def test_all_records_of_a_yielded_batch_are_parked_alike_and_within_the_bounds_of_the_lane():
    """Whole seconds, the same for every group of the batch."""
    scenario, _ = yielded_behind_high()

    (delay,) = {round(entry.parked_until - entry.noted_at, 3) for entry in parked(scenario)}
    assert len(parked(scenario)) == 3
    assert 5 <= delay <= 15


@pytest.mark.parametrize("seed", range(3))
def test_the_bounds_are_the_lanes_own(seed):
    """Each lane may have its own, and the delay is spread over them."""
    raw = {
        "lanes": [
            {"name": "HIGH", "threshold": 50},
            {"name": "MAIN", "yield_delay_min": 30, "yield_delay_max": 40},
        ]
    }
    scenario, _ = yielded_behind_high(raw, seed=seed)

    assert all(30 <= entry.parked_until - entry.noted_at <= 40 for entry in parked(scenario))


def test_yielded_records_return_at_once_when_the_lanes_above_are_empty():
    """The last invocation of the higher lane wakes them."""
    scenario, (held,) = yielded_behind_high()
    assert not receivable(scenario)

    scenario.invoke("HIGH", held)

    assert receivable(scenario)
    assert parked(scenario) == []
    scenario.drain()
    assert scenario.done[0] == "high00"
    scenario.check_kept()


@pytest.mark.parametrize("environments", [1, 2])
def test_a_woken_group_is_received_whole_by_a_poller_that_comes_in_between(environments):
    """Its last record becomes visible first: behind one in flight it waits for the others."""
    raw = {"consumer": {"reserved_concurrency": environments}}
    scenario, batches = yielded_behind_high(raw, environments=environments)
    queues, received = scenario.world.queues, []
    change_all = queues.change_visibility

    def change_and_receive(lane, changes):
        refused = []
        for change in changes:
            refused += change_all(lane, [change])
            if lane == "MAIN" and change.seconds == 0:
                received.append([message.message_id for message in scenario.world.receive("MAIN")])
        return refused

    queues.change_visibility = change_and_receive
    for environment, batch in enumerate(batches):
        scenario.invoke("HIGH", batch, environment=environment)

    ids = [one.message_id for one in scenario.sent if one.lane == "MAIN"]
    assert sorted(filter(None, received)) == sorted([[ids[0], ids[2]], [ids[1]]])


def test_they_return_by_themselves_if_nobody_wakes_them():
    """The parking ends, whatever happens to those who could have woken them."""
    scenario, (held,) = yielded_behind_high()
    until = max(entry.parked_until for entry in parked(scenario))
    scenario.world.calls.break_if = lambda operation, _: (
        aws_error() if operation == "TransactWriteItems" else None
    )
    scenario.invoke("HIGH", held)
    assert not receivable(scenario)

    scenario.world.clock.now = until

    assert receivable(scenario)
    scenario.drain()
    scenario.check_kept()


@pytest.mark.parametrize("operation", ["TransactWriteItems", "ChangeMessageVisibilityBatch"])
@pytest.mark.parametrize("after_effect", [False, True])
def test_a_waker_that_dies_leaves_them_parked_at_worst(operation, after_effect):
    """Before, between and after its two steps."""
    scenario, (held,) = yielded_behind_high()
    scenario.break_once(
        lambda name: name == operation and bool(scenario.done), ProcessKilled(), after_effect=after_effect
    )

    scenario.invoke("HIGH", held)
    assert scenario.crashes == 1
    scenario.world.clock.advance(16)

    assert receivable(scenario)
    scenario.drain()
    scenario.check_kept()


def test_nothing_is_woken_while_another_batch_waits_above():
    """What the invocation has done itself is told apart from what its mapping still holds."""
    scenario = Scenario()
    scenario.send("MAIN", "main")
    for number in range(20):
        scenario.send("HIGH", f"high{number}", group=f"g{number}")
    first, second = scenario.world.receive("HIGH"), scenario.world.receive("HIGH")
    scenario.step("MAIN")

    scenario.invoke("HIGH", first)
    woken_early = receivable(scenario)
    scenario.invoke("HIGH", second)

    assert not woken_early
    assert receivable(scenario)


def test_the_highest_lane_that_is_parked_is_woken_first():
    """And the next one by the invocation after."""
    scenario = Scenario()
    scenario.send("MAIN", "main")
    scenario.send("MEDIUM", "medium")
    scenario.send("HIGH", "high")
    held = scenario.world.receive("HIGH")
    scenario.step("MAIN")
    scenario.step("MEDIUM")

    scenario.invoke("HIGH", held)
    assert (receivable(scenario, "MEDIUM"), receivable(scenario, "MAIN")) == (True, False)
    scenario.step("MEDIUM")

    assert receivable(scenario, "MAIN")
    scenario.drain()
    assert scenario.done == ["high", "medium", "main"]


def test_batches_that_were_parked_first_are_woken_first():
    """One batch for the one slot there is."""
    scenario = Scenario()
    for number in range(20):
        scenario.send("MAIN", f"main{number}", group=f"g{number}")
    scenario.send("HIGH", "high")
    held = scenario.world.receive("HIGH")
    scenario.step("MAIN")
    scenario.world.clock.advance(0.5)
    scenario.step("MAIN")

    scenario.invoke("HIGH", held)

    (woken,) = scenario.world.recorder.named("batch_woken")
    assert (woken["lane"], woken["by_lane"], woken["records"]) == ("MAIN", "HIGH", 10)
    assert len(set(woken["message_ids"])) == 10
    scenario.step("MAIN")
    assert sorted(scenario.done[1:]) == sorted(f"main{number}" for number in range(10))


def test_as_many_batches_are_woken_as_there_are_slots_free():
    """The one of whoever wakes included."""
    scenario = Scenario({"consumer": {"reserved_concurrency": 3}}, environments=3)
    for number in range(40):
        scenario.send("MAIN", f"main{number}", group=f"g{number}")
    for number in range(40):
        scenario.send("HIGH", f"high{number}", group=f"g{number}")
    held = [scenario.world.receive("HIGH") for _ in range(4)]
    for environment in (0, 1, 2, 0):
        scenario.step("MAIN", environment=environment)
    assert scenario.starts == []

    for batch in held:
        scenario.invoke("HIGH", batch, environment=0)

    assert [event["records"] for event in scenario.world.recorder.named("batch_woken")] == [30]


def test_no_more_is_woken_at_once_than_one_transaction_takes():
    """With very many slots that the mappings do not share: a hundred are noted as woken together, or none is."""
    lanes = [
        {"name": name, "maximum_concurrency": 20, "batch_size": 10, **more}
        for name, more in (("HIGH", {"threshold": 50}), ("MAIN", {}))
    ]
    scenario = Scenario({"consumer": {"reserved_concurrency": 20}, "lanes": lanes}, environments=1)
    for number in range(200):
        scenario.send("MAIN", f"main{number}", group=f"g{number}")
        scenario.send("HIGH", f"high{number}", group=f"g{number}")
    held = [scenario.world.receive("HIGH") for _ in range(20)]
    for _ in range(20):
        scenario.step("MAIN")
    assert scenario.starts == []

    for batch in held:
        scenario.invoke("HIGH", batch)

    assert max(event["records"] for event in scenario.world.recorder.named("batch_woken")) == 100


def test_two_wakers_wake_a_batch_once():
    """Whoever comes second finds it noted as no longer parked, and touches nothing."""
    scenario, (one, two) = yielded_behind_high({"consumer": {"reserved_concurrency": 2}}, environments=2)
    scenario.invoke("HIGH", one, environment=0)
    interrupted = []

    def interrupt(operation):
        if operation == "TransactWriteItems" and not interrupted:
            interrupted.append(operation)
            scenario.send("MEDIUM", "between")
            scenario.step("MEDIUM", environment=1)
        return False

    scenario.break_once(interrupt, aws_error())
    scenario.invoke("HIGH", two, environment=0)

    assert "between" in scenario.done
    assert scenario.world.recorder.counts["WokenMessages"] == 3
    scenario.drain()
    scenario.check_kept()


def test_a_stale_receipt_wakes_nothing():
    """The record came back and was taken again between the two steps of the waker: its new visibility stands."""
    scenario, (held,) = yielded_behind_high()
    again = []

    def interrupt(_operation):
        if scenario.world.calls.log[-2] == "TransactWriteItems":
            scenario.world.clock.advance(16)
            again.extend(scenario.world.receive("MAIN"))
        return False

    scenario.break_once(interrupt, aws_error())
    scenario.invoke("HIGH", held)

    assert len(again) == 3
    assert not receivable(scenario)
    scenario.invoke("MAIN", again)
    scenario.drain()
    scenario.check_kept()


def test_a_group_with_a_failed_record_is_not_woken_before_its_backoff_ends():
    """Its other records were parked by the same yield, and wait for it."""
    scenario = Scenario({"consumer": {"backoff_base": 60}})
    scenario.send("MAIN", "a", "fail", "ok", group="one")
    scenario.send("MAIN", "b", group="two")
    scenario.send("MAIN", "c", group="one")
    scenario.in_handler = lambda message: scenario.send("HIGH", "high") if message.id == "a" else None
    scenario.takes = 0.3
    scenario.step("MAIN")
    assert [start.id for start in scenario.starts] == ["a"]

    scenario.step("HIGH")

    parks = {entry.park for entry in parked(scenario)}
    assert parks == {Park.REST}
    (again,) = scenario.world.receive("MAIN")
    assert again.group == "two"


def test_parked_records_cost_no_receive_until_they_return():
    """Quiet: the mapping finds nothing to take while they are parked."""
    scenario, _ = yielded_behind_high()
    until = min(entry.parked_until for entry in parked(scenario))

    while scenario.world.clock.now + SECONDS < until:
        assert scenario.world.receive("MAIN") == []
        scenario.world.clock.advance(SECONDS)


def test_an_environment_wakes_what_another_one_parked():
    """Who parks and who wakes need not be the same process."""
    scenario, (one, two) = yielded_behind_high({"consumer": {"reserved_concurrency": 2}}, environments=2)

    scenario.invoke("HIGH", one, environment=0)
    assert not receivable(scenario)
    scenario.invoke("HIGH", two, environment=1)

    assert receivable(scenario)


@pytest.mark.parametrize("slots", [2, 3])
@pytest.mark.parametrize("seed", range(8))
def test_no_wake_up_is_lost_between_environments(slots, seed):
    """Ten MAIN and five HIGH messages in batches of one: none of them waits for the end of its parking."""
    tables = [{"name": "HIGH", "threshold": 50, "batch_size": 1}, {"name": "MAIN", "batch_size": 1}]
    config = LanesConfig.from_dict({"consumer": {"reserved_concurrency": slots}, "lanes": tables})
    lanes = SimulatedLanes(config, seed=seed)
    for number in range(10):
        lanes.send("MAIN", group=f"m{number}", seconds=0.2)
    lanes.run(seconds=0.5)
    for number in range(5):
        lanes.send("HIGH", group=f"h{number}", seconds=0.2)

    assert lanes.settle(within=5)


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_they_return_although_the_batch_above_has_no_time_to_wake_them(slots):
    """It takes nearly the whole timeout, so their parking ends by itself; no record of it returns for that."""
    config = LanesConfig.from_dict({"consumer": {"reserved_concurrency": slots, "function_timeout": 10}})
    lanes = SimulatedLanes(config)
    for number in range(30 * slots):
        lanes.send("MAIN", group=f"m{number}", seconds=0.05)
    lanes.run(seconds=0.45)
    for number in range(10 * slots):
        lanes.send("HIGH", group=f"h{number}", seconds=0.85)

    assert lanes.settle(within=14 + LONG_PARKING[1].total_seconds())
    assert lanes.tally.by_lane["HIGH"][Metric.RETURNED] == 0


def test_a_refused_change_of_visibility_only_delays():
    """The records return when the visibility they had ends, in their order."""
    scenario = Scenario()
    scenario.send("MAIN", "a")
    scenario.send("MAIN", "b")
    scenario.send("HIGH", "high")
    held = scenario.world.receive("HIGH")
    scenario.world.calls.break_if = lambda operation, _: (
        aws_error() if operation == "ChangeMessageVisibilityBatch" else None
    )
    scenario.step("MAIN")
    scenario.world.calls.break_if = lambda _operation, _: None

    scenario.invoke("HIGH", held)
    assert not receivable(scenario)
    scenario.drain()

    assert scenario.done == ["high", "a", "b"]
    scenario.check_kept()


def test_no_parked_records_are_looked_for_once_all_have_returned():
    """Their peers know until when they were parked, and ask the table no more."""
    scenario, _ = yielded_behind_high({"consumer": {"reserved_concurrency": 2}}, environments=2)
    scenario.drain()
    scenario.world.clock.advance(60)
    scenario.world.calls.log.clear()

    for number in range(3):
        scenario.send("MEDIUM", f"later{number}")
        scenario.step("MEDIUM", environment=number % 2)
        scenario.world.clock.advance(5)

    assert "Query" not in scenario.world.calls.log
