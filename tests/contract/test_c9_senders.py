"""
C9, section 9: attempts on the work of others by a sender with the right to send to MAIN alone.

Each test is a row of docs/how-to/trust.md; `ROWS` names them in its order.
"""

from __future__ import annotations

import pytest

from lanes import Message
from tests.contract.test_p4_periodic import moved
from tests.support.followed import KIND, NAME, Followed
from tests.support.infrastructure import ROOT
from tests.support.memory import World

PAYMENTS = {
    "lanes": [{"name": "HIGH", "threshold": 50}, {"name": "MAIN", "kinds": ["mail", "report.*", "tick"]}]
}
OPEN = {"lanes": [{"name": "HIGH", "threshold": 50}, {"name": "MAIN"}]}

ROWS = {
    "Fill MAIN": "test_a_flood_of_main_does_not_delay_high",
    "Send a message of HIGH first, with its identity": "test_a_message_sent_before_the_real_one",
    "End a member of a run": "test_a_member_of_a_run_that_another_sender_forges",
    "Have a schedule's occurrence skipped or held up": "test_a_forged_occurrence_skips_and_holds_up_none",
    "Send with another priority": "test_a_forged_priority_does_not_reach_what_the_handler_sends",
    "Send an unreadable body": "test_an_unreadable_body_is_a_dead_letter_of_its_lane",
    "Send a kind that MAIN does not take": "test_a_kind_that_the_lane_does_not_take_is_a_dead_letter",
}


def world_of(raw, engine, **consumer):
    """Make lanes whose handlers write down what they handled."""
    world = World({**raw, "consumer": {"max_attempts": 2, "backoff_base": 1, **consumer}}, engine=engine)
    handled = []
    for kind in ("payment", "mail", "tick"):
        world.consumer.handler(kind)(lambda message: handled.append((message.kind, message.id, message.data)))
    return world, handled


def drained(world, *, steps=12):
    """Let the consumer work."""
    for _ in range(steps):
        for lane in world.config.lanes:
            world.step(lane.name)
        world.clock.advance(5)


def dead(world, lane):
    """Return the ids in a lane's dead-letter queue."""
    return [Message.from_body(one.body).id for one in world.queues.dead[lane]._store.messages()]


def test_the_page_has_a_row_for_each_test():
    """And no other row."""
    page = (ROOT / "docs" / "how-to" / "trust.md").read_text(encoding="utf-8")
    table = page.partition("| Attempt ")[2].partition("\n\n")[0].splitlines()[2:]
    rows = [line.split("|")[1].strip() for line in table]

    assert rows == list(ROWS)
    assert all(test in globals() for test in ROWS.values())


def test_a_flood_of_main_does_not_delay_high(engine):
    """The next record is HIGH's."""
    world, handled = world_of(OPEN, engine)
    for number in range(30):
        world.send("MAIN", "mail", id=f"m-{number}", group=str(number))
    world.step("MAIN")
    world.send("HIGH", "payment", id="p", priority=50)
    # In place, rings wait in the idle lane too; its mapping takes one message at a time.
    for _ in range(3):
        world.step("HIGH")

    assert handled.index(("payment", "p", None)) in (10, 30)
    assert dead(world, "HIGH") == []


@pytest.mark.parametrize(("raw", "runs"), [(OPEN, "forged"), (PAYMENTS, "real")])
def test_a_message_sent_before_the_real_one(engine, raw, runs):
    """With idempotency one of the two has the effect; `kinds` decides that it is the real one."""
    world, handled = world_of(raw, engine, idempotency=True)
    for lane, data in (("MAIN", "forged"), ("HIGH", "real")):
        world.send(lane, "payment", data, id="p-1", priority=50)
        drained(world)

    assert [data for *_, data in handled] == [runs]
    assert dead(world, "MAIN") == (["p-1"] if raw is PAYMENTS else [])


@pytest.mark.parametrize("key", ["0" * 16, None])
def test_a_member_of_a_run_that_another_sender_forges(engine, key):
    """It ends none: the run's key, or that of another run, can't be guessed, and the end has a place of its own."""
    run = Followed(engine, lanes=[{"name": "HIGH", "threshold": 50}, {"name": "MAIN"}])
    producer = run.world.producer(source="shop")
    with producer.run("another", expected=40) as other:
        key = key or other._mark.key
    with producer.run(NAME, expected=40) as sent:
        run.stray("c-0", run=f"1-{key}/{NAME}")
        run.drain()
        sent.send_many([Message(kind=KIND, id="c-0", source="shop", priority=50)])

    assert run.handled == {"c-0"}
    assert run.progress().left == 1
    run.drain()
    assert (run.progress().left, run.progress().counts.done) == (0, 1)


@pytest.mark.parametrize("overlap", ["queue", "skip"])
def test_a_forged_occurrence_skips_and_holds_up_none(engine, overlap):
    """Only what Scheduler sent is an occurrence: the real one runs, beside the forged one."""
    assert moved(engine, overlap=overlap, first_by=dict) == (2, 2)


def test_a_forged_priority_does_not_reach_what_the_handler_sends(engine):
    """It is lowered to the highest of its lane, counted and logged."""
    world = World(OPEN, engine=engine)
    sent = []

    @world.consumer.handler("mail")
    def handle(_message):
        sent.append(world.producer().send("more", None).lane)

    world.send("MAIN", "mail", priority=100)
    world.step("MAIN")

    assert sent == ["MAIN"]
    assert world.recorder.named("priority_lowered")


def test_an_unreadable_body_is_a_dead_letter_of_its_lane(engine):
    """With the reason; the rest of its batch is handled."""
    world, handled = world_of(OPEN, engine)
    world.send_body("MAIN", "{not json", group="a")
    world.send("MAIN", "mail", id="m", group="b")
    drained(world, steps=2)

    assert [one for _, one, _ in handled] == ["m"]
    assert len(world.queues.dead["MAIN"]._store.messages()) == 1


@pytest.mark.parametrize("idempotency", [False, True])
def test_a_kind_that_the_lane_does_not_take_is_a_dead_letter(engine, idempotency):
    """At once and without an attempt, with the kinds that it takes; a pattern is one."""
    world, handled = world_of(PAYMENTS, engine, idempotency=idempotency)
    world.consumer.handler("report.daily")(lambda message: handled.append(("report", message.id, None)))
    for number, kind in enumerate(("payment", "mail", "report.daily", "reports", "nobody")):
        world.send("MAIN", kind, id=kind, group=str(number))
    world.step("MAIN")

    assert sorted(one for _, one, _ in handled) == ["mail", "report.daily"]
    assert sorted(dead(world, "MAIN")) == ["nobody", "payment", "reports"]
    reasons = {event["reason"] for event in world.recorder.named("message_dead_lettered")}
    assert (
        "lane MAIN does not take the kind 'payment'; its kinds in lanes.toml are mail, report.*, tick"
        in reasons
    )
