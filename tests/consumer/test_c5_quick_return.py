"""C5: a yield is quick to return, and quiet until then."""

import pytest

from lanes.consumer.ledger import Park
from tests.support.memory import ProcessLost, aws_error
from tests.support.story import Story

SECONDS = 1.0


def yielded_behind_high(raw=None, *, environments=1, **options):
    """
    Tell a story up to the point where a batch of MAIN has yielded to HIGH.

    HIGH has a full batch for each slot, all with its mapping; they are returned beside the story.
    """
    story = Story(raw, environments=environments, **options)
    for number in range(3):
        story.send("MAIN", f"main{number}", group=f"g{number % 2}")
    batches = []
    for slot in range(story.world.config.consumer.reserved_concurrency):
        for number in range(10):
            story.send("HIGH", f"high{slot}{number}", group=f"g{slot}{number}")
        batches.append(story.world.receive("HIGH"))
    story.step("MAIN")
    assert story.starts == []
    return story, batches


def parked(story):
    """Return the entries that are parked now."""
    return [entry for entry in story.world.ledger.entries.values() if entry.park is not None]


def receivable(story, lane="MAIN"):
    """Whether a receive would find something now."""
    return story.world.queues.live[lane].is_receivable()


def test_all_records_of_a_yielded_batch_are_parked_alike_and_within_the_bounds_of_the_lane():
    """Whole seconds, the same for every group of the batch."""
    story, _ = yielded_behind_high()

    (delay,) = {round(entry.parked_until - entry.noted_at, 3) for entry in parked(story)}
    assert len(parked(story)) == 3
    assert 5 <= delay <= 15


@pytest.mark.parametrize("seed", range(8))
def test_the_bounds_are_the_lanes_own(seed):
    """Each lane may have its own, and the delay is spread over them."""
    raw = {
        "lanes": [
            {"name": "HIGH", "threshold": 50},
            {"name": "MAIN", "yield_delay_min": 30, "yield_delay_max": 40},
        ]
    }
    story, _ = yielded_behind_high(raw, seed=seed)

    assert all(30 <= entry.parked_until - entry.noted_at <= 40 for entry in parked(story))


def test_yielded_records_return_at_once_when_the_lanes_above_are_empty():
    """The last invocation of the higher lane wakes them."""
    story, (held,) = yielded_behind_high()
    assert not receivable(story)

    story.invoke("HIGH", held)

    assert receivable(story)
    assert parked(story) == []
    story.drain()
    assert story.done[0] == "high00"
    story.check_kept()


def test_they_return_by_themselves_if_nobody_wakes_them():
    """The parking ends, whatever happens to those who could have woken them."""
    story, (held,) = yielded_behind_high()
    until = max(entry.parked_until for entry in parked(story))
    story.world.calls.break_if = lambda operation, _: (
        aws_error() if operation == "TransactWriteItems" else None
    )
    story.invoke("HIGH", held)
    assert not receivable(story)

    story.world.clock.now = until

    assert receivable(story)
    story.drain()
    story.check_kept()


@pytest.mark.parametrize("operation", ["TransactWriteItems", "ChangeMessageVisibilityBatch"])
@pytest.mark.parametrize("after_effect", [False, True])
def test_a_waker_that_dies_leaves_them_parked_at_worst(operation, after_effect):
    """Before, between and after its two steps."""
    story, (held,) = yielded_behind_high()
    story.break_once(
        lambda name: name == operation and bool(story.done), ProcessLost(), after_effect=after_effect
    )

    story.invoke("HIGH", held)
    assert story.crashes == 1
    story.world.clock.advance(16)

    assert receivable(story)
    story.drain()
    story.check_kept()


def test_nothing_is_woken_while_another_batch_waits_above():
    """What the invocation has done itself is told apart from what its mapping still holds."""
    story = Story()
    story.send("MAIN", "main")
    for number in range(20):
        story.send("HIGH", f"high{number}", group=f"g{number}")
    first, second = story.world.receive("HIGH"), story.world.receive("HIGH")
    story.step("MAIN")

    story.invoke("HIGH", first)
    woken_early = receivable(story)
    story.invoke("HIGH", second)

    assert not woken_early
    assert receivable(story)


def test_the_highest_lane_that_is_parked_is_woken_first():
    """And the next one by the invocation after."""
    story = Story()
    story.send("MAIN", "main")
    story.send("MEDIUM", "medium")
    story.send("HIGH", "high")
    held = story.world.receive("HIGH")
    story.step("MAIN")
    story.step("MEDIUM")

    story.invoke("HIGH", held)
    assert (receivable(story, "MEDIUM"), receivable(story, "MAIN")) == (True, False)
    story.step("MEDIUM")

    assert receivable(story, "MAIN")
    story.drain()
    assert story.done == ["high", "medium", "main"]


def test_batches_that_were_parked_first_are_woken_first():
    """One batch for the one slot there is."""
    story = Story()
    for number in range(20):
        story.send("MAIN", f"main{number}", group=f"g{number}")
    story.send("HIGH", "high")
    held = story.world.receive("HIGH")
    story.step("MAIN")
    story.world.clock.advance(0.5)
    story.step("MAIN")

    story.invoke("HIGH", held)

    (woken,) = story.world.recorder.named("batch_woken")
    assert (woken["lane"], woken["by_lane"], woken["records"]) == ("MAIN", "HIGH", 10)
    assert len(set(woken["message_ids"])) == 10
    story.step("MAIN")
    assert sorted(story.done[1:]) == sorted(f"main{number}" for number in range(10))


def test_as_many_batches_are_woken_as_there_are_slots_free():
    """The one of whoever wakes included."""
    story = Story({"consumer": {"reserved_concurrency": 3}}, environments=3)
    for number in range(40):
        story.send("MAIN", f"main{number}", group=f"g{number}")
    for number in range(40):
        story.send("HIGH", f"high{number}", group=f"g{number}")
    held = [story.world.receive("HIGH") for _ in range(4)]
    for environment in (0, 1, 2, 0):
        story.step("MAIN", environment=environment)
    assert story.starts == []

    for batch in held:
        story.invoke("HIGH", batch, environment=0)

    assert [event["records"] for event in story.world.recorder.named("batch_woken")] == [30]


def test_no_more_is_woken_at_once_than_one_transaction_takes():
    """With very many slots: a hundred records are noted as woken together, or none is."""
    story = Story({"consumer": {"reserved_concurrency": 20}}, environments=1)
    for number in range(200):
        story.send("MAIN", f"main{number}", group=f"g{number}")
        story.send("HIGH", f"high{number}", group=f"g{number}")
    held = [story.world.receive("HIGH") for _ in range(20)]
    for _ in range(20):
        story.step("MAIN")
    assert story.starts == []

    for batch in held:
        story.invoke("HIGH", batch)

    assert max(event["records"] for event in story.world.recorder.named("batch_woken")) == 100


def test_two_wakers_wake_a_batch_once():
    """Whoever comes second finds it noted as no longer parked, and touches nothing."""
    story, (one, two) = yielded_behind_high({"consumer": {"reserved_concurrency": 2}}, environments=2)
    story.invoke("HIGH", one, environment=0)
    interrupted = []

    def interrupt(operation):
        if operation == "TransactWriteItems" and not interrupted:
            interrupted.append(operation)
            story.send("MEDIUM", "between")
            story.step("MEDIUM", environment=1)
        return False

    story.break_once(interrupt, aws_error())
    story.invoke("HIGH", two, environment=0)

    assert "between" in story.done
    assert story.world.recorder.counts["WokenMessages"] == 3
    story.drain()
    story.check_kept()


def test_a_stale_receipt_wakes_nothing():
    """The record came back and was taken again between the two steps of the waker: its new visibility stands."""
    story, (held,) = yielded_behind_high()
    again = []

    def interrupt(_operation):
        if story.world.calls.log[-2] == "TransactWriteItems":
            story.world.clock.advance(16)
            again.extend(story.world.receive("MAIN"))
        return False

    story.break_once(interrupt, aws_error())
    story.invoke("HIGH", held)

    assert len(again) == 3
    assert not receivable(story)
    story.invoke("MAIN", again)
    story.drain()
    story.check_kept()


def test_a_group_with_a_failed_record_is_not_woken_before_its_backoff_ends():
    """Its other records were parked by the same yield, and wait for it."""
    story = Story({"consumer": {"backoff_base": 60}})
    story.send("MAIN", "a", "fail", "ok", group="one")
    story.send("MAIN", "b", group="two")
    story.send("MAIN", "c", group="one")
    story.in_handler = lambda message: story.send("HIGH", "high") if message.id == "a" else None
    story.takes = 0.3
    story.step("MAIN")
    assert [start.id for start in story.starts] == ["a"]

    story.step("HIGH")

    parks = {entry.park for entry in parked(story)}
    assert parks == {Park.REST}
    (again,) = story.world.receive("MAIN")
    assert again.group == "two"


def test_parked_records_cost_no_receive_until_they_return():
    """Quiet: the mapping finds nothing to take while they are parked."""
    story, _ = yielded_behind_high()
    until = min(entry.parked_until for entry in parked(story))

    while story.world.clock.now + SECONDS < until:
        assert story.world.receive("MAIN") == []
        story.world.clock.advance(SECONDS)


def test_an_environment_wakes_what_another_one_parked():
    """Who parks and who wakes need not be the same process."""
    story, (one, two) = yielded_behind_high({"consumer": {"reserved_concurrency": 2}}, environments=2)

    story.invoke("HIGH", one, environment=0)
    assert not receivable(story)
    story.invoke("HIGH", two, environment=1)

    assert receivable(story)


def test_a_refused_change_of_visibility_only_delays():
    """The records return when the visibility they had ends, in their order."""
    story = Story()
    story.send("MAIN", "a")
    story.send("MAIN", "b")
    story.send("HIGH", "high")
    held = story.world.receive("HIGH")
    story.world.calls.break_if = lambda operation, _: (
        aws_error() if operation == "ChangeMessageVisibilityBatch" else None
    )
    story.step("MAIN")
    story.world.calls.break_if = lambda _operation, _: None

    story.invoke("HIGH", held)
    assert not receivable(story)
    story.drain()

    assert story.done == ["high", "a", "b"]
    story.check_kept()
