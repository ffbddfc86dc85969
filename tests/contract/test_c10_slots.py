"""C10: at no moment are more running handlers than there are slots, whatever goes wrong."""

import dataclasses
from functools import partial
from random import Random

import pytest

from lanes.config import EngineName, LanesConfig
from simulator.oracle import violations
from simulator.parameters import Faults, Unknowns
from simulator.simulated_lanes import Pattern, SimulatedLanes
from tests.simulation.loads import mixed_load

ENGINES = [Pattern.LANES, Pattern.PULL]
OTHER = {Pattern.LANES: Pattern.PULL, Pattern.PULL: Pattern.LANES}
ENGINE_OF = {Pattern.LANES: EngineName.MAPPINGS, Pattern.PULL: EngineName.PULL}
FAULTS = {
    "nothing": Faults(),
    "crashes": Faults(crashes=0.1),
    "clock jumps": Faults(clock_jumps=600.0),
    "calls that land late": Faults(slow_calls=0.2),
    "lost answers": Faults(lost_answers=0.1),
    "deploys": Faults(redeploy_every=2.0),
    "all of it": Faults(
        crashes=0.05,
        clock_jumps=600.0,
        slow_calls=0.05,
        call_errors=0.05,
        lost_answers=0.05,
        redeploy_every=5.0,
    ),
}


@pytest.mark.parametrize("pattern", ENGINES)
@pytest.mark.parametrize("slots", [pytest.param(1, marks=pytest.mark.deep), 3, 6])
@pytest.mark.parametrize("name", FAULTS)
def test_never_more_handlers_than_slots(name, slots, pattern):
    """The oracle watches each start of a handler."""
    lanes = mixed_load(slots=slots, pattern=pattern, faults=FAULTS[name])

    assert violations(lanes) == []


def test_one_more_would_be_seen():
    """A function that runs more than its slots."""
    lanes = flood(Pattern.LANES, slots=2)
    lanes.function._slots = 3

    assert lanes.settle(within=20_000)

    assert violations(lanes) == ["more running handlers than slots: 1 too many"]


def flood(pattern, *, slots=3, seed=1, faults=None, timeout=10):
    """Begin a flood of two lanes, a third of it chains."""
    config = {"consumer": {"reserved_concurrency": slots, "function_timeout": timeout}}
    lanes = SimulatedLanes(LanesConfig.from_dict(config), pattern=pattern, faults=faults, seed=seed)
    chance = Random(seed)
    for number in range(600):
        group = f"g{number % 5}" if chance.random() < 0.3 else f"alone{number}"
        lanes.send(
            "MAIN", group=group, seconds=chance.uniform(0.02, 0.3), fault=chance.choice(["", "", "once"])
        )
        if number % 6 == 0:
            lanes.scheduler.after(
                number / 10, lambda: lanes.send("HIGH", group=f"h{chance.randrange(9)}", seconds=0.1)
            )
    return lanes


@pytest.mark.parametrize("first", ENGINES)
@pytest.mark.parametrize("within", [0.0, 20.0])
def test_never_more_while_the_engine_changes(first, within):
    """Back and forth in the middle of a flood, with mappings of both engines for some time; nothing is lost."""
    lanes = flood(first, faults=Faults(crashes=0.05, slow_calls=0.05))
    config = lanes.config
    for at, engine in ((1.0, OTHER[first]), (9.3, first), (12.0, OTHER[first])):
        consumer = dataclasses.replace(config.consumer, engine=ENGINE_OF[engine])
        changed = dataclasses.replace(config, consumer=consumer)
        lanes.scheduler.after(at, partial(lanes.deploy, changed, within=within))
    lanes.run(seconds=12.5)
    assert lanes.done < lanes.sent

    assert lanes.settle(within=20_000)

    assert violations(lanes) == []


@pytest.mark.parametrize("pattern", ENGINES)
@pytest.mark.parametrize(("before", "after"), [(3, 1), (1, 3), pytest.param(12, 2, marks=pytest.mark.deep)])
def test_never_more_when_the_number_of_slots_changes(before, after, pattern):
    """Invocations that run may end; from then on the new number holds."""
    lanes = flood(pattern, slots=before)
    lanes.run(seconds=3.0)
    consumer = dataclasses.replace(lanes.config.consumer, reserved_concurrency=after)
    lanes.deploy(dataclasses.replace(lanes.config, consumer=consumer))

    assert lanes.settle(within=20_000)

    assert violations(lanes) == []


@pytest.mark.parametrize("missed", [0.1, 1 / 3])
def test_receives_that_miss_messages_change_nothing(missed):
    """AWS: a short poll asks some servers of a queue only."""
    lanes = mixed_load(slots=3, pattern=Pattern.PULL, unknowns=Unknowns(missed_polls=missed))

    assert violations(lanes) == []


MIXED = Faults(
    crashes=0.03,
    slow_calls=0.03,
    lost_answers=0.03,
    duplicates=0.05,
    undeleted=0.05,
    redeploy_every=7.0,
)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(("count", "slots"), [(2, 5), (3, 10), (4, 9)])
def test_every_promise_holds_while_mappings_begin_and_cease_to_share_the_slots(count, slots, seed):
    """To fewer slots, to more, to the other engine and back, with rings and yields of the others left in the queues."""
    chance = Random(seed)
    tables = [{"name": f"L{place}", "threshold": 100 - place} for place in range(count - 1)]

    def config(slots, engine="mappings"):
        consumer = {
            "reserved_concurrency": slots,
            "function_timeout": 10,
            "max_attempts": 4,
            "engine": engine,
        }
        return LanesConfig.from_dict({"consumer": consumer, "lanes": [*tables, {"name": "MAIN"}]})

    unknowns = Unknowns(missed_polls=0.1)
    lanes = SimulatedLanes(config(slots), faults=MIXED, unknowns=unknowns, seed=seed)
    assert lanes.config.serves_in_place
    for _ in range(300):
        lane, seconds = chance.choice(lanes.config.lanes).name, chance.choice([0.02, 0.1, 0.5, 2.0])
        fault = chance.choice(["", "", "", "once", "check"])
        group = f"{lane}{chance.randrange(40)}"
        send = partial(lanes.send, lane, group=group, seconds=seconds, fault=fault)
        lanes.scheduler.after(chance.random() * 16, send)
    for at, changed in ((3, config(2)), (7, config(12)), (10, config(12, "pull")), (13, config(slots))):
        lanes.scheduler.after(at, partial(lanes.deploy, changed, within=chance.choice([0.0, 5.0])))
    lanes.run(seconds=16)

    assert lanes.settle(within=20_000)
    assert violations(lanes) == []
