"""C2: within a lane, messages of one group are handled in the order they were sent."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.memory import IN_PLACE, aws_error
from tests.support.scenario import Scenario


def first_done(scenario, group="g"):
    """Return the ids of a group in the order in which they were done first."""
    of_group = {sent.id for sent in scenario.sent if sent.group == group}
    return [name for name in dict.fromkeys(scenario.done) if name in of_group]


def test_nothing_behind_a_record_starts_before_it_is_a_dead_letter(engine):
    """At its first attempt."""
    scenario = Scenario(engine=engine)
    for number in range(10):
        scenario.send("MAIN", f"m{number}", "dead" if number in (0, 4) else "ok")

    scenario.drain()

    scenario.check_kept()


def test_a_yield_keeps_the_order_of_what_it_returns(engine):
    """All of the group return together."""
    scenario = Scenario(engine=engine)
    for number in range(10):
        scenario.send("MAIN", f"m{number}")
    scenario.in_handler = lambda message: scenario.send("HIGH", "high") if message.id == "m3" else None
    scenario.takes = 0.3

    scenario.drain()

    assert first_done(scenario) == [*[f"m{number}" for number in range(4)], "high"] + [
        f"m{number}" for number in range(4, 10)
    ]
    scenario.check_kept()


def test_a_postponed_record_holds_its_group(engine):
    """Its attempt could not be announced, so nothing behind it may run."""
    scenario = Scenario(engine=engine)
    scenario.send("MAIN", "a", "fail", "ok")
    scenario.send("MAIN", "b")
    scenario.step("MAIN")
    scenario.world.clock.advance(5)
    scenario.world.calls.break_if = lambda operation, _: aws_error() if operation == "PutItem" else None

    scenario.step("MAIN")
    scenario.world.calls.break_if = lambda _operation, _: None
    scenario.drain()

    assert scenario.done == ["a", "b"]
    scenario.check_kept()


def test_a_record_whose_id_is_handled_elsewhere_holds_its_group(engine):
    """It is postponed with all behind it."""
    scenario = Scenario(
        {"consumer": {"idempotency": True, "reserved_concurrency": 2}}, environments=2, engine=engine
    )
    scenario.send("MAIN", "a", group="other")
    scenario.send("MAIN", "a")
    scenario.send("MAIN", "b")
    (first,) = scenario.world.receive("MAIN", 1)
    scenario.in_handler = lambda message: scenario.step("MAIN", environment=1) if message.id == "a" else None

    scenario.invoke("MAIN", [first])
    scenario.drain()

    assert scenario.done == ["a", "b"]


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_record_that_is_not_ours_any_more_holds_its_group(engine, lost):
    """Its visibility could not be extended: another invocation may have it."""
    scenario = Scenario(engine=engine)
    for number in range(3):
        scenario.send("MAIN", f"m{number}")
    messages = scenario.world.receive("MAIN")
    scenario.world.clock.advance(170)
    queues = scenario.world.queues
    change = queues.change_visibility

    def refusing(lane, changes):
        gone = messages[lost].message_id
        refused = change(lane, [item for item in changes if item.message_id != gone])
        return [*refused, *(item.message_id for item in changes if item.message_id == gone)]

    queues.change_visibility = refusing
    scenario.invoke("MAIN", messages)
    del queues.change_visibility

    # A slot that goes on after its mapping's batch receives those before it again.
    assert {start.id for start in scenario.starts} == set(["m0", "m1"][:lost] if engine == IN_PLACE else [])
    scenario.drain()
    assert scenario.done == ["m0", "m1", "m2"]
    scenario.check_kept()


def test_a_batch_that_arrives_with_little_visibility_left_is_held_first(engine):
    """Throttled for most of it: without more, it would return in the middle of the work."""
    scenario = Scenario(engine=engine)
    scenario.takes = 5
    for number in range(5):
        scenario.send("MAIN", f"m{number}")
    messages = scenario.world.receive("MAIN")
    scenario.world.clock.advance(175)
    received = []
    scenario.in_handler = lambda _message: received.extend(scenario.world.receive("MAIN"))

    scenario.invoke("MAIN", messages)

    assert received == []
    assert scenario.done == ["m0", "m1", "m2", "m3", "m4"]
    scenario.check_kept()


def test_a_batch_that_arrives_too_late_is_not_handled(engine):
    """Its records are visible again and with another invocation."""
    scenario = Scenario(environments=2, engine=engine)
    for number in range(3):
        scenario.send("MAIN", f"m{number}")
    late = scenario.world.receive("MAIN")
    scenario.world.clock.advance(181)
    scenario.step("MAIN", environment=1)

    scenario.invoke("MAIN", late, environment=0)

    assert scenario.done == ["m0", "m1", "m2"]
    scenario.check_kept()


what_happens = st.lists(st.sampled_from(["fail", "retry", "crash", "check", "exit"]), max_size=3).map(
    lambda does: (*does, "ok")
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    messages=st.lists(
        st.tuples(st.sampled_from(["HIGH", "MAIN"]), st.sampled_from("abc"), what_happens),
        min_size=1,
        max_size=25,
    ),
    batch_size=st.integers(1, 10),
    slots=st.sampled_from([1, 3]),
    idempotency=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_the_order_holds_in_any_mixture(engine, messages, batch_size, slots, idempotency, seed):  # noqa: PLR0917
    """Of lanes, groups, fates, batch sizes and slots; checked at the start of each handler."""
    scenario = Scenario(
        {
            "lanes": [
                {"name": "HIGH", "threshold": 50, "batch_size": batch_size},
                {"name": "MAIN", "batch_size": batch_size},
            ],
            "consumer": {"reserved_concurrency": slots, "idempotency": idempotency, "max_attempts": 9},
        },
        environments=slots,
        seed=seed,
        engine=engine,
    )
    random = Random(seed)
    scenario.takes = random.choice([0.01, 0.3, 8])
    for number, (lane, group, does) in enumerate(messages):
        scenario.send(lane, f"m{number}", *does, group=group)

    scenario.drain()

    assert scenario.dead() == {}
    for lane in ("HIGH", "MAIN"):
        for group in "abc":
            mine = [sent.id for sent in scenario.sent if (sent.lane, sent.group) == (lane, group)]
            assert [name for name in dict.fromkeys(scenario.done) if name in mine] == mine
    scenario.check_kept()


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize(("first", "idempotency"), [("fail", False), ("retry", False), ("ok", True)])
def test_the_records_of_a_group_return_at_one_moment(engine, first, idempotency, slots):
    """Failed, behind it, or held by another delivery: with two moments a later one could be received alone."""
    scenario = Scenario(
        {"consumer": {"reserved_concurrency": slots, "idempotency": idempotency}},
        environments=slots,
        engine=engine,
    )
    changes = []
    change = scenario.world.queues.change_visibility

    def noting(lane, asked):
        changes.extend((one.message_id, one.seconds) for one in asked)
        return change(lane, asked)

    scenario.world.queues.change_visibility = noting
    sent = [scenario.send("MAIN", "a", first, "ok"), scenario.send("MAIN", "b"), scenario.send("MAIN", "c")]
    if idempotency:
        scenario.world.ledger.begin_effect(
            "lanes#work#a",
            owner="other/delivery",
            now=scenario.world.clock.now,
            until=scenario.world.clock.now + 9,
        )

    scenario.invoke("MAIN", scenario.world.receive("MAIN"))

    # The first is the rest of the invocation, for the case that its process dies.
    delays = {name: [seconds for one, seconds in changes if one == name] for name in sent}
    assert len(delays[sent[0]]) == 2
    assert delays[sent[0]][-1] != 0
    assert delays[sent[1]] == delays[sent[2]] == delays[sent[0]]
