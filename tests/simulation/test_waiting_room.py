"""The deployed consumer with a waiting room in virtual time: nobody is throttled, and the slots are never exceeded."""

from functools import cache

import pytest

from benchmarks.bounded import serve
from benchmarks.scenarios import Load, meet, quantile
from lanes.config import LanesConfig
from simulator.parameters import Faults, Unknowns
from simulator.world import Pattern, SimulatedLanes
from tests.simulation.test_slots import schedule

ROOM = {"consumer": {"waiting_room": True}}
WORK = 0.2


@cache
def loaded(slots, pattern=Pattern.LANES, *, room=True, groups=60):
    """Lanes under bursts of HIGH over a standing backlog of MAIN, for two minutes."""
    load = Load(seconds=120, depth=500, groups=groups)
    return meet(load, slots=slots, pattern=pattern, raw=ROOM if room else {}, unknowns=Unknowns(), seed=3)


def most_at_work(lanes):
    """Return how many handlers ran at once, at most."""
    edges = sorted(edge for one in lanes.handled for edge in ((one.started_at, 1), (one.finished_at, -1)))
    running = most = 0
    for _, change in edges:
        running += change
        most = max(most, running)
    return most


def drained(slots, *, faults=None, seed=1, fault="", **consumer):
    """A flood of all lanes with troubles, until everything is handled."""
    raw = {"consumer": {"reserved_concurrency": slots, "waiting_room": True, **consumer}}
    lanes = SimulatedLanes(LanesConfig.from_dict(raw), faults=faults, seed=seed)
    for number in range(100 * slots):
        lanes.send("MAIN", group=f"m{number % 20}", seconds=WORK, fault=fault if number % 50 == 7 else "")
    schedule(lanes, lanes.chance, "HIGH", first=1.0, span=30.0, rate=0.1 * slots, burst=20)
    schedule(lanes, lanes.chance, "MEDIUM", first=0.5, span=30.0, rate=0.5 * slots, burst=1)
    lanes.run(seconds=30.0)
    assert lanes.settle(within=7_200)
    return lanes


@pytest.mark.parametrize("slots", [1, 3, 10])
def test_no_batch_is_throttled_and_no_slot_exceeded(slots):
    """More invocations run than there are slots; no more of them work."""
    lanes = loaded(slots)

    assert sum(mapping.throttles for mapping in lanes.mappings.values()) == 0
    assert most_at_work(lanes) == slots


@pytest.mark.parametrize("slots", [1, 3, 10])
def test_slots_work_nearly_as_much_as_without_priority(slots):
    """Those who wait stand ready when a slot becomes free."""
    assert loaded(slots).meter.worked > 0.95 * loaded(slots, Pattern.NONE).meter.worked
    assert loaded(slots).meter.worked > 1.15 * loaded(slots, room=False).meter.worked


@pytest.mark.parametrize("slots", [1, 3, 10])
def test_high_waits_no_longer_than_where_batches_are_throttled(slots):
    """And in the median little longer than with nothing below it: for a recheck and a record at most."""
    waits = loaded(slots).handled.waits("HIGH")
    alone = meet(
        Load(seconds=120, depth=500).alone,
        slots=slots,
        pattern=Pattern.LANES,
        raw=ROOM,
        unknowns=Unknowns(),
        seed=3,
    ).handled.waits("HIGH")

    assert quantile(waits, 0.99) < quantile(loaded(slots, room=False).handled.waits("HIGH"), 0.99)
    assert quantile(waits, 0.5) < quantile(alone, 0.5) + 0.25 + WORK


def test_hundreds_of_groups_make_no_difference_at_one_slot():
    """Where batches are throttled, the next lower one is always at hand and wins the slot, to yield it again."""
    few, many = loaded(1), loaded(1, groups=500)

    assert quantile(many.handled.waits("HIGH"), 0.99) < 1.1 * quantile(few.handled.waits("HIGH"), 0.99)
    assert many.meter.worked > 0.99 * few.meter.worked


@pytest.mark.parametrize("slots", [1, 3])
def test_hardly_anything_goes_back_for_a_yield(slots):
    """Who makes way keeps its records in hand; those who waited in vain for long go back."""
    counts, before = (loaded(slots, room=room).tally.counts["YieldedMessages"] for room in (True, False))

    assert counts < before / 5


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    "faults",
    [
        Faults(crashes=0.02),
        Faults(call_errors=0.02, lost_answers=0.02),
        Faults(slow_calls=0.02, ledger_throttled=0.05),
        Faults(duplicates=0.02, undeleted=0.02, redeploy_every=11.0),
    ],
    ids=["crashes", "errors", "slow", "twice"],
)
def test_no_trouble_exceeds_the_slots_breaks_an_order_or_loses_a_message(faults, seed, slots):
    """Whatever fails: the register, the ledger, the processes."""
    lanes = drained(slots, faults=faults, seed=seed, fault="once", function_timeout="10s")

    assert most_at_work(lanes) <= slots
    assert lanes.done == lanes.sent
    done = {}
    for one in lanes.handled:
        assert one.number <= done.get((one.lane, one.group), 0) + 1
        done[one.lane, one.group] = max(one.number, done.get((one.lane, one.group), 0))


def test_a_failing_message_with_others_behind_it_costs_the_lower_lanes_next_to_nothing():
    """Only who stands in line waits: no count can be taken for it."""
    load = Load(seconds=60, depth=300, high=0.0, medium=0.0)
    alone, failing = (
        meet(one, slots=1, pattern=Pattern.LANES, raw=ROOM, unknowns=Unknowns(), seed=1).meter.worked
        for one in (load, Load(seconds=60, depth=300, high=0.0, medium=0.0, failing=True))
    )

    assert failing > 0.98 * alone


@pytest.mark.parametrize("slots", [1, 3])
def test_overdue_messages_go_before_all_at_the_share_of_the_reserve(slots):
    """Below an endless flood they have a place in line, and the environments keep one account."""
    raw = {
        "consumer": {"waiting_room": True, "reserved_concurrency": slots},
        "lanes": [{"name": "HIGH", "threshold": 50}, {"name": "MAIN", "max_wait": "60s"}],
    }
    lanes = SimulatedLanes(LanesConfig.from_dict(raw))
    for number in range(400 * slots):
        lanes.send("MAIN", group=f"m{number}", seconds=WORK)
    for number in range(2_500 * slots):
        lanes.send("HIGH", group=f"h{number}", seconds=WORK)
    lanes.run(seconds=400)
    spent = {
        lane: sum(one.finished_at - one.started_at for one in lanes.handled if one.lane == lane)
        for lane in ("HIGH", "MAIN")
    }

    assert 0.04 <= spent["MAIN"] / sum(spent.values()) <= 0.055


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_trickle_that_the_reserve_can_carry_never_waits_long_beyond_max_wait(slots, seed):
    """A parking of 15 s at most lies between becoming overdue and standing in line."""
    served = serve(
        slots, seconds=400, backlog=False, max_wait=60.0, pattern=Pattern.LANES, room=True, seed=seed
    )

    assert served.handled > 30 * slots
    assert 60 < served.longest <= 60 + 30


def test_urgent_groups_are_done_in_nine_tenths_of_the_speed_that_order_allows():
    """Between two batches of a group the slot stays with it, though lower lanes have batches in line."""
    raw = {"consumer": {"reserved_concurrency": 5, "waiting_room": True}}
    lanes = SimulatedLanes(LanesConfig.from_dict(raw), seed=1)
    for number in range(2_000):
        lanes.send("MAIN", group=f"m{number % 45}", seconds=WORK)
    for number in range(250):
        lanes.send("HIGH", group=f"h{number % 5}", seconds=WORK)
    began = lanes.kernel.now
    lanes.run(seconds=30.0)
    finished = [one.finished_at for one in lanes.handled if one.lane == "HIGH"]

    assert len(finished) == 250
    assert max(finished) - began < 50 * WORK / 0.9 + 1.0
