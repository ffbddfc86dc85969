"""C11: a process that dies holds up other groups and lanes for no longer than the function timeout and five seconds."""

from itertools import pairwise

import pytest

from lanes.config import LanesConfig
from simulator.function import Doom
from simulator.oracle import violations
from simulator.simulated_lanes import Pattern, SimulatedLanes
from tests.support.memory import Late, aws_error
from tests.support.scenario import Scenario

ENGINES = [Pattern.LANES, Pattern.PULL]
TIMEOUT = 20.0
LONGEST = TIMEOUT + 5
DEADLY = 0.15
"""Seconds of each record of a batch that dies after 0.1 s."""


def lanes_with_one_crash(pattern, *, slots, after, nth, lanes=None):
    """Let the nth invocation die some seconds after its start, or just before its answer."""
    raw = {"consumer": {"reserved_concurrency": slots, "function_timeout": TIMEOUT}}
    config = LanesConfig.from_dict({**raw, "lanes": lanes} if lanes else raw)
    simulated = SimulatedLanes(config, pattern=pattern)
    starts = simulated.starts = []

    def doom(_mean):
        starts.append(simulated.scheduler.now)
        return Doom(after=after, before_answer=True) if len(starts) == nth else Doom()

    simulated.function._doom = doom
    simulated.nth = nth
    return simulated


def waits(lanes, *, of=lambda _one: True):
    """Return how long each message was held up: from its send or the start of the dead process to its start."""
    began = lanes.starts[lanes.nth - 1]
    return [one.started_at - max(one.sent_at, began) for one in lanes.handled if of(one)]


@pytest.mark.parametrize("pattern", ENGINES)
@pytest.mark.parametrize("slots", [1, 3, 6])
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("after", [0.05, 0.5, 3.0, 11.0, 19.0])
def test_what_a_dead_slot_had_in_hand_is_handled_in_time(pattern, slots, nth, after):
    """Records of other groups that it had received too; and those that are sent afterwards."""
    lanes = lanes_with_one_crash(pattern, slots=slots, after=after, nth=nth)
    for number in range(8):
        lanes.send("MAIN", group=f"m{number}", seconds=1.0)
    for second in range(40):
        lanes.scheduler.after(
            second + 0.3, lambda second=second: lanes.send("HIGH", group=f"h{second}", seconds=0.02)
        )

    lanes.run(seconds=45)
    assert lanes.settle(within=1000)

    assert lanes.function.times.lost == 1
    assert violations(lanes) == []
    busy = 8.0
    assert max(waits(lanes)) <= LONGEST + busy
    assert max(waits(lanes, of=lambda one: one.lane == "HIGH")) <= LONGEST


@pytest.mark.parametrize("pattern", ENGINES)
@pytest.mark.parametrize("slots", [1, 3, 6])
@pytest.mark.parametrize("after", [0.05, 0.5, 3.0, 11.0])
def test_other_groups_and_lanes_wait_no_longer(pattern, slots, after):
    """Messages that the dead process had not received."""
    lanes = lanes_with_one_crash(pattern, slots=slots, after=after, nth=1)
    lanes.send("MAIN", group="dead", seconds=after + 0.5)
    for second in range(30):
        for lane in ("HIGH", "MAIN"):
            lanes.scheduler.after(
                after + 1.3 * second + 0.01,
                lambda lane=lane, second=second: lanes.send(lane, group=f"g{second}", seconds=0.02),
            )

    lanes.run(seconds=60)
    assert lanes.settle(within=1000)

    assert lanes.function.times.lost == 1
    assert violations(lanes) == []
    others = waits(lanes, of=lambda one: one.group != "dead")
    assert max(others) <= LONGEST


@pytest.mark.parametrize("pattern", ENGINES)
def test_a_lane_that_few_slots_serve_does_not_wait_for_its_sender(pattern):
    """A message that returns from a backoff is served although nobody rings for it."""
    tables = [{"name": "HIGH", "threshold": 50}, {"name": "MAIN", "maximum_concurrency": 2}]
    config = {"consumer": {"reserved_concurrency": 4, "backoff_base": 30}, "lanes": tables}
    lanes = SimulatedLanes(LanesConfig.from_dict(config), pattern=pattern)
    lanes.send("MAIN", group="g", seconds=0.1, fault="once")

    assert lanes.settle(within=60)


def lanes_below_crashes(*, slots, timeout, crashes, high_every=0.0):
    """Let the first invocations die with full batches of HIGH, above a MAIN backlog; return the lanes."""
    raw = {"consumer": {"reserved_concurrency": slots, "function_timeout": timeout}}
    lanes = SimulatedLanes(LanesConfig.from_dict(raw))
    starts = []

    def doom(_mean):
        starts.append(lanes.scheduler.now)
        return Doom(after=0.1) if len(starts) <= crashes else Doom()

    lanes.function._doom = doom
    for number in range(10 * crashes):
        lanes.send("HIGH", group=f"dead{number}", seconds=DEADLY)
    lanes.run(seconds=0.3)
    for number in range(400 * slots):
        lanes.send("MAIN", group=f"m{number % (20 * slots)}", seconds=0.2)
    if high_every:
        for number in range(int(90 / high_every)):
            lanes.scheduler.after(
                number * high_every, lambda at=number: lanes.send("HIGH", group=f"h{at}", seconds=0.05)
            )
    assert lanes.settle(within=10 * timeout + 600)
    assert lanes.function.times.lost == crashes
    assert violations(lanes) == []
    return lanes


def standstills(lanes):
    """Return the seconds between the starts of MAIN's messages, longest first."""
    starts = sorted(one.started_at for one in lanes.handled if one.lane == "MAIN")
    sent_at = min(one.sent_at for one in lanes.handled if one.lane == "MAIN")
    return sorted((later - one for one, later in pairwise([sent_at, *starts])), reverse=True)


@pytest.mark.parametrize("timeout", [10, 30, 900])
@pytest.mark.parametrize(("slots", "crashes"), [(1, 1), (3, 1), (3, 3)])
def test_lower_lanes_go_on_below_a_crashed_batch(slots, crashes, timeout):
    """Its records stay in flight for the rest of the function's time, wait for no slot, and return then."""
    lanes = lanes_below_crashes(slots=slots, timeout=timeout, crashes=crashes)

    assert standstills(lanes)[0] <= min(timeout, 30) + 5
    high = [one for one in lanes.handled if one.lane == "HIGH"]
    assert max(one.started_at - one.sent_at for one in high) <= timeout + 5 + crashes * 10 * DEADLY


@pytest.mark.parametrize("high_every", [5.0, 1.0, 0.25])
def test_they_go_on_also_while_the_crashed_lane_gets_messages(high_every):
    """Those are served meanwhile, and have priority; the slot is free in between."""
    lanes = lanes_below_crashes(slots=1, timeout=30, crashes=1, high_every=high_every)

    assert standstills(lanes)[0] <= 30 + 5
    later = [one for one in lanes.handled if one.group.startswith("h")]
    assert max(one.started_at - one.sent_at for one in later) <= 10


HOLD = "ChangeMessageVisibilityBatch"


@pytest.mark.parametrize("size", [1, 3])
def test_a_batch_whose_process_dies_returns_after_the_function_timeout(size):
    """All of it at one moment, the groups beside the deadly one as well."""
    scenario = Scenario({"consumer": {"function_timeout": 20}})
    for number in range(size):
        scenario.send("MAIN", f"m{number}", "crash" if not number else "ok", group=f"g{number}")

    scenario.step("MAIN")
    scenario.world.clock.advance(TIMEOUT + 1)
    assert scenario.world.receive("MAIN") == []
    scenario.world.clock.advance(2)

    assert len(scenario.world.receive("MAIN")) == size


def test_other_groups_of_the_batch_return_also_if_its_handler_dies_at_once():
    """The call for it has landed by then, even if it is as late as can be."""
    scenario = Scenario({"consumer": {"function_timeout": 20}}, beside=Late())
    for number in range(3):
        scenario.send("MAIN", f"m{number}", "ok" if number else "crash", group=f"g{number}")

    scenario.step("MAIN")
    scenario.world.clock.advance(TIMEOUT + 3)

    assert len(scenario.world.receive("MAIN")) == 3


@pytest.mark.parametrize("effect", ["break_if", "lose_if"])
def test_the_call_for_it_may_fail(effect):
    """The batch is handled, and would return when its visibility timeout ends."""
    scenario = Scenario()
    scenario.send("MAIN", "m")
    setattr(
        scenario.world.calls, effect, lambda operation, _position: aws_error() if operation == HOLD else None
    )

    scenario.step("MAIN")

    assert list(scenario.done) == ["m"]
    assert [name for name, _ in scenario.world.recorder.problems] == ["records_not_held"]


def test_it_lands_before_the_delay_of_a_record_that_stays():
    """Even if it is as late as can be: landing later, it would undo the backoff."""
    scenario = Scenario({"consumer": {"backoff_base": 100, "function_timeout": 20}}, beside=Late())
    scenario.send("MAIN", "m", "fail")

    scenario.step("MAIN")
    scenario.world.clock.advance(60)

    assert scenario.world.receive("MAIN") == []
    assert scenario.world.calls.counts[HOLD] == 2


def test_a_batch_that_only_yields_needs_none():
    """It gets its delay at once."""
    scenario = Scenario()
    scenario.send("MAIN", "m")
    taken = scenario.world.receive("MAIN")
    scenario.send("HIGH", "h")

    scenario.invoke("MAIN", taken)

    assert list(scenario.done) == []
    assert scenario.world.calls.counts[HOLD] == 1
