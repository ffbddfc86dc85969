"""C1: every message ends in exactly one of done and dead-lettered, and a doubtful record stays in its queue."""

from __future__ import annotations

import asyncio
import dataclasses
import json

import pytest

from lanes import Consumer, DeadLetter, Retry
from lanes.config.settings import MAX_RECEIVES
from lanes.errors import ConfigurationError
from lanes.testing.function import sqs_event
from tests.support.memory import World, aws_error
from tests.support.overriding import Overridden
from tests.support.scenario import Scenario


def broken(*operations):
    """Return a fault that lasts."""
    return lambda operation, _: aws_error(operation) if operation in operations else None


def test_a_body_that_is_no_event_goes_to_the_raw_handler(engine):
    """A notification of S3 or EventBridge, say; it sees the record as it came."""
    world = World(engine=engine)
    seen = []

    @world.consumer.raw_handler
    def raw(record):
        seen.append((record.body, record.group, record.receive_count))

    world.send_body("MAIN", "<xml/>", group="bucket")

    assert world.step("MAIN") == set()
    assert seen == [("<xml/>", "bucket", 1)]


def test_what_a_raw_handler_does_to_its_record_changes_no_other(engine):
    """The answer is about the records that Lambda brought."""
    world = World(engine=engine)
    ids = [world.send_body("MAIN", f"<{number}/>", group="bucket") for number in range(3)]

    @world.consumer.raw_handler
    def raw(record):
        if record.body == "<1/>":
            raise ValueError
        with pytest.raises(dataclasses.FrozenInstanceError):
            record.message_id = ids[2]

    assert world.step("MAIN") == {ids[1], ids[2]}


@pytest.mark.parametrize(
    "body",
    ["", "<xml/>", "null", "[]", "{}", '{"specversion":"0.3"}', "[" * 100_000, "9" * 5000],
    ids=lambda body: body[:12] or "empty",
)
def test_without_one_it_is_dead_lettered_with_the_reason(engine, body):
    """Untouched, and its neighbours go on."""
    scenario = Scenario(engine=engine)
    message_id = scenario.world.send_body("MAIN", body, group="one")
    scenario.send("MAIN", "good", group="one")

    scenario.step("MAIN")

    assert "CloudEvents" in scenario.world.queues.notes[message_id].reason
    assert scenario.world.queues.dead["MAIN"].receive(1)[0].body == body
    assert scenario.done == ["good"]


def test_a_dead_letter_that_can_not_be_sent_keeps_the_record(engine):
    """Until it can."""
    scenario = Scenario(engine=engine)
    message_id = scenario.world.send_body("MAIN", "<xml/>")
    scenario.world.calls.break_if = broken("SendMessage")
    for _ in range(4):
        assert scenario.world.step("MAIN") == {message_id}
        scenario.world.clock.now = scenario.world.queues.live["MAIN"].next_event_at()
    scenario.world.calls.break_if = broken()

    assert scenario.world.step("MAIN") == set()
    assert list(scenario.world.queues.notes) == [message_id]


def test_everything_stays_while_the_ledger_can_not_be_read(engine):
    """Records received before can't be judged without it."""
    scenario = Scenario(engine=engine)
    scenario.send("MAIN", "a", "fail", "ok")
    scenario.send("MAIN", "b", group="other")
    scenario.invoke("MAIN", scenario.world.receive("MAIN"), deletes=False)
    scenario.environments[0] = scenario._new_environment()
    scenario.world.clock.advance(181)
    scenario.world.calls.break_if = broken("BatchGetItem")
    starts = len(scenario.starts)

    scenario.step("MAIN")

    assert len(scenario.starts) == starts
    scenario.world.calls.break_if = broken()
    scenario.drain()
    assert set(scenario.done) == {"a", "b"}


@pytest.mark.parametrize("idempotency", [True, False])
def test_a_total_failure_of_every_call_loses_nothing(engine, idempotency):
    """While it lasts lower lanes yield, since not knowing is a reason to; afterwards all goes on."""
    scenario = Scenario(
        {"consumer": {"reserved_concurrency": 2, "idempotency": idempotency}}, environments=2, engine=engine
    )
    for number in range(12):
        scenario.send("MAIN", f"main{number}", "fail" if number == 3 else "ok", group=f"g{number % 3}")
        scenario.send("HIGH", f"high{number}", group=f"g{number % 3}")
    scenario.world.calls.break_if = lambda operation, _: aws_error(operation)
    for _ in range(30):
        for lane in ("MAIN", "HIGH"):
            scenario.step(lane)
        scenario.world.clock.advance(31)
    assert not any(start.lane == "MAIN" for start in scenario.starts)
    scenario.world.calls.break_if = broken()

    scenario.drain()

    assert scenario.dead() == {"main3": "attempts exhausted"}
    scenario.check_kept()


@pytest.mark.parametrize("event", [{}, {"Records": []}, {"Records": [{"eventSource": "aws:s3"}]}, {"a": 1}])
def test_an_event_that_is_no_batch_raises(engine, event):
    """An answer would delete what it came with."""
    with pytest.raises(ConfigurationError):
        World(engine=engine).consumer.handle(event, None)


def test_an_event_from_an_unknown_queue_raises_and_is_reported(engine):
    """
    A function mapped to a foreign queue, or to a lane of another version, handles none of it.

    A mapping made by hand rarely reports failures of single records, and takes every answer for a success.
    """
    world = World(engine=engine)
    for group in "abc":
        world.send("HIGH", group=group)
    event = sqs_event("OTHER", world.receive("HIGH", 3))

    with pytest.raises(ConfigurationError, match=r"OTHER.* is not a lane"):
        world.consumer.handle(event, None)

    ((name, problem),) = world.recorder.problems
    assert (name, problem["records"]) == ("lane_unknown", 3)
    assert "OTHER" in problem["queue"]


def test_an_unexpected_fault_in_the_middle_keeps_what_is_not_known_to_be_done(engine):
    """And only that."""
    scenario = Scenario({"consumer": {"idempotency": True}}, engine=engine)
    ids = {name: scenario.send("MAIN", name, group=name) for name in "abc"}
    writes = scenario.world.calls.counts
    scenario.break_once(lambda _operation: writes["PutItem"] == 2, RuntimeError("unforeseen"))

    kept = scenario.world.invoke("MAIN", scenario.world.receive("MAIN"), consumer=scenario.environments[0])

    assert scenario.done == ["a"]
    assert kept == {ids["b"], ids["c"]}
    assert "batch_interrupted" in [name for name, _ in scenario.world.recorder.problems]


@pytest.mark.parametrize("operation", ["ChangeMessageVisibilityBatch", "PutItem", "TransactWriteItems"])
def test_a_fault_after_the_work_does_not_repeat_it(engine, operation):
    """What was done is answered as done even if the invocation can't be closed."""
    scenario = Scenario(engine=engine)
    scenario.send("MAIN", "first", group="one")
    scenario.send("MAIN", "fails", "fail", "ok", group="two")
    scenario.break_once(lambda name: name == operation, RuntimeError("unforeseen"))

    scenario.step("MAIN")
    scenario.drain()

    assert scenario.done.count("first") == 1
    scenario.check_kept()


def test_a_message_whose_deletion_was_lost_is_handled_again(engine):
    """At least once, not at most once."""
    scenario = Scenario(engine=engine)
    scenario.send("HIGH", "a")
    scenario.invoke("HIGH", scenario.world.receive("HIGH"), deletes=False)

    scenario.drain()

    # A slot has deleted it by then, also that of a batch which a mapping delivered.
    assert scenario.done == (["a", "a"] if engine == "mappings" else ["a"])
    scenario.check_kept()


@pytest.mark.parametrize("lanes", [1, 2, 3, 7])
@pytest.mark.parametrize("enabled", [True, False])
def test_any_number_of_lanes_works_the_same(engine, lanes, enabled):
    """Lanes are data."""
    tables = [{"name": f"L{number}", "threshold": 100 - number * 10} for number in range(lanes)]
    scenario = Scenario({"lanes": tables, "enabled": enabled}, engine=engine)
    for number in range(40):
        scenario.send(
            f"L{number % lanes}", f"m{number}", "fail" if number == 7 else "ok", group=f"g{number % 5}"
        )

    scenario.drain()

    assert scenario.dead() == {"m7": "attempts exhausted"}
    assert enabled or scenario.world.recorder.counts["YieldedMessages"] == 0
    scenario.check_kept()


def test_records_without_a_group_are_handled_on_their_own(engine):
    """A queue that is not FIFO has no order: one failure holds nothing else back."""
    scenario = Scenario(engine=engine)
    for number in range(4):
        scenario.send("MAIN", f"m{number}", "fail" if number == 0 else "ok", group=f"g{number}")
    event = sqs_event("MAIN", scenario.world.receive("MAIN"))
    for record in event["Records"]:
        for name in ("MessageGroupId", "MessageDeduplicationId", "SequenceNumber"):
            del record["attributes"][name]

    answer = scenario.environments[0].handle(event, None)

    assert len(answer["batchItemFailures"]) == 1
    assert scenario.done == ["m1", "m2", "m3"]


def test_the_answer_is_what_lambda_reads(engine):
    """JSON with an id for each record that stays."""
    scenario = Scenario(engine=engine)
    message_id = scenario.send("MAIN", "a", "fail")
    event = sqs_event("MAIN", scenario.world.receive("MAIN"))

    answer = scenario.environments[0].handle(event, None)

    assert json.loads(json.dumps(answer)) == {"batchItemFailures": [{"itemIdentifier": message_id}]}


def test_a_keyboard_interrupt_is_not_swallowed(engine):
    """Whoever runs the function by hand can stop it; the batch stays."""
    world = World(engine=engine)

    @world.consumer.handler("work")
    def work(_message):
        raise KeyboardInterrupt

    world.send("HIGH")
    messages = world.receive("HIGH")

    with pytest.raises(KeyboardInterrupt):
        world.invoke("HIGH", messages)
    assert world.queues.live["HIGH"].counts().not_visible == 1


def test_figures_that_can_not_be_told_change_no_answer(engine):
    """What was done is answered as done."""
    scenario = Scenario(engine=engine)
    scenario.send("HIGH", "a")
    scenario.world.recorder.end = lambda: int("no figure")

    scenario.step("HIGH")

    scenario.check_kept()


@pytest.mark.parametrize("raw", [{}, {"idempotency": True}], ids=str)
def test_a_message_whose_report_fails_is_handled_all_the_same(engine, raw):
    """Once, whatever is to be reported of it: a yield, a failure, success."""
    scenario = Scenario({"consumer": raw}, engine=engine)
    scenario.world.recorder.event = lambda *_names, **_fields: int("no event")
    scenario.world.recorder.milliseconds = lambda *_figures: int("no figure")
    for number in range(3):
        scenario.send("MAIN", f"m{number}", "fail", "ok", group=f"g{number}")
    scenario.send("MAIN", "poison", "dead", group="p")

    scenario.drain()

    assert sorted(scenario.done) == ["m0", "m1", "m2"]
    assert [start.does for start in scenario.starts_of("poison")] == ["dead"]
    scenario.check_kept()


@pytest.mark.parametrize("poison", ["dead", "fail", "exit"])
@pytest.mark.parametrize(
    "raw", [{}, {"function_timeout": 60}, {"idempotency": True, "max_attempts": 9}], ids=str
)
def test_a_dead_letter_beside_one_that_kills_its_process_is_one_dead_letter(engine, poison, raw):
    """Their batch comes back for longer than SQS recognises a repeat."""
    scenario = Scenario({"consumer": raw}, engine=engine)
    scenario.send("MAIN", "poison", poison, group="a")
    scenario.send("MAIN", "killer", "crash", group="b")

    scenario.drain()

    assert sorted(scenario.dead()) == ["killer", "poison"]
    assert scenario.world.queues.dead["MAIN"].counts().visible == 2
    scenario.check_kept()


HOURS = 2


def refusing(scenario, *operations):
    """Let calls fail."""
    scenario.world.calls.break_if = lambda name, _: aws_error(name) if name in operations else None


def let_pass(scenario, *, seconds):
    """Deliver the rings of the bell for some time."""
    world, until = scenario.world, scenario.world.clock.now + seconds
    while world.clock.now < until:
        before = world.requests
        scenario._alive(lambda: world.deliver(consumer=scenario.environments[0]), 0)
        world.clock.advance(0.02)
        if world.requests == before:
            world.clock.now = max(world.clock.now, world.bell.next_event_at() or 0.0)


@pytest.mark.parametrize("idempotency", [False, True])
@pytest.mark.parametrize("hides", [True, False], ids=["", "nor hidden"])
def test_a_message_that_can_not_be_deleted_is_handled_once(idempotency, hides):
    """A role without that right, or an outage: each record counts for the alarm, and the pauses grow."""
    scenario = Scenario({"consumer": {"idempotency": idempotency}}, engine="pull")
    refusing(scenario, "DeleteMessageBatch", *([] if hides else ["ChangeMessageVisibilityBatch"]))
    for number in range(5):
        scenario.send("MAIN", f"m{number}", group=f"g{number}")

    let_pass(scenario, seconds=3600 * HOURS)

    counts = scenario.world.recorder.counts
    assert sorted(scenario.done) == [f"m{number}" for number in range(5)]
    receives = [message.receive_count for message in scenario.world.queues.live["MAIN"]._store.messages()]
    assert len(receives) == 5
    assert counts["ConsumerCallErrors"] >= sum(receives)
    if hides:
        assert max(receives) < HOURS * 20 < MAX_RECEIVES
    refusing(scenario)
    scenario.drain()
    assert len(scenario.done) == 5
    scenario.check_kept()


def test_a_message_that_is_done_is_not_dead_lettered_for_a_count_that_was_not_taken_back():
    """Its attempt was written ahead; neither the write after it nor the deletion succeeded, and the process died."""
    scenario = Scenario({"consumer": {"max_attempts": 1}}, engine="pull")
    scenario.send("MAIN", "m")
    scenario.world.receive("MAIN")
    scenario.world.clock.advance(200)
    writes = []

    def break_if(name, _place):
        writes.append(name)
        in_outage = scenario.done and len([one for one in writes if one == "PutItem"]) <= 3
        return aws_error(name) if name == "DeleteMessageBatch" or (in_outage and name == "PutItem") else None

    scenario.world.calls.break_if = break_if
    scenario.step("MAIN")
    scenario.environments = [scenario._new_environment()]
    scenario.world.calls.break_if = lambda _name, _place: None

    scenario.drain()

    assert scenario.done == ["m"]
    assert scenario.dead() == {}
    scenario.check_kept()


def test_an_override_does_not_move_a_message_that_is_done():
    """It would be handled again, in its new lane."""
    scenario = Overridden(engine="pull")
    refusing(scenario, "DeleteMessageBatch")
    scenario.send("MAIN", "m")
    scenario.step("MAIN")
    refusing(scenario)
    scenario.put("prioritize", ids=("m",), priority=50)

    scenario.drain()

    assert scenario.done == ["m"]
    assert scenario.world.recorder.counts["DuplicateMessages"] == 1
    scenario.check_kept()


RAISED = [RecursionError(), SystemExit(3), asyncio.CancelledError(), GeneratorExit(), MemoryError()]
DOES = {"ok": None, "retry": Retry(), "dead": DeadLetter("no"), "fail": ValueError("no")}


class Broken:
    """A telemetry that raises in each of its methods."""

    def __init__(self, error):
        self._error = error

    def begin(self, *args, **fields):
        raise self._error

    event = problem = count = milliseconds = end = begin


def outcome(engine, *, telemetry, idempotency):
    """Handle a batch with every outcome; return what became of its records."""
    settings = {"max_attempts": 2, "idempotency": idempotency}
    world = World({"consumer": settings}, engine=engine)
    runtime = world.consumer._runtime
    consumer = Consumer(dataclasses.replace(runtime, telemetry=telemetry or runtime.telemetry))
    handled = []

    @consumer.handler("work")
    def work(message):
        handled.append(message.id)
        if (error := DOES[message.data]) is not None:
            raise error

    for does in (*DOES, "ok"):
        world.send("MAIN", data=does, group=does, id=f"{does}-{len(handled)}", priority=500)
    world.send_body("MAIN", "no event", group="raw")
    kept = []
    for _ in range(4):
        kept.append(len(world.step("MAIN", consumer=consumer)))
        world.clock.advance(60)
    return handled, kept, [note.reason for note in world.queues.notes.values()]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("idempotency", [False, True])
def test_a_report_that_raises_changes_no_outcome(engine, error, idempotency):
    """The records end as they do with a telemetry that works."""
    expected = outcome(engine, telemetry=None, idempotency=idempotency)

    assert outcome(engine, telemetry=Broken(error), idempotency=idempotency) == expected
