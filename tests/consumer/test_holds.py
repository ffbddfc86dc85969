"""A dead letter of a kind that asks for it holds its group: later ones follow it, until an operator lets them go."""

from random import Random

import pytest

from lanes.testing.calls import ProcessKilled
from tests.support.dead_letters import Killed
from tests.support.memory import aws_error
from tests.support.overriding import HOLDS, Overridden

SLOTS = [1, 3]


def held_scenario(*does, count=4, slots=1, batch_size=10, seed=1, **world):
    """Tell a scenario whose first message is given up, with others of its group and of another behind it."""
    lanes = [{"name": "HIGH", "threshold": 50}, {"name": "MAIN", "batch_size": batch_size}]
    consumer = HOLDS["consumer"] | {"reserved_concurrency": slots}
    scenario = Overridden({"lanes": lanes, "consumer": consumer}, environments=slots, seed=seed, **world)
    scenario.send("MAIN", "m0", *(does or ("fail", "fail", "ok")), group="g")
    for number in range(1, count):
        scenario.send("MAIN", f"m{number}", group="g")
    scenario.send("MAIN", "other", group="h")
    return scenario


@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("batch_size", [1, 2, 10])
def test_later_ones_of_the_group_follow_in_their_order(batch_size, slots):
    """Each says behind which one it is held; other groups go on."""
    scenario = held_scenario(batch_size=batch_size, slots=slots)

    scenario.drain()
    scenario.send("MAIN", "m4", group="g")
    scenario.drain()

    assert scenario.letters("MAIN") == ["m0", "m1", "m2", "m3", "m4"]
    assert scenario.reasons() == ["attempts exhausted", *["held behind m0"] * 4]
    assert scenario.done == ["other"]
    assert scenario.failures_of("m0") == 2
    scenario.check_each_ended_once()


def test_other_kinds_go_on():
    """That is what happens unless a kind asks for it."""
    scenario = held_scenario()
    scenario = Overridden({"consumer": {"on_dead_letter": {"payment.*": "hold"}, "max_attempts": 1}})
    scenario.send("MAIN", "m0", "fail")
    scenario.send("MAIN", "m1")

    scenario.drain()

    assert (scenario.letters("MAIN"), scenario.done) == (["m0"], ["m1"])
    assert scenario.world.hold_store.found == {}


def test_an_environment_that_read_the_overrides_before_handles_none_of_the_group():
    """The first dead letter stays in the way until everybody knows."""
    scenario = held_scenario("dead", count=2, slots=3, batch_size=1)
    scenario.send("MAIN", "warms up", group="w")
    for environment in (1, 2):
        messages = scenario.world.receive("MAIN", 1)
        if messages:
            scenario.invoke("MAIN", messages, environment=environment)
    for _ in range(40):
        for environment in (0, 1, 2):
            scenario.step("MAIN", environment=environment)
        scenario.world.clock.advance(0.5)

    assert scenario.letters("MAIN") == ["m0", "m1"]
    assert "m1" not in scenario.done


def test_the_hold_outlives_a_crash_between_it_and_its_dead_letter():
    """Whoever gets the message next gives it up with the reason that was written down."""
    scenario = held_scenario("dead")
    scenario.break_once(
        lambda operation: operation == "TransactWriteItems", ProcessKilled(), after_effect=True
    )

    scenario.drain()

    assert scenario.crashes == 1
    assert scenario.reasons() == ["not wanted", *["held behind m0"] * 3]
    scenario.check_each_ended_once()


@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("batch_size", [1, 10])
def test_a_redrive_brings_the_group_back_in_its_order(batch_size, slots):
    """First what was given up, then what was held, then what came while it was redriven."""
    scenario = held_scenario(batch_size=batch_size, slots=slots)
    scenario.drain()
    scenario.send("MAIN", "m4", group="g")
    progress = scenario.redrive()
    scenario.send("MAIN", "m5", group="g")

    scenario.drain()

    assert (progress.done, progress.failed, progress.released) == (4, {}, 1)
    assert scenario.done == ["other", "m0", "m1", "m2", "m3", "m4", "m5"]
    assert scenario.world.hold_store.found == {}
    scenario.check_each_ended_once()


def test_a_redrive_of_some_keeps_the_rest_held():
    """The group is let go when nothing of it is left."""
    scenario = held_scenario()
    scenario.drain()

    first = scenario.redrive(ids=("m0",))
    scenario.drain()
    second = scenario.redrive()
    scenario.drain()

    assert (first.done, first.released, second.done, second.released) == (1, 0, 3, 1)
    assert scenario.done == ["other", "m0", "m1", "m2", "m3"]


def test_a_copy_that_fails_again_holds_the_rest_again():
    """Those that were redriven with it follow it back."""
    scenario = held_scenario("fail")
    scenario.drain()
    scenario.redrive()
    scenario.send("MAIN", "m4", group="g")

    scenario.drain()

    assert scenario.letters("MAIN") == ["m0", "m1", "m2", "m3", "m4"] or sorted(scenario.letters("MAIN")) == [
        "m0",
        "m1",
        "m2",
        "m3",
        "m4",
    ]
    assert scenario.done == ["other"]
    assert scenario.world.hold_store.found.keys() == {("MAIN", "g")}


def test_deleting_all_of_its_dead_letters_lets_the_group_go():
    """Nothing is left to wait for."""
    scenario = held_scenario()
    scenario.drain()

    progress = scenario.redrive(copies=False)
    scenario.send("MAIN", "m4", group="g")
    scenario.drain()

    assert (progress.done, progress.released) == (4, 1)
    assert scenario.done == ["other", "m4"]


def test_a_hold_that_is_ended_by_hand_lets_later_ones_pass():
    """Its dead letters stay where they are."""
    scenario = held_scenario()
    scenario.drain()
    assert scenario.world.holds.end("MAIN", "g")
    scenario.send("MAIN", "m4", group="g")

    scenario.drain()

    assert scenario.done == ["other", "m4"]
    assert scenario.letters("MAIN") == ["m0", "m1", "m2", "m3"]


@pytest.mark.parametrize("seed", range(5))
def test_no_gap_opens_while_messages_keep_coming(seed):
    """Producers send, environments handle and runs are killed between any two calls: the order holds."""
    random = Random(seed)
    scenario = held_scenario(slots=2, batch_size=random.choice([1, 3, 10]), seed=seed)
    scenario.drain()
    numbers = iter(range(4, 30))

    def meanwhile(_name):
        if random.random() < 0.4 and (number := next(numbers, None)) is not None:
            scenario.send("MAIN", f"m{number}", group="g")
        if random.random() < 0.5:
            scenario.step("MAIN", random.choice([None, 1]), environment=random.randrange(2))
        if random.random() < 0.03:
            raise Killed

    for _ in range(60):
        try:
            scenario.redrive(before_call=meanwhile)
        except Killed:
            continue
        if next(numbers, None) is None:
            break
    while scenario.world.hold_store.found:
        scenario.drain()
        scenario.redrive()
        scenario.send("MAIN", f"last{scenario.world.clock.now}", group="g")
    scenario.drain()

    numbered = [int(one[1:]) for one in dict.fromkeys(scenario.done) if one.startswith("m")]
    assert numbered == sorted(numbered)
    scenario.check_each_ended_once(twice_allowed=True)


@pytest.mark.parametrize("operation", ["TransactWriteItems", "UpdateItem", "SendMessage", "BatchGetItem"])
@pytest.mark.parametrize("after_effect", [False, True])
@pytest.mark.parametrize("error", [ProcessKilled, aws_error])
def test_any_call_may_fail(operation, after_effect, error):
    """Once each, before or after it took effect."""
    scenario = held_scenario(batch_size=2)
    scenario.break_once(lambda name: name == operation, error(), after_effect=after_effect)
    scenario.drain()
    scenario.redrive()
    scenario.send("MAIN", "m4", group="g")

    scenario.drain()

    assert [one for one in dict.fromkeys(scenario.done) if one != "other"] == ["m0", "m1", "m2", "m3", "m4"]
    scenario.check_each_ended_once(twice_allowed=True)


def test_a_message_with_a_group_held_behind_it_is_a_dead_letter_even_if_it_was_cancelled():
    """The process died right after the hold began; else the group would be held behind nothing."""
    scenario = Overridden(HOLDS)
    scenario.send("MAIN", "m0", "fail")
    scenario.send("MAIN", "m1")
    scenario.break_once(
        lambda operation: operation == "TransactWriteItems", ProcessKilled(), after_effect=True
    )
    while not scenario.crashes:
        scenario.step("MAIN")
        scenario.world.clock.advance(5)
    scenario.put("cancel", ids=("m0",))

    scenario.drain()

    assert (scenario.letters("MAIN"), scenario.cancelled()) == (["m0", "m1"], [])


ENGINES = ["mappings", "pull"]
TWICE_DEAD = ("fail",) * 4 + ("ok",)
"""A message that is dead-lettered twice, with two attempts each, and then succeeds."""


def handled_in_order(scenario, count):
    """Redrive and handle until nothing is held; check that the group was handled in its order."""
    for _ in range(20):
        scenario.drain()
        if not scenario.world.hold_store.found:
            break
        scenario.redrive()
    assert [one for one in dict.fromkeys(scenario.done) if one != "other"] == [
        f"m{number}" for number in range(count)
    ]
    assert scenario.world.hold_store.found == {}
    scenario.check_each_ended_once(twice_allowed=True)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("limit", [1, 2, None])
def test_followers_stay_behind_a_message_that_fails_again(engine, limit):
    """A redrive with a limit leaves them in the dead-letter queue, where its new dead letter comes after them."""
    scenario = held_scenario(*TWICE_DEAD, engine=engine)
    scenario.drain()
    scenario.redrive(limit=limit)
    scenario.drain()
    scenario.send("MAIN", "m4", group="g")
    scenario.drain()
    assert "m0" in scenario.letters("MAIN")

    handled_in_order(scenario, 5)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("fails", [0, 7, 12])
def test_more_than_ten_letters_keep_their_order_when_one_fails_again(engine, fails):
    """A receive returns ten of a group at most: the others are still in the dead-letter queue then."""
    scenario = (
        held_scenario("dead", "ok", count=fails, engine=engine)
        if fails
        else held_scenario(*TWICE_DEAD, count=1, engine=engine)
    )
    if fails:
        scenario.send("MAIN", f"m{fails}", "dead", "ok", group="g")
    for number in range(fails + 1, 25):
        scenario.send("MAIN", f"m{number}", group="g")
    scenario.drain()

    handled_in_order(scenario, 25)


@pytest.mark.parametrize("seed", range(4))
def test_a_redrive_that_sorts_may_be_killed_anywhere(seed):
    """Between a letter's way to the end of its queue and its deletion there are two of it, and one copy."""
    random = Random(seed)
    scenario = held_scenario(*TWICE_DEAD, count=14, seed=seed)
    scenario.drain()
    scenario.redrive(limit=random.choice([1, 3, 12]))
    scenario.drain()

    def killed(_name):
        if random.random() < 0.05:
            raise Killed

    for _ in range(5):
        try:
            scenario.redrive(before_call=killed, limit=random.choice([2, None]))
        except Killed:
            scenario.world.clock.advance(random.choice([0, 40]))

    handled_in_order(scenario, 14)


@pytest.mark.parametrize("engine", ENGINES)
def test_copies_of_an_earlier_redrive_pass_in_no_later_one(engine):
    """The first of them failed again, and the group was opened for its new copy while the others waited."""
    scenario = held_scenario(*TWICE_DEAD, count=4, batch_size=1, engine=engine)
    scenario.drain()
    scenario.redrive()
    redriven = []

    def again(operation, _position):
        # The dead letter of the first copy has arrived; the copies behind it were not received yet.
        if operation == "DeleteMessage" and "m0" in scenario.letters("MAIN") and not redriven:
            redriven.append(scenario.redrive(limit=1))

    scenario.world.calls.break_if = again
    scenario.drain()
    assert redriven

    handled_in_order(scenario, 4)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("limit", [None, 4])
def test_a_copy_of_an_earlier_redrive_closes_the_group_again(engine, limit):
    """The copies of the later one are behind it in the lane: those that come before it in the group, and others."""
    scenario = held_scenario(*TWICE_DEAD, count=6, batch_size=1, engine=engine)
    scenario.drain()
    scenario.redrive(limit=4)
    redriven = []

    def again(operation, _position):
        # Two of the copies have followed the first one; the last one was not received yet.
        has_followed = {"m0", "m1", "m2"} <= set(scenario.letters("MAIN"))
        if operation == "DeleteMessage" and has_followed and not redriven:
            redriven.append(scenario.redrive(limit=limit))

    scenario.world.calls.break_if = again
    scenario.drain()
    assert redriven

    handled_in_order(scenario, 6)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_redrive_ends_no_hold_with_its_leader_on_the_way(engine):
    """It finds no dead letter of the group, since the leader waits until every environment knows of the hold."""
    scenario = held_scenario("dead", engine=engine)
    scenario.invoke("MAIN", scenario.world.receive("MAIN"))
    assert scenario.letters("MAIN") == []

    progress = scenario.redrive()
    assert progress.released == 0
    assert scenario.world.hold_store.found.keys() == {("MAIN", "g")}
    scenario.drain()

    assert (scenario.letters("MAIN"), scenario.done) == (["m0", "m1", "m2", "m3"], ["other"])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("copies", [True, False])
def test_a_redrive_leaves_a_group_alone_between_its_hold_and_its_dead_letter(engine, copies):
    """A copy that fails again is dead-lettered at once: until it arrives, nothing of its group passes."""
    scenario = held_scenario(*TWICE_DEAD, batch_size=1, engine=engine)
    scenario.drain()
    scenario.redrive(limit=1)
    during = []

    def meanwhile(operation, _position):
        if operation == "SendMessage" and not during:
            during.append(scenario.redrive(copies=copies))
            assert scenario.world.hold_store.found.keys() == {("MAIN", "g")}

    scenario.world.calls.break_if = meanwhile
    scenario.send("MAIN", "m4", group="g")
    scenario.drain()

    (progress,) = during
    assert (progress.done, progress.released) == (0 if copies else 3, 0)
    assert scenario.done == ["other"]
    if copies:
        handled_in_order(scenario, 5)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("after", [0, 3, 5.9])
def test_a_release_holds_although_the_leader_is_on_its_way(engine, after):
    """Its dead letter begins no hold again."""
    scenario = held_scenario("dead", engine=engine)
    scenario.invoke("MAIN", scenario.world.receive("MAIN"))
    scenario.world.clock.advance(after)

    assert scenario.world.holds.end("MAIN", "g")
    scenario.drain()

    assert scenario.letters("MAIN") == ["m0"]
    assert [one for one in scenario.done if one != "other"] == ["m1", "m2", "m3"]
    assert scenario.world.hold_store.found == {}
    scenario.check_each_ended_once()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_slow_beginning_of_a_hold_keeps_its_leader_for_longer(engine):
    """Its call was repeated after a timeout; a reading from just before it is in use for five seconds."""
    scenario = held_scenario("dead", count=2, slots=2, batch_size=1, engine=engine)
    slow = []

    def takes(operation):
        if operation == "TransactWriteItems" and not slow:
            scenario.world.clock.advance(4.0)
            slow.append(scenario.world.clock.now)

    scenario.world.calls.takes = takes
    scenario.invoke("MAIN", scenario.world.receive("MAIN", 1))
    scenario.drain()

    (arrived,) = [
        one["dead_lettered_at"]
        for one in (message.attributes for message in scenario.world.queues.dead["MAIN"]._store.messages())
        if one["reason"] == "not wanted"
    ]
    assert arrived >= slow[0] + 5.0
    assert scenario.letters("MAIN") == ["m0", "m1"]


@pytest.mark.parametrize("engine", ENGINES)
def test_no_hold_ends_although_its_followers_changed(engine):
    """One followed into the dead-letter queue after the redrive had looked at the hold for the last time."""
    scenario = held_scenario("dead", "ok", engine=engine)
    scenario.drain()
    holds, answers = scenario.world.holds, []
    let_go = holds.let_go

    def late(hold):
        if not answers:
            scenario.send("MAIN", "m4", group="g")
            scenario.step("MAIN")
        answers.append(let_go(hold))
        return answers[-1]

    holds.let_go = late
    scenario.redrive(copies=False)

    assert answers == [False, True]
    assert scenario.done == ["other"]
