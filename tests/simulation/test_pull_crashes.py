"""A crash in the pull engine is local: other slots go on, and its own is at work again within a timeout and 5 s."""

import itertools

import pytest

from lanes.bell import RETURN_EVERY
from lanes.testing.fifo.message import MessageState
from simulator.history import data_of
from simulator.oracle import violations
from tests.simulation.loads import COLD_START_AND_CALLS, pulling
from tests.support.scenario import Scenario

TIMEOUT = 30.0
SILENCE = TIMEOUT + 5.0
WORK = 0.2


def flooded(slots):
    """Lanes with work for two minutes and more."""
    lanes = pulling(slots)
    for number in range(int(slots * 150 / WORK)):
        lanes.send("MAIN", group=f"g{number}", seconds=WORK)
    return lanes


def silence(lanes, *, since):
    """Return the seconds from a moment until all slots are at work again."""
    slots = lanes.config.consumer.reserved_concurrency
    edges = [(one.started_at, 1) for one in lanes.handled] + [(one.finished_at, -1) for one in lanes.handled]
    busy = 0
    for at, change in sorted(edges):
        busy += change
        if at > since + WORK and busy == slots:
            return at - since
    raise AssertionError("never at work again")


@pytest.mark.parametrize(
    ("slots", "killed", "killed_at"),
    [
        *itertools.product([1], [1], [3.0, 17.7, 27.1]),
        *itertools.product([3], [1, 3], [3.0, 30.8]),
        pytest.param(10, 10, 3.0, marks=pytest.mark.deep),
        pytest.param(10, 10, 27.1, marks=pytest.mark.deep),
    ],
)
def test_all_slots_are_at_work_again(slots, killed, killed_at):
    """After the death of one process or of all of them; so are the messages that they had in hand."""
    lanes = flooded(slots)
    lanes.run(seconds=killed_at)
    died, in_hand = lanes.scheduler.now, set(held(lanes))
    lanes.function.kill(killed)
    lanes.run(seconds=100)

    assert in_hand
    assert silence(lanes, since=died) < SILENCE
    begun = {one.group: one.started_at for one in lanes.handled}
    assert max(begun[group] for group in in_hand) - died < SILENCE


def held(lanes):
    """Return the groups of the messages that slots have in hand."""
    store = lanes.queues.live["MAIN"]._store
    in_hand = [message for message in store.messages() if message.state is not MessageState.VISIBLE]
    places = [data_of(message.body)["place"] for message in in_hand]
    return [f"g{place - 1}" for place in places]


@pytest.mark.parametrize("slots", [1, 3])
def test_a_lane_is_served_again_after_the_death_of_its_only_slot(slots):
    """Without a flood: the heartbeat, or the next ring, starts a slot."""
    lanes = pulling(slots)
    lanes.scheduler.after(31.0, lambda: lanes.send("HIGH", group="first", seconds=10.0))
    lanes.scheduler.after(33.0, lambda: lanes.function.kill(slots))
    for number in range(20):
        lanes.scheduler.after(
            34.0 + number, lambda number=number: lanes.send("HIGH", group=f"g{number}", seconds=0.1)
        )
    lanes.run(seconds=200)

    assert lanes.done == 21
    waits = [one.started_at - one.sent_at for one in lanes.handled if one.group != "first"]
    assert max(waits) < RETURN_EVERY + 10 + COLD_START_AND_CALLS


@pytest.mark.parametrize("slots", [1, 3])
def test_a_message_that_kills_each_process_holds_up_no_others(slots):
    """It is dead-lettered after its attempts; meanwhile the others are handled."""
    lanes = pulling(slots)
    lanes.send("HIGH", group="poison", seconds=0.2, fault="crash")
    for number in range(300):
        lanes.scheduler.after(
            number, lambda number=number: lanes.send("MAIN", group=f"g{number}", seconds=0.1)
        )
    lanes.run(seconds=300)
    assert lanes.settle(within=3_600)

    assert lanes.dead == 1
    assert lanes.done == 300
    assert max(lanes.handled.waits("MAIN")) < SILENCE
    assert violations(lanes) == []


def longest_stand(lanes, *, lane, since):
    """Return the longest time between the end of a record of a lane and the start of the next one."""
    spans = sorted((one.started_at, one.finished_at) for one in lanes.handled if one.lane == lane)
    ends = [since, *(end for _, end in spans)]
    return max(start - end for (start, _), end in zip(spans, ends, strict=False))


@pytest.mark.parametrize(("lane", "idempotency"), [("HIGH", False), ("MEDIUM", True), ("MAIN", False)])
@pytest.mark.parametrize("seconds", [0.02, 0.2, pytest.param(3.0, marks=pytest.mark.deep)])
def test_a_backlog_goes_on_between_the_crashes_of_a_message(lane, seconds, idempotency):
    """With one slot, which each crash takes along: the backlog never stands still for two timeouts in a row."""
    lanes = pulling(1, function_timeout=TIMEOUT, idempotency=idempotency)
    since = lanes.scheduler.now
    lanes.send(lane, group="poison", seconds=0.2, fault="crash")
    backlog = max(200, int(40 / seconds))
    for number in range(backlog):
        lanes.send("MAIN", group=f"g{number}", seconds=seconds)
    lanes.run(seconds=400)
    assert lanes.settle(within=3_600)

    assert (lanes.dead, lanes.done) == (1, backlog)
    assert longest_stand(lanes, lane="MAIN", since=since) <= SILENCE
    assert violations(lanes) == []


@pytest.mark.parametrize("idempotency", [False, True])
def test_messages_die_along_once_with_one_that_kills_its_process(idempotency):
    """Nothing else is in hand when it is tried again; without idempotency its first crash names no message."""
    lanes = pulling(1, function_timeout=TIMEOUT, idempotency=idempotency)
    lanes.send("HIGH", group="poison", seconds=0.2, fault="crash")
    for number in range(9):
        lanes.send("HIGH", group=f"g{number}", seconds=0.05)
    lanes.run(seconds=400)
    assert lanes.settle(within=3_600)

    assert (lanes.dead, lanes.done) == (1, 9)
    assert max(lanes.handled.waits("HIGH")) <= (SILENCE if idempotency else 2 * SILENCE)
    assert violations(lanes) == []


def test_a_message_that_killed_its_process_once_is_done_soon_in_an_invocation_of_its_own():
    """Its pause is that after a failure, and it needs a whole timeout where it starts late."""
    scenario = Scenario({"consumer": {"idempotency": True}}, engine="pull")
    scenario.send("HIGH", "deadly", "crash", "ok", group="deadly")
    scenario.send("HIGH", "other", group="other")
    scenario.step("HIGH")
    died = scenario.world.clock.now

    scenario.drain()

    assert scenario.done == ["other", "deadly"]
    first, second = scenario.starts_of("deadly")
    assert second.at - died < SILENCE + 25
    assert (first.attempt, second.attempt) == (1, 2)
    assert "crashed" in [one["reason"] for one in scenario.world.recorder.named("batch_returned")]
    scenario.check_kept()


def test_a_long_record_that_waited_for_the_rate_gets_an_invocation_of_its_own_too():
    """A new environment waits for the rate first, and does not know how long its records take."""
    lanes = pulling(1, max_rate="4/min")
    for number in range(3):
        lanes.send("MAIN", group=f"g{number}", seconds=26.0)
    assert lanes.settle(within=3_600)

    assert (lanes.dead, lanes.done) == (0, 3)


def test_a_group_keeps_its_order_where_one_of_its_records_is_served_before_a_suspect():
    """It fails, and those behind it in the same hand return with it."""
    scenario = Scenario({"consumer": {"max_attempts": 9}}, engine="pull")
    scenario.send("MAIN", "m0", "fail", "ok", group="a")
    scenario.send("MAIN", "m1", "fail", "ok", group="a")
    scenario.send("HIGH", "crashes", "crash", "ok", group="b")

    scenario.drain()

    assert scenario.done == ["crashes", "m0", "m1"]
    scenario.check_kept()


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_a_crashed_message_above_long_records_spends_few_receives(slots):
    """The batch that is set aside for it leaves the slot to it: until then it would be received again and again."""
    lanes = pulling(slots, function_timeout=TIMEOUT, max_attempts=3, idempotency=True)
    lanes.send("HIGH", group="poison", seconds=0.05, fault="crash")
    for number in range(300):
        lanes.send("MAIN", group=f"g{number}", seconds=0.5)
    assert lanes.settle(within=3_600)

    (note,) = lanes.queues.notes.values()
    assert note.receives <= 4 * note.attempts
    assert violations(lanes) == []
