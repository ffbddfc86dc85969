"""C2: with `on_exhausted = "block"` a message stays first in its group until it succeeds or is cancelled."""

import itertools
from datetime import UTC, datetime

import pytest

from lanes.events import Event
from lanes.message import Message
from lanes.metrics import Metric
from lanes.overrides import KNOWN_AFTER
from tests.support.overriding import Overridden

DAY = 86_400.0
NATIVE = 1000
QUARTER = 15 * 60


def blocking(engine, *, slots=1, lanes=({"name": "MAIN"},), **consumer):
    """Give a scenario in which messages of the kind `work` block their groups after two attempts."""
    settings = {
        "reserved_concurrency": slots,
        "max_attempts": 2,
        "on_exhausted": {"wo*": "block"},
        **consumer,
    }
    raw = {"consumer": settings, "lanes": list(lanes)}
    return Overridden(raw, engine=engine, native=NATIVE, environments=slots)


def go_on(scenario, seconds, *, lane="MAIN"):
    """Let time pass, from one event of the lane's queue to the next."""
    world, queue = scenario.world, scenario.world.queues.live[lane]
    end = world.clock.now + seconds
    while world.clock.now < end:
        if queue.is_receivable():
            scenario.step(lane)
            world.clock.advance(0.02)
        elif (at := queue.next_event_at()) is None or at > end:
            world.clock.now = end
        else:
            world.clock.now = max(world.clock.now, at)


@pytest.mark.parametrize("what", ["fail", "crash", pytest.param("exit", marks=pytest.mark.deep)])
def test_a_group_waits_behind_its_message_for_fourteen_days(engine, what):
    """Others go on; the receives last, and a cancellation lets the group go on in its order."""
    scenario = blocking(engine)
    scenario.send("MAIN", "m0", what)
    for number in range(1, 5):
        scenario.send("MAIN", f"m{number}")
    scenario.send("MAIN", "other", group="other")
    go_on(scenario, 13.9 * DAY)

    assert (scenario.done, scenario.dead()) == (["other"], {})
    starts = scenario.starts_of("m0")
    # Once more, as the first attempt is not written ahead: a crash in it may go uncounted.
    assert [one.attempt for one in starts][-1] in (len(starts), len(starts) - 1)
    assert starts[-1].receive_count < NATIVE
    pauses = [later.at - earlier.at for earlier, later in itertools.pairwise(starts)]
    assert max(pauses[:12]) <= QUARTER + 60
    assert min(pauses[15:]) >= 0.75 * QUARTER
    # As often as the receives allow.
    assert max(pauses) <= (2 if what == "crash" else 1) * 3600
    scenario.put("cancel", ids=("m0",))
    go_on(scenario, 2 * 3600)
    assert scenario.cancelled() == ["m0"]
    assert scenario.done == ["other", "m1", "m2", "m3", "m4"]
    assert (scenario.violations, scenario.waiting("MAIN")) == ([], [])


@pytest.mark.parametrize("idempotency", [False, True])
@pytest.mark.parametrize("what", ["fail", "retry", "crash"])
def test_it_succeeds_at_last_and_its_group_goes_on(engine, what, idempotency):
    """Its attempts go on counting, and each of them is told."""
    scenario = blocking(engine, idempotency=idempotency)
    scenario.send("MAIN", "m0", *[what] * 6, "ok")
    scenario.send("MAIN", "m1")

    scenario.drain()

    assert scenario.done == ["m0", "m1"]
    assert scenario.dead() == {}
    recorder = scenario.world.recorder
    assert recorder.counts[Metric.BLOCKED] in (5, 4 if what == "crash" else 5)
    blocked = recorder.named(Event.GROUP_BLOCKED)
    assert [one["attempt"] for one in blocked] == ([] if what == "crash" else [2, 3, 4, 5, 6])
    assert scenario.violations == []


def test_a_delay_that_the_handler_asks_for_is_kept_while_the_receives_last(engine):
    """Three seconds, for ever, would use them up within an hour."""
    scenario = blocking(engine)
    scenario.send("MAIN", "m0", "retry")
    go_on(scenario, 13.9 * DAY)

    starts = scenario.starts_of("m0")
    assert starts[5].at - starts[4].at == pytest.approx(3, abs=1)
    assert starts[-1].receive_count < NATIVE


@pytest.mark.parametrize(
    ("patterns", "fate", "reason"),
    [
        ({"work": "block"}, ("fail", "fail", "fail", "dead"), "not wanted"),
        ({"work": "dead_letter", "*": "block"}, ("fail",), "attempts exhausted"),
        ({"other": "block"}, ("fail",), "attempts exhausted"),
    ],
    ids=["gives up", "excepted", "another kind"],
)
def test_all_others_are_dead_lettered(engine, patterns, fate, reason):
    """A message that its handler gives up, and those whose kind does not block."""
    scenario = blocking(engine, on_exhausted=patterns)
    scenario.send("MAIN", "m0", *fate)
    scenario.send("MAIN", "m1")

    scenario.drain()

    assert scenario.dead() == {"m0": reason}
    assert scenario.done == ["m1"]


def test_a_message_past_its_time_blocks_no_longer(engine):
    """It was its sender's word that nobody needs it then."""
    scenario = blocking(engine)
    expires = datetime.fromtimestamp(scenario.world.clock.now + 3600, UTC)
    message = Message(kind="work", data={"does": ["fail"]}, group="g", id="m0", expires=expires)
    scenario.world.send_body("MAIN", message.to_body(), group="g", deduplication_id="m0")
    scenario.send("MAIN", "m1")

    scenario.drain()

    assert (scenario.done, scenario.dead()) == (["m1"], {})
    assert len(scenario.world.recorder.named(Event.MESSAGE_EXPIRED)) == 1
    assert len(scenario.starts_of("m0")) > 5


def test_a_setting_that_is_taken_back_ends_the_block(engine):
    """The next try is a dead letter, with the error."""
    scenario = blocking(engine)
    scenario.send("MAIN", "m0", "fail")
    scenario.send("MAIN", "m1")
    go_on(scenario, 3600)
    assert scenario.dead() == {}

    scenario.world.config.consumer.on_exhausted.clear()
    scenario.drain()

    assert scenario.dead() == {"m0": "attempts exhausted"}
    assert scenario.done == ["m1"]


def test_a_message_that_is_moved_begins_anew_and_its_group_follows(engine):
    """In the lane of its new priority it blocks its group again."""
    lanes = ({"name": "HIGH", "threshold": 50}, {"name": "MAIN"})
    scenario = blocking(engine, lanes=lanes)
    scenario.send("MAIN", "m0", *["fail"] * 5, "ok")
    scenario.send("MAIN", "m1")
    go_on(scenario, 40)
    scenario.put("prioritize", ids=("m0",), priority=60, after=KNOWN_AFTER)

    scenario.drain()

    assert scenario.done == ["m0", "m1"]
    assert {scenario.lane_of(name) for name in ("m0", "m1")} == {"HIGH"}
    assert scenario.starts_of("m0")[-1].attempt < 6


@pytest.mark.parametrize("slots", [1, 3])
def test_a_blocked_group_of_a_higher_lane_does_not_hold_back_the_lower_one(engine, slots):
    """It waits for its next try, not for a slot."""
    lanes = ({"name": "HIGH", "threshold": 50}, {"name": "MAIN"})
    scenario = blocking(engine, lanes=lanes, slots=slots)
    scenario.send("HIGH", "m0", *["fail"] * 12, "ok", group="h")
    scenario.send("HIGH", "m1", group="h")
    go_on(scenario, 600, lane="HIGH")
    for number in range(20):
        scenario.send("MAIN", f"b{number}", group=f"g{number}")
    began = scenario.world.clock.now

    scenario.drain()

    assert max(one.at for one in scenario.starts if one.lane == "MAIN") - began < 30
    assert scenario.done[-2:] == ["m0", "m1"]


def test_those_of_a_batch_handler_block_each_its_own_group(engine):
    """After their first attempt they are called one by one, so a poison one spoils no other."""
    scenario = Overridden(
        {"consumer": {"max_attempts": 2, "on_exhausted": {"work": "block"}}, "lanes": [{"name": "MAIN"}]},
        engine=engine,
        max_size=10,
    )
    for number in range(6):
        fate = ("fail",) * 4 if number == 2 else ()
        scenario.send("MAIN", f"m{number}", *fate, "ok", group=f"g{number}")
        scenario.send("MAIN", f"n{number}", group=f"g{number}")

    scenario.drain()

    assert sorted(scenario.done[:-2]) == sorted(f"{name}{n}" for name in "mn" for n in range(6) if n != 2)
    assert scenario.done[-2:] == ["m2", "n2"]
    assert scenario.dead() == {}
