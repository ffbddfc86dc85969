"""Each receive that reaches the function ends in exactly one event, which names the message and the receive."""

import json

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lanes.consumer.ledger import Cause
from lanes.consumer.records import RawRecord
from lanes.consumer.telemetry import READ_FOR_ID, receives, unopened
from tests.support.memory import aws_error
from tests.support.overriding import Overridden
from tests.support.scenario import Scenario


def told(scenario):
    """Give (message id, receive count) of everything that the events tell of."""
    recorder = scenario.world.recorder
    events = [*recorder.events, *recorder.problems]
    alone = [fields for _, fields in events if "receive_count" in fields]
    together = [one for _, fields in events for one in fields.get("messages", ())]
    return [(one["message_id"], one["receive_count"]) for one in alone + together]


def listen(scenario):
    """Note what is given to the function, or what it receives."""
    given_to_it = []
    invoke = scenario.invoke

    def noting(lane, messages, **options):
        given_to_it.extend((message.message_id, message.receive_count) for message in messages)
        invoke(lane, messages, **options)

    scenario.invoke = noting
    receive = scenario.world.queues.receive

    def noting_receive(lane, **options):
        received = receive(lane, **options)
        given_to_it.extend((record.message_id, record.receive_count) for record in received)
        return received

    scenario.world.queues.receive = noting_receive
    return given_to_it


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    messages=st.lists(
        st.tuples(
            st.sampled_from(["HIGH", "MEDIUM", "MAIN"]),
            st.sampled_from(["ok", "fail", "retry", "dead", "check"]),
            st.sampled_from(["a", "b", "c"]),
        ),
        max_size=25,
    ),
    ahead=st.integers(0, 15),
    consumer=st.fixed_dictionaries(
        {"reserved_concurrency": st.sampled_from([1, 3]), "idempotency": st.booleans()}
    ),
    seed=st.integers(0, 99),
)
@example(messages=[("HIGH", "ok", "b")], ahead=15, consumer={"reserved_concurrency": 3}, seed=0)
def test_every_receive_is_told_once(engine, messages, ahead, consumer, seed):
    """
    Whatever mixture of successes, failures, yields and returns it is; and counted once, by its cause.

    Behind more than ten messages of one group, a slot gives those of the others back unstarted.
    """
    slots = consumer["reserved_concurrency"]
    raw = {"consumer": {**consumer, "max_attempts": 3}}
    scenario = Scenario(raw, environments=slots, seed=seed, engine=engine)
    received = listen(scenario)
    in_front = [("HIGH", "ok", "a")] * ahead
    for number, (lane, does, group) in enumerate([*in_front, *messages]):
        scenario.send(lane, f"m{number}", does, "ok", group=group)

    scenario.drain()

    counts = scenario.world.recorder.counts
    assert sorted(told(scenario)) == sorted(received)
    assert sum(counts[receives(cause)] for cause in Cause) == len(received)
    assert counts[receives(Cause.FIRST)] == len({message_id for message_id, _ in received})


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    messages=st.lists(
        st.tuples(
            st.sampled_from(["HIGH", "MAIN"]),
            st.sampled_from(["ok", "fail", "retry", "dead", "check"]),
            st.sampled_from(["a", "b", "c"]),
        ),
        min_size=5,
        max_size=20,
    ),
    consumer=st.fixed_dictionaries(
        {"reserved_concurrency": st.sampled_from([1, 3]), "idempotency": st.booleans()}
    ),
    faults=st.sets(st.integers(0, 80), max_size=12),
    seed=st.integers(0, 99),
)
def test_every_receive_is_told_once_with_overrides_and_failed_calls(engine, messages, consumer, faults, seed):
    """Cancelled, moved, kept because a dead letter was not sent, and all others."""
    raw = {"consumer": {**consumer, "max_attempts": 2}}
    slots = consumer["reserved_concurrency"]
    scenario = Overridden(raw, environments=slots, seed=seed, engine=engine)
    received = listen(scenario)
    for number, (lane, does, group) in enumerate(messages):
        scenario.send(lane, f"m{number}", does, "ok", group=f"{lane}-{group}")
    scenario.put("cancel", ids=("m0",))
    scenario.put("prioritize", ids=("m1",), priority=0)
    scenario.world.calls.break_if = lambda name, place: aws_error(name) if place in faults else None

    scenario.drain()
    scenario.world.calls.break_if = lambda _name, _place: None
    for lane in ("HIGH", "MEDIUM", "MAIN"):
        scenario.redrive(lane)
    scenario.drain()

    assert sorted(told(scenario)) == sorted(received)


def test_every_receive_of_an_outage_is_told(engine):
    """Its problem is the only event of the receive; only the first one has the traceback."""
    scenario = Overridden(engine=engine)
    received = listen(scenario)
    for number in range(4):
        scenario.send("MAIN", f"m{number}", "dead", group=f"g{number}")
    scenario.world.calls.break_if = lambda name, _: aws_error(name) if name == "SendMessage" else None

    for _ in range(3):
        scenario.step("MAIN")
        scenario.world.clock.advance(20)

    assert sorted(told(scenario)) == sorted(received)
    problems = [fields for name, fields in scenario.world.recorder.problems if name != "handler_failed"]
    assert ["failures" in fields for fields in problems] == [False] + [True] * (len(problems) - 1)
    assert len(problems) > 4


def test_a_batch_that_an_error_of_ours_interrupts_names_its_records(engine):
    """And the receive of each."""
    scenario = Scenario(engine=engine)
    received = listen(scenario)
    scenario.send("MAIN", "m0", group="a")
    scenario.send("MAIN", "m1", group="b")
    active = scenario.world.overrides.active

    def active_once_broken():
        scenario.world.overrides.active = active
        raise TypeError("a defect")

    scenario.world.overrides.active = active_once_broken
    scenario.drain()

    assert [name for name, _ in scenario.world.recorder.problems] == ["batch_interrupted"]
    assert sorted(told(scenario)) == sorted(received)


def test_a_record_that_is_no_longer_ours_is_named():
    """Its visibility timeout has ended, so that another invocation may have it by now."""
    scenario = Scenario({"consumer": {"reserved_concurrency": 2}}, environments=2)
    message_id = scenario.send("MAIN", "late")
    taken = scenario.world.receive("MAIN")
    scenario.world.clock.advance(10_000)
    scenario.world.receive("MAIN")

    scenario.invoke("MAIN", taken)

    (returned,) = scenario.world.recorder.named("batch_returned")
    assert returned["reason"] == "expired"
    assert [one["message_id"] for one in returned["messages"]] == [message_id]
    assert scenario.starts == []


@pytest.mark.parametrize(
    ("operation", "reason"),
    [("BatchGetItem", "unprepared"), ("UpdateItem", "not_begun")],
)
def test_a_call_that_failed_is_told_with_the_records_that_it_sent_back(engine, operation, reason):
    """Their receive is explained although nothing was tried."""
    scenario = Scenario(
        {"consumer": {"idempotency": True, "backoff_base": 20}}, environments=2, engine=engine
    )
    message_id = scenario.send("HIGH", "m", "fail", "ok")
    scenario.step("HIGH")
    scenario.world.clock.advance(600)
    scenario.world.calls.break_if = lambda name, _place: aws_error() if name == operation else None

    scenario.step("HIGH", environment=1)

    (returned,) = scenario.world.recorder.named("batch_returned")
    assert returned["reason"] == reason
    assert [(one["message_id"], one["id"]) for one in returned["messages"]] == [(message_id, "m")]


def test_a_dead_letter_whose_attempts_all_crashed_is_named_by_its_event(engine):
    """No attempt came to an end, so this event is the only one by which its id is found."""
    scenario = Scenario({"consumer": {"max_attempts": 1}}, engine=engine)
    message_id = scenario.send("MAIN", "order-7", "crash")

    scenario.drain()

    (event,) = scenario.world.recorder.named("message_dead_lettered")
    assert (event["message_id"], event["id"], event["kind"]) == (message_id, "order-7", "work")


def test_a_dead_letter_that_is_no_event_is_named_by_its_deduplication_id(engine):
    """There is no other name, and its kind is empty."""
    scenario = Scenario(engine=engine)
    scenario.world.send_body("MAIN", "no event")

    scenario.drain()

    (event,) = scenario.world.recorder.named("message_dead_lettered")
    assert event["id"]
    assert event["kind"] == ""


def record(body):
    return RawRecord.from_event(
        {
            "messageId": "m",
            "receiptHandle": "r",
            "body": body,
            "attributes": {"SentTimestamp": "1", "MessageGroupId": "g", "MessageDeduplicationId": "d"},
        }
    )


def test_an_unopened_record_is_named_by_the_event_in_its_body():
    """As its handler would know it."""
    named = unopened(record(json.dumps({"id": "order-7", "type": "order.placed", "data": {"id": 1}})))

    assert named == {
        "message_id": "m",
        "id": "order-7",
        "kind": "order.placed",
        "group": "g",
        "receive_count": 1,
        "sent_at": 0.001,
    }


@pytest.mark.parametrize(
    "body",
    ["no json", "[1]", "{}", "[" * 60_000, '{"id": "x"}' + " " * READ_FOR_ID],
    ids=["no JSON", "no object", "no event", "too deep", "long"],
)
def test_a_body_that_is_no_event_or_long_is_named_by_its_deduplication_id(body):
    """Naming it must never fail: what is reported goes back to the queue."""
    assert (unopened(record(body))["id"], unopened(record(body))["kind"]) == ("d", "")
