"""C8: with idempotency on, what was done is not done again within the window."""

import pytest

from tests.support.memory import ProcessLost, aws_error
from tests.support.story import Story

IDEMPOTENT = {"consumer": {"idempotency": True}}


def test_a_record_that_was_done_but_not_deleted_is_skipped():
    """SQS delivers it again because the deletion was lost: it is deleted then, not handled."""
    story = Story(IDEMPOTENT)
    story.send("HIGH", "a")

    story.invoke("HIGH", story.world.receive("HIGH"), deletes=False)
    story.drain()

    assert story.done == ["a"]
    assert story.dead() == {}
    story.check_kept()


@pytest.mark.parametrize("failures", [0, 1, 2])
def test_the_last_attempt_that_succeeds_is_no_dead_letter_when_it_comes_again(failures):
    """Done is done, however many attempts were used up to get there."""
    story = Story({"consumer": {"idempotency": True, "max_attempts": failures + 1}})
    story.send("HIGH", "a", *["fail"] * failures, "ok")
    for _ in range(failures):
        story.step("HIGH")
        story.world.clock.advance(60)

    story.invoke("HIGH", story.world.receive("HIGH"), deletes=False)
    story.drain()

    assert story.done == ["a"]
    assert story.dead() == {}


def test_a_job_that_sends_the_same_id_again_changes_nothing():
    """Another SQS message with the same event id, after SQS's own five minutes."""
    story = Story(IDEMPOTENT)
    story.send("MAIN", "a")
    story.drain()
    story.world.clock.advance(3600)

    story.send("MAIN", "a", group="other")
    story.drain()

    assert story.done == ["a"]
    assert story.world.recorder.counts["DuplicateMessages"] == 1


def test_the_same_id_twice_in_one_batch_is_handled_once():
    """The second one finds what the first one has just noted."""
    story = Story(IDEMPOTENT)
    story.send("MAIN", "a", group="one")
    story.send("MAIN", "a", group="two")

    story.step("MAIN")

    assert story.done == ["a"]
    story.check_kept()


def test_after_the_window_an_id_is_handled_again():
    """A day later it is a new wish."""
    story = Story({"consumer": {"idempotency": True, "idempotency_window": "1h"}})
    story.send("MAIN", "a")
    story.drain()
    story.world.clock.advance(3601)

    story.send("MAIN", "a")
    story.drain()

    assert story.done == ["a", "a"]


def test_events_of_two_sources_may_share_an_id():
    """CloudEvents: source and id together name an event."""
    story = Story(IDEMPOTENT)
    story.send("MAIN", "a")
    body = story.world.receive("MAIN")[0].body.replace('"lanes"', '"elsewhere"')
    story.world.send_body("MAIN", body, group="other")

    story.drain()

    assert story.done == ["a", "a"]


def test_an_id_that_another_delivery_handles_now_waits_for_it():
    """The second delivery is postponed, costs no attempt, and is skipped once the first is done."""
    story = Story(IDEMPOTENT, environments=2)
    story.send("MAIN", "a", group="one")
    story.send("MAIN", "a", group="two")
    (first,) = story.world.receive("MAIN", 1)
    story.in_handler = lambda _message: story.step("MAIN", environment=1)

    story.invoke("MAIN", [first])
    story.drain()

    assert story.done == ["a"]
    assert story.failures_of("a") == 0
    story.check_kept()


def test_a_failed_attempt_gives_its_claim_back():
    """Its next attempt, also one by another message with the same id, may begin at once."""
    story = Story(IDEMPOTENT)
    story.send("MAIN", "a", "fail", "ok", group="one")
    story.step("MAIN")

    story.send("MAIN", "a", group="two")
    story.step("MAIN")

    assert story.done == ["a"]


def test_a_crash_between_the_effect_and_its_note_counts_as_one_attempt():
    """What the handler did can't be known, so it runs once more: at least once is all that can be had then."""
    story = Story(IDEMPOTENT)
    story.send("HIGH", "a")
    story.break_once(lambda _operation: bool(story.done), ProcessLost())

    story.drain()

    assert story.crashes == 1
    assert story.done == ["a", "a"]
    assert [start.attempt for start in story.starts] == [1, 2]
    story.check_kept()


def test_one_failed_call_does_not_forget_what_was_done():
    """Noting that an effect was done is tried again."""
    story = Story(IDEMPOTENT)
    story.send("HIGH", "a")
    story.break_once(lambda _operation: bool(story.done), aws_error())
    story.step("HIGH")
    story.world.clock.advance(3600)

    story.send("HIGH", "a")
    story.drain()

    assert [name for name, _ in story.world.recorder.problems] == ["success_not_noted"]
    assert story.done == ["a"]
