"""A dead letter of a kind that asks for it holds its group: later ones follow it, until an operator lets them go."""

from random import Random

import pytest

from tests.support.dead_letters import Killed
from tests.support.memory import ProcessLost, aws_error
from tests.support.overriding import HOLDS, Overridden

SLOTS = [1, 3]


def held_scenario(*does, count=4, slots=1, batch_size=10, seed=1):
    """Tell a scenario whose first message is given up, with others of its group and of another behind it."""
    lanes = [{"name": "HIGH", "threshold": 50}, {"name": "MAIN", "batch_size": batch_size}]
    consumer = HOLDS["consumer"] | {"reserved_concurrency": slots}
    scenario = Overridden({"lanes": lanes, "consumer": consumer}, environments=slots, seed=seed)
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
    assert scenario.world.holds.found == {}


def test_an_environment_that_read_the_board_before_handles_none_of_the_group():
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
    scenario.break_once(lambda operation: operation == "TransactWriteItems", ProcessLost(), after_effect=True)

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
    assert scenario.world.holds.found == {}
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
    assert scenario.world.holds.found.keys() == {("MAIN", "g")}


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


@pytest.mark.parametrize("seed", range(12))
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
    while scenario.world.holds.found:
        scenario.drain()
        scenario.redrive()
        scenario.send("MAIN", f"last{scenario.world.clock.now}", group="g")
    scenario.drain()

    numbered = [int(one[1:]) for one in dict.fromkeys(scenario.done) if one.startswith("m")]
    assert numbered == sorted(numbered)
    scenario.check_each_ended_once(twice_allowed=True)


@pytest.mark.parametrize("operation", ["TransactWriteItems", "UpdateItem", "SendMessage", "BatchGetItem"])
@pytest.mark.parametrize("after_effect", [False, True])
@pytest.mark.parametrize("error", [ProcessLost, aws_error])
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
    scenario.break_once(lambda operation: operation == "TransactWriteItems", ProcessLost(), after_effect=True)
    while not scenario.crashes:
        scenario.step("MAIN")
        scenario.world.clock.advance(5)
    scenario.put("cancel", ids=("m0",))

    scenario.drain()

    assert (scenario.letters("MAIN"), scenario.cancelled()) == (["m0", "m1"], [])
