"""C8: with idempotency on, what was done is not done again within the window."""

import pytest

from tests.support.memory import ProcessLost, aws_error
from tests.support.scenario import Scenario

IDEMPOTENT = {"consumer": {"idempotency": True}}


def test_a_record_that_was_done_but_not_deleted_is_skipped(engine):
    """SQS delivers it again because the deletion was lost: it is deleted then, not handled."""
    scenario = Scenario(IDEMPOTENT, engine=engine)
    scenario.send("HIGH", "a")

    scenario.invoke("HIGH", scenario.world.receive("HIGH"), deletes=False)
    scenario.drain()

    assert scenario.done == ["a"]
    assert scenario.dead() == {}
    scenario.check_kept()


@pytest.mark.parametrize("failures", [0, 1, 2])
def test_the_last_attempt_that_succeeds_is_no_dead_letter_when_it_comes_again(engine, failures):
    """Done is done, however many attempts were used up to get there."""
    scenario = Scenario({"consumer": {"idempotency": True, "max_attempts": failures + 1}}, engine=engine)
    scenario.send("HIGH", "a", *["fail"] * failures, "ok")
    for _ in range(failures):
        scenario.step("HIGH")
        scenario.world.clock.advance(60)

    scenario.invoke("HIGH", scenario.world.receive("HIGH"), deletes=False)
    scenario.drain()

    assert scenario.done == ["a"]
    assert scenario.dead() == {}


def test_a_job_that_sends_the_same_id_again_changes_nothing(engine):
    """Another SQS message with the same event id, after SQS's own five minutes."""
    scenario = Scenario(IDEMPOTENT, engine=engine)
    scenario.send("MAIN", "a")
    scenario.drain()
    scenario.world.clock.advance(3600)

    scenario.send("MAIN", "a", group="other")
    scenario.drain()

    assert scenario.done == ["a"]
    assert scenario.world.recorder.counts["DuplicateMessages"] == 1


def test_the_same_id_twice_in_one_batch_is_handled_once(engine):
    """The second one finds what the first one has just noted."""
    scenario = Scenario(IDEMPOTENT, engine=engine)
    scenario.send("MAIN", "a", group="one")
    scenario.send("MAIN", "a", group="two")

    scenario.step("MAIN")

    assert scenario.done == ["a"]
    scenario.check_kept()


def test_after_the_window_an_id_is_handled_again(engine):
    """A day later it is a new wish."""
    scenario = Scenario({"consumer": {"idempotency": True, "idempotency_window": "1h"}}, engine=engine)
    scenario.send("MAIN", "a")
    scenario.drain()
    scenario.world.clock.advance(3601)

    scenario.send("MAIN", "a")
    scenario.drain()

    assert scenario.done == ["a", "a"]


def test_events_of_two_sources_may_share_an_id(engine):
    """CloudEvents: source and id together name an event."""
    scenario = Scenario(IDEMPOTENT, engine=engine)
    scenario.send("MAIN", "a")
    body = scenario.world.receive("MAIN")[0].body.replace('"lanes"', '"elsewhere"')
    scenario.world.send_body("MAIN", body, group="other")

    scenario.drain()

    assert scenario.done == ["a", "a"]


def test_an_id_that_another_delivery_handles_now_waits_for_it(engine):
    """The second delivery is postponed, costs no attempt, and is skipped once the first is done."""
    scenario = Scenario(IDEMPOTENT, environments=2, engine=engine)
    scenario.send("MAIN", "a", group="one")
    scenario.send("MAIN", "a", group="two")
    (first,) = scenario.world.receive("MAIN", 1)
    scenario.in_handler = lambda _message: scenario.step("MAIN", environment=1)

    scenario.invoke("MAIN", [first])
    scenario.drain()

    assert scenario.done == ["a"]
    assert scenario.failures_of("a") == 0
    scenario.check_kept()


def test_a_delivery_waits_for_a_long_handler_with_few_receives(engine):
    """At 2 s each, two attempts of 15 minutes would use up most of the 1,000 receives that SQS allows."""
    scenario = Scenario({"consumer": IDEMPOTENT["consumer"] | {"function_timeout": 900}}, engine=engine)
    scenario.world.ledger.begin_effect(
        "lanes#a", owner="another", now=scenario.world.clock.now, until=scenario.world.clock.now + 880
    )
    scenario.send("MAIN", "a")

    scenario.drain()

    assert scenario.done == ["a"]
    assert scenario.starts[0].receive_count < 100


def test_two_deliveries_of_one_batch_at_the_same_moment_have_one_effect(engine):
    """AWS: a mapping may hand out a batch twice. The second delivery waits for the first, and costs no attempt."""
    scenario = Scenario(IDEMPOTENT | {"lanes": [{"name": "MAIN"}]}, environments=2, engine=engine)
    scenario.send("MAIN", "a")
    batch = scenario.world.receive("MAIN")
    scenario.in_handler = lambda _message: (
        scenario.invoke("MAIN", batch, environment=1) if scenario.invocations < 2 else None
    )

    scenario.invoke("MAIN", batch)
    scenario.drain()

    assert scenario.done == ["a"]
    assert [start.attempt for start in scenario.starts] == [1]
    scenario.check_kept()


def test_a_failed_attempt_gives_its_claim_back(engine):
    """Its next attempt, also one by another message with the same id, may begin at once."""
    scenario = Scenario(IDEMPOTENT, engine=engine)
    scenario.send("MAIN", "a", "fail", "ok", group="one")
    scenario.step("MAIN")

    scenario.send("MAIN", "a", group="two")
    scenario.step("MAIN")

    assert scenario.done == ["a"]


def test_a_claim_with_a_lost_answer_is_given_back(engine):
    """Its next delivery need not wait for the end of the function's time."""
    scenario = Scenario(IDEMPOTENT, engine=engine)
    scenario.send("MAIN", "a")
    sent_at = scenario.world.clock.now
    scenario.break_once(lambda operation: operation == "UpdateItem", aws_error(), after_effect=True)

    scenario.drain()

    assert scenario.done == ["a"]
    assert [start.attempt for start in scenario.starts] == [1]
    assert scenario.starts[0].at - sent_at < 10
    scenario.check_kept()


def test_a_crash_between_the_effect_and_its_note_counts_as_one_attempt(engine):
    """What the handler did can't be known, so it runs once more: at least once is all that can be had then."""
    scenario = Scenario(IDEMPOTENT, engine=engine)
    scenario.send("HIGH", "a")
    scenario.break_once(lambda _operation: bool(scenario.done), ProcessLost())

    scenario.drain()

    assert scenario.crashes == 1
    assert scenario.done == ["a", "a"]
    assert [start.attempt for start in scenario.starts] == [1, 2]
    scenario.check_kept()


def test_one_failed_call_does_not_forget_what_was_done(engine):
    """Noting that an effect was done is tried again."""
    scenario = Scenario(IDEMPOTENT, engine=engine)
    scenario.send("HIGH", "a")
    scenario.break_once(lambda _operation: bool(scenario.done), aws_error())
    scenario.step("HIGH")
    scenario.world.clock.advance(3600)

    scenario.send("HIGH", "a")
    scenario.drain()

    assert [name for name, _ in scenario.world.recorder.problems] == ["success_not_noted"]
    assert scenario.done == ["a"]
