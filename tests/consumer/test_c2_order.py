"""C2: within a lane, messages of one group are handled in the order they were sent."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.memory import aws_error
from tests.support.story import Story


def first_done(story, group="g"):
    """Return the ids of a group in the order in which they were done first."""
    of_group = {sent.id for sent in story.sent if sent.group == group}
    return [name for name in dict.fromkeys(story.done) if name in of_group]


@pytest.mark.parametrize("batch_size", range(1, 11))
def test_a_failure_holds_its_group_and_nobody_else(batch_size):
    """At every batch size."""
    story = Story({"lanes": [{"name": "MAIN", "batch_size": batch_size}]})
    for number in range(12):
        does = ("fail", "ok") if number in (2, 3) else ("ok",)
        story.send("MAIN", f"a{number}", *does, group="a")
        story.send("MAIN", f"b{number}", group="b")

    story.drain()

    for group in "ab":
        assert first_done(story, group) == [f"{group}{number}" for number in range(12)]
    story.check_kept()


@pytest.mark.parametrize("what", ["fail", "retry", "dead", "exit", "crash", "check"])
def test_nothing_behind_a_record_starts_before_it_is_resolved(what):
    """Whatever ends its first attempt."""
    story = Story()
    for number in range(10):
        story.send("MAIN", f"m{number}", *((what, "ok") if number in (0, 4) else ("ok",)))
    story.in_handler = lambda message: (
        story.send("HIGH", f"h{len(story.sent)}") and story.world.clock.advance(0.3)
        if message.data["does"][0] == "check" and len(story.sent) < 15
        else None
    )

    story.drain()

    story.check_kept()


def test_a_yield_keeps_the_order_of_what_it_returns():
    """All of the group return together."""
    story = Story()
    for number in range(10):
        story.send("MAIN", f"m{number}")
    story.in_handler = lambda message: story.send("HIGH", "high") if message.id == "m3" else None
    story.takes = 0.3

    story.drain()

    assert first_done(story) == [*[f"m{number}" for number in range(4)], "high"] + [
        f"m{number}" for number in range(4, 10)
    ]
    story.check_kept()


def test_a_postponed_record_holds_its_group():
    """Its attempt could not be announced, so nothing behind it may run."""
    story = Story()
    story.send("MAIN", "a", "fail", "ok")
    story.send("MAIN", "b")
    story.step("MAIN")
    story.world.clock.advance(5)
    story.world.calls.break_if = lambda operation, _: aws_error() if operation == "PutItem" else None

    story.step("MAIN")
    story.world.calls.break_if = lambda _operation, _: None
    story.drain()

    assert story.done == ["a", "b"]
    story.check_kept()


def test_a_record_whose_id_is_handled_elsewhere_holds_its_group():
    """It is postponed with all behind it."""
    story = Story({"consumer": {"idempotency": True, "reserved_concurrency": 2}}, environments=2)
    story.send("MAIN", "a", group="other")
    story.send("MAIN", "a")
    story.send("MAIN", "b")
    (first,) = story.world.receive("MAIN", 1)
    story.in_handler = lambda message: story.step("MAIN", environment=1) if message.id == "a" else None

    story.invoke("MAIN", [first])
    story.drain()

    assert story.done == ["a", "b"]


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_record_that_is_not_ours_any_more_holds_its_group(lost):
    """Its visibility could not be extended: another invocation may have it."""
    story = Story()
    for number in range(3):
        story.send("MAIN", f"m{number}")
    messages = story.world.receive("MAIN")
    story.world.clock.advance(170)
    queues = story.world.queues
    change = queues.change_visibility

    def refusing(lane, changes):
        gone = messages[lost].message_id
        refused = change(lane, [item for item in changes if item.message_id != gone])
        return [*refused, *(item.message_id for item in changes if item.message_id == gone)]

    queues.change_visibility = refusing
    story.invoke("MAIN", messages)
    del queues.change_visibility

    assert story.starts == []
    story.drain()
    assert story.done == ["m0", "m1", "m2"]
    story.check_kept()


def test_a_batch_that_arrives_with_little_visibility_left_is_held_first():
    """Throttled for most of it: without more, it would return in the middle of the work."""
    story = Story()
    story.takes = 5
    for number in range(5):
        story.send("MAIN", f"m{number}")
    messages = story.world.receive("MAIN")
    story.world.clock.advance(175)
    received = []
    story.in_handler = lambda _message: received.extend(story.world.receive("MAIN"))

    story.invoke("MAIN", messages)

    assert received == []
    assert story.done == ["m0", "m1", "m2", "m3", "m4"]
    story.check_kept()


def test_a_batch_that_arrives_too_late_is_not_handled():
    """Its records are visible again and with another invocation."""
    story = Story(environments=2)
    for number in range(3):
        story.send("MAIN", f"m{number}")
    late = story.world.receive("MAIN")
    story.world.clock.advance(181)
    story.step("MAIN", environment=1)

    story.invoke("MAIN", late, environment=0)

    assert story.done == ["m0", "m1", "m2"]
    story.check_kept()


def test_time_that_runs_out_keeps_the_order():
    """What goes back untouched returns with all of its group."""
    story = Story({"consumer": {"record_time": 9}})
    story.takes = 9
    for number in range(9):
        story.send("MAIN", f"m{number}")

    story.drain()

    assert story.done == [f"m{number}" for number in range(9)]
    story.check_kept()


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
def test_the_order_holds_in_any_mixture(messages, batch_size, slots, idempotency, seed):
    """Of lanes, groups, fates, batch sizes and slots; checked at the start of each handler."""
    story = Story(
        {
            "lanes": [
                {"name": "HIGH", "threshold": 50, "batch_size": batch_size},
                {"name": "MAIN", "batch_size": batch_size},
            ],
            "consumer": {"reserved_concurrency": slots, "idempotency": idempotency, "max_attempts": 9},
        },
        environments=slots,
        seed=seed,
    )
    random = Random(seed)
    story.takes = random.choice([0.01, 0.3, 8])
    for number, (lane, group, does) in enumerate(messages):
        story.send(lane, f"m{number}", *does, group=group)

    story.drain()

    assert story.dead() == {}
    for lane in ("HIGH", "MAIN"):
        for group in "abc":
            mine = [sent.id for sent in story.sent if (sent.lane, sent.group) == (lane, group)]
            assert [name for name in dict.fromkeys(story.done) if name in mine] == mine
    story.check_kept()
