"""A dead letter of a kind that asks for it holds its group: later ones follow it, until an operator lets them go."""

from random import Random

import pytest

from tests.support.dead_letters import Killed
from tests.support.memory import ProcessLost, aws_error
from tests.support.overriding import HOLDS, Overridden

SLOTS = [1, 3]


def held_story(*does, count=4, slots=1, batch_size=10, seed=1):
    """Tell a story whose first message is given up, with others of its group and of another behind it."""
    lanes = [{"name": "HIGH", "threshold": 50}, {"name": "MAIN", "batch_size": batch_size}]
    consumer = HOLDS["consumer"] | {"reserved_concurrency": slots}
    story = Overridden({"lanes": lanes, "consumer": consumer}, environments=slots, seed=seed)
    story.send("MAIN", "m0", *(does or ("fail", "fail", "ok")), group="g")
    for number in range(1, count):
        story.send("MAIN", f"m{number}", group="g")
    story.send("MAIN", "other", group="h")
    return story


@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("batch_size", [1, 2, 10])
def test_later_ones_of_the_group_follow_in_their_order(batch_size, slots):
    """Each says behind which one it is held; other groups go on."""
    story = held_story(batch_size=batch_size, slots=slots)

    story.drain()
    story.send("MAIN", "m4", group="g")
    story.drain()

    assert story.letters("MAIN") == ["m0", "m1", "m2", "m3", "m4"]
    assert story.reasons() == ["attempts exhausted", *["held behind m0"] * 4]
    assert story.done == ["other"]
    assert story.failures_of("m0") == 2
    story.check_each_ended_once()


def test_other_kinds_go_on():
    """That is what happens unless a kind asks for it."""
    story = held_story()
    story = Overridden({"consumer": {"on_dead_letter": {"payment.*": "hold"}, "max_attempts": 1}})
    story.send("MAIN", "m0", "fail")
    story.send("MAIN", "m1")

    story.drain()

    assert (story.letters("MAIN"), story.done) == (["m0"], ["m1"])
    assert story.world.holds.found == {}


def test_an_environment_that_read_the_board_before_handles_none_of_the_group():
    """The first dead letter stays in the way until everybody knows."""
    story = held_story("dead", count=2, slots=3, batch_size=1)
    story.send("MAIN", "warms up", group="w")
    for environment in (1, 2):
        messages = story.world.receive("MAIN", 1)
        if messages:
            story.invoke("MAIN", messages, environment=environment)
    for _ in range(40):
        for environment in (0, 1, 2):
            story.step("MAIN", environment=environment)
        story.world.clock.advance(0.5)

    assert story.letters("MAIN") == ["m0", "m1"]
    assert "m1" not in story.done


def test_the_hold_outlives_a_crash_between_it_and_its_dead_letter():
    """Whoever gets the message next gives it up with the reason that was written down."""
    story = held_story("dead")
    story.break_once(lambda operation: operation == "TransactWriteItems", ProcessLost(), after_effect=True)

    story.drain()

    assert story.crashes == 1
    assert story.reasons() == ["not wanted", *["held behind m0"] * 3]
    story.check_each_ended_once()


@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("batch_size", [1, 10])
def test_a_redrive_brings_the_group_back_in_its_order(batch_size, slots):
    """First what was given up, then what was held, then what came while it was redriven."""
    story = held_story(batch_size=batch_size, slots=slots)
    story.drain()
    story.send("MAIN", "m4", group="g")
    progress = story.redrive()
    story.send("MAIN", "m5", group="g")

    story.drain()

    assert (progress.done, progress.failed, progress.released) == (4, {}, 1)
    assert story.done == ["other", "m0", "m1", "m2", "m3", "m4", "m5"]
    assert story.world.holds.found == {}
    story.check_each_ended_once()


def test_a_redrive_of_some_keeps_the_rest_held():
    """The group is let go when nothing of it is left."""
    story = held_story()
    story.drain()

    first = story.redrive(ids=("m0",))
    story.drain()
    second = story.redrive()
    story.drain()

    assert (first.done, first.released, second.done, second.released) == (1, 0, 3, 1)
    assert story.done == ["other", "m0", "m1", "m2", "m3"]


def test_a_copy_that_fails_again_holds_the_rest_again():
    """Those that were redriven with it follow it back."""
    story = held_story("fail")
    story.drain()
    story.redrive()
    story.send("MAIN", "m4", group="g")

    story.drain()

    assert story.letters("MAIN") == ["m0", "m1", "m2", "m3", "m4"] or sorted(story.letters("MAIN")) == [
        "m0",
        "m1",
        "m2",
        "m3",
        "m4",
    ]
    assert story.done == ["other"]
    assert story.world.holds.found.keys() == {("MAIN", "g")}


def test_deleting_all_of_its_dead_letters_lets_the_group_go():
    """Nothing is left to wait for."""
    story = held_story()
    story.drain()

    progress = story.redrive(copies=False)
    story.send("MAIN", "m4", group="g")
    story.drain()

    assert (progress.done, progress.released) == (4, 1)
    assert story.done == ["other", "m4"]


def test_a_hold_that_is_ended_by_hand_lets_later_ones_pass():
    """Its dead letters stay where they are."""
    story = held_story()
    story.drain()
    assert story.world.holds.end("MAIN", "g")
    story.send("MAIN", "m4", group="g")

    story.drain()

    assert story.done == ["other", "m4"]
    assert story.letters("MAIN") == ["m0", "m1", "m2", "m3"]


@pytest.mark.parametrize("seed", range(12))
def test_no_gap_opens_while_messages_keep_coming(seed):
    """Producers send, environments handle and runs are killed between any two calls: the order holds."""
    random = Random(seed)
    story = held_story(slots=2, batch_size=random.choice([1, 3, 10]), seed=seed)
    story.drain()
    numbers = iter(range(4, 30))

    def meanwhile(_name):
        if random.random() < 0.4 and (number := next(numbers, None)) is not None:
            story.send("MAIN", f"m{number}", group="g")
        if random.random() < 0.5:
            story.step("MAIN", random.choice([None, 1]), environment=random.randrange(2))
        if random.random() < 0.03:
            raise Killed

    for _ in range(60):
        try:
            story.redrive(before_call=meanwhile)
        except Killed:
            continue
        if next(numbers, None) is None:
            break
    while story.world.holds.found:
        story.drain()
        story.redrive()
        story.send("MAIN", f"last{story.world.clock.now}", group="g")
    story.drain()

    numbered = [int(one[1:]) for one in dict.fromkeys(story.done) if one.startswith("m")]
    assert numbered == sorted(numbered)
    story.check_each_ended_once(twice_allowed=True)


@pytest.mark.parametrize("operation", ["TransactWriteItems", "UpdateItem", "SendMessage", "BatchGetItem"])
@pytest.mark.parametrize("after_effect", [False, True])
@pytest.mark.parametrize("error", [ProcessLost, aws_error])
def test_any_call_may_fail(operation, after_effect, error):
    """Once each, before or after it took effect."""
    story = held_story(batch_size=2)
    story.break_once(lambda name: name == operation, error(), after_effect=after_effect)
    story.drain()
    story.redrive()
    story.send("MAIN", "m4", group="g")

    story.drain()

    assert [one for one in dict.fromkeys(story.done) if one != "other"] == ["m0", "m1", "m2", "m3", "m4"]
    story.check_each_ended_once(twice_allowed=True)
