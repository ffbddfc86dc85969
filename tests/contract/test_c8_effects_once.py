"""C8: with idempotency on, what was done is not done again within the window."""

from datetime import timedelta

import pytest

from lanes import Message
from lanes.testing.calls import ProcessKilled
from tests.support.memory import aws_error
from tests.support.scenario import Scenario

IDEMPOTENT = {"consumer": {"idempotency": True}}


@pytest.mark.parametrize("failures", [0, 1, 2])
def test_the_last_attempt_that_succeeds_is_no_dead_letter_when_it_comes_again(engine, failures):
    """Its deletion was lost: it is deleted then, not handled, however many attempts were used up to get there."""
    scenario = Scenario(
        {"consumer": {"idempotency": True, "max_attempts": failures + 1, "backoff_base": 60}}, engine=engine
    )
    scenario.send("HIGH", "a", *["fail"] * failures, "ok")
    for _ in range(failures):
        scenario.step("HIGH")
        scenario.world.clock.advance(150)

    scenario.invoke("HIGH", scenario.world.receive("HIGH"), deletes=False)
    scenario.drain()

    assert scenario.done == ["a"]
    assert scenario.dead() == {}
    scenario.check_kept()


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


def test_two_kinds_may_share_an_id(engine):
    """A program that names two kinds by its business id means two messages."""
    scenario = Scenario(IDEMPOTENT, engine=engine)
    scenario.send("MAIN", "a")
    body = scenario.world.receive("MAIN")[0].body.replace('"type":"work"', '"type":"fragile"')
    for environment in scenario.environments:
        environment.handler("fragile")(lambda message: scenario.done.append(message.id))
    scenario.world.send_body("MAIN", body, group="other")

    scenario.drain()

    assert scenario.done == ["a", "a"]


def test_a_duplicate_in_another_lane_is_a_counted_warning(engine):
    """Its priority has changed, or somebody suppresses an urgent message with an id that he guessed."""
    scenario = Scenario(IDEMPOTENT, engine=engine)
    scenario.send("MAIN", "a")
    scenario.drain()
    # After SQS's own five minutes, as by a job that runs again.
    scenario.world.clock.advance(3600)
    scenario.send("MAIN", "a", group="other")
    scenario.drain()
    assert scenario.done == ["a"]
    assert scenario.world.recorder.problems == []

    scenario.send("HIGH", "a")
    scenario.drain()

    counts = scenario.world.recorder.counts
    assert scenario.done == ["a"]
    assert (counts["DuplicateMessages"], counts["DuplicatesOfOtherLanes"]) == (2, 1)
    ((name, fields),) = scenario.world.recorder.problems
    assert name == "duplicate_of_other_lane"
    assert (fields["lane"], fields["done_in"], fields["id"], fields["kind"]) == ("HIGH", "MAIN", "a", "work")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("shop", "7"), ("elsewhere", "7")),
        (("shop", "eu#7"), ("shop#eu", "7")),
        (("a%23b", "7"), ("a#b", "7")),
        (("a", "#"), ("a#", "#")),
    ],
)
def test_events_of_two_sources_are_two_wherever_the_separator_is(engine, one, other):
    """CloudEvents: source and id together name an event; both may hold any character, also the one between them."""
    scenario = Scenario(IDEMPOTENT, engine=engine)
    for source, identity in (one, other):
        message = Message(kind="work", data={"does": ["ok"]}, source=source, id=identity, group=source)
        scenario.world.send_body("MAIN", message.to_body(), group="g", deduplication_id=repr(message))

    scenario.drain()

    assert scenario.done == [one[1], other[1]]


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
        "lanes#work#a", owner="another", now=scenario.world.clock.now, until=scenario.world.clock.now + 880
    )
    scenario.send("MAIN", "a")

    scenario.drain()

    assert scenario.done == ["a"]
    assert scenario.starts[0].receive_count < 100


def delivered_again(scenario, then, *, at=0.0):
    """Deliver the message in the handler's hands to a second environment, once, some seconds into the handling."""
    again = []

    def meanwhile(_message):
        if not again:
            again.append(len(scenario.starts))
            scenario.world.clock.advance(at)
            then()

    scenario.in_handler = meanwhile


def test_a_batch_that_is_delivered_twice_at_once_is_handled_once(engine):
    """The second delivery returns untouched: neither an attempt nor a start, and the order holds."""
    scenario = Scenario({"consumer": {"idempotency": True, "max_attempts": 1}}, environments=2, engine=engine)
    for name in "ab":
        scenario.send("MAIN", name, group="g")
    batch = scenario.world.receive("MAIN")
    delivered_again(scenario, lambda: scenario.invoke("MAIN", batch, environment=1))

    scenario.invoke("MAIN", batch)
    scenario.drain()

    assert scenario.done == ["a", "b"]
    assert [(start.id, start.attempt) for start in scenario.starts] == [("a", 1), ("b", 1)]
    scenario.check_kept()


@pytest.mark.parametrize("ends", ["ok", "fail", "crash"])
def test_a_message_received_again_during_its_handling_is_handled_after_it(engine, ends):
    """A new receive of SQS; a failed attempt counts once, and so does one that kills its process."""
    scenario = Scenario({"consumer": {"idempotency": True, "max_attempts": 3}}, environments=2, engine=engine)
    scenario.send("MAIN", "a", ends, "ok")
    (first,) = scenario.world.receive("MAIN", 1)

    def second():
        scenario.world.queues.live["MAIN"].change_visibility(first.receipt_handle, timedelta(0))
        scenario.step("MAIN", environment=1)

    delivered_again(scenario, second)
    # Lambda's deletion is refused too: its receipt is out of date.
    scenario.invoke("MAIN", [first], deletes=False)
    scenario.drain()

    assert scenario.done == ["a"]
    assert [start.attempt for start in scenario.starts] == ([1] if ends == "ok" else [1, 2])
    scenario.check_kept()


@pytest.mark.parametrize("late", [0.0, 0.1])
def test_a_claim_outlives_the_deadline_of_its_invocation(engine, late):
    """Lambda ends a function some milliseconds after its timeout: until then the effect may still happen."""
    scenario = Scenario(IDEMPOTENT, environments=2, engine=engine)
    scenario.send("MAIN", "a")
    (first,) = scenario.world.receive("MAIN", 1)
    timeout = scenario.world.config.consumer.function_timeout.total_seconds()
    delivered_again(
        scenario, lambda: scenario.invoke("MAIN", [first], environment=1), at=timeout - scenario.takes + late
    )

    scenario.invoke("MAIN", [first])

    assert [start.id for start in scenario.starts] == ["a"]


def test_a_crash_keeps_its_message_no_longer_than_the_deadline_and_a_few_seconds(engine):
    """Its claim ends a second after the deadline, and its next delivery tries every two seconds."""
    scenario = Scenario(IDEMPOTENT, environments=2, engine=engine)
    scenario.send("MAIN", "a", "crash", "ok")
    (first,) = scenario.world.receive("MAIN", 1)
    deadline = scenario.world.clock.now + scenario.world.config.consumer.function_timeout.total_seconds()
    scenario.invoke("MAIN", [first])
    scenario.world.queues.live["MAIN"].change_visibility(first.receipt_handle, timedelta(0))

    scenario.drain()

    assert [start.attempt for start in scenario.starts] == [1, 2]
    assert deadline < scenario.starts[1].at <= deadline + 5


def test_a_yield_gives_its_claim_back(engine):
    """Another message with the same id may be handled before the deadline of the one that yielded."""
    scenario = Scenario({"consumer": {"idempotency": True, "function_timeout": "10m"}}, engine=engine)
    scenario.takes = 2.0  # longer than a reading of the higher lanes counts
    scenario.send("MAIN", "a", "check", group="one")
    sent = []

    def arrives(message):
        if not sent:
            sent.append(scenario.send("HIGH", "urgent"))

    scenario.in_handler = arrives
    began = scenario.world.clock.now
    scenario.step("MAIN")
    scenario.send("MAIN", "a", "check", group="two")
    scenario.drain()

    assert scenario.done.count("a") == 1
    assert scenario.world.recorder.counts["YieldedMessages"]
    assert scenario.starts_of("a")[-1].at < began + 60


@pytest.mark.parametrize("after_effect", [False, True])
def test_a_claim_with_a_lost_answer_is_given_back(engine, after_effect):
    """The call failed, so the attempt does not begin; its message need not wait for the end of the claim."""
    scenario = Scenario({"consumer": {"idempotency": True, "function_timeout": "10m"}}, engine=engine)
    scenario.send("MAIN", "a")
    began = scenario.world.clock.now
    scenario.break_once(lambda operation: operation == "UpdateItem", aws_error(), after_effect=after_effect)

    scenario.drain()

    assert scenario.done == ["a"]
    assert scenario.starts[0].at < began + 60


def test_a_failed_attempt_gives_its_claim_back(engine):
    """Its next attempt, also one by another message with the same id, may begin at once."""
    scenario = Scenario(IDEMPOTENT, engine=engine)
    scenario.send("MAIN", "a", "fail", "ok", group="one")
    scenario.step("MAIN")

    scenario.send("MAIN", "a", group="two")
    scenario.step("MAIN")

    assert scenario.done == ["a"]


def test_a_crash_between_the_effect_and_its_note_counts_as_one_attempt(engine):
    """What the handler did can't be known, so it runs once more: at least once is all that can be had then."""
    scenario = Scenario(IDEMPOTENT, engine=engine)
    scenario.send("HIGH", "a")
    scenario.break_once(lambda _operation: bool(scenario.done), ProcessKilled())

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
