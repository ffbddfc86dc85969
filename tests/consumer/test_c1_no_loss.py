"""C1: every message ends in exactly one of done and dead-lettered, and a doubtful record stays in its queue."""

import json

import pytest

from lanes.errors import ConfigurationError
from tests.support.memory import World, aws_error, sqs_event
from tests.support.story import Story


def broken(*operations):
    """Return a fault that lasts."""
    return lambda operation, _: aws_error(operation) if operation in operations else None


def test_a_body_that_is_no_event_goes_to_the_raw_handler():
    """A notification of S3 or EventBridge, say; it sees the record as it came."""
    world = World()
    seen = []

    @world.consumer.raw_handler
    def raw(record):
        seen.append((record.body, record.group, record.receive_count))

    world.send_body("MAIN", "<xml/>", group="bucket")

    assert world.step("MAIN") == set()
    assert seen == [("<xml/>", "bucket", 1)]


def test_what_a_raw_handler_does_to_its_record_changes_no_other():
    """The answer is about the records that Lambda brought."""
    world = World()
    ids = [world.send_body("MAIN", f"<{number}/>", group="bucket") for number in range(3)]

    @world.consumer.raw_handler
    def raw(record):
        if record.body == "<1/>":
            raise ValueError
        record.message_id, record.group = ids[2], "other"

    assert world.step("MAIN") == {ids[1], ids[2]}


@pytest.mark.parametrize(
    "body",
    ["", "<xml/>", "null", "[]", "{}", '{"specversion":"0.3"}', "[" * 100_000, "9" * 5000],
    ids=lambda body: body[:12] or "empty",
)
def test_without_one_it_is_dead_lettered_with_the_reason(body):
    """Untouched, and its neighbours go on."""
    story = Story()
    message_id = story.world.send_body("MAIN", body, group="one")
    story.send("MAIN", "good", group="one")

    story.step("MAIN")

    assert "CloudEvents" in story.world.queues.notes[message_id].reason
    assert story.world.queues.dead["MAIN"].receive(1)[0].body == body
    assert story.done == ["good"]


def test_an_unknown_kind_is_dead_lettered_with_the_known_ones():
    """Nothing is dropped because nobody feels responsible."""
    story = Story()
    message_id = story.world.send("MAIN", kind="order.place")

    story.step("MAIN")

    note = story.world.queues.notes[message_id]
    assert "order.place" in note.reason
    assert "work" in note.reason
    assert note.attempts == 0


def test_a_dead_letter_that_can_not_be_sent_keeps_the_record():
    """Until it can."""
    story = Story()
    message_id = story.world.send_body("MAIN", "<xml/>")
    story.world.calls.break_if = broken("SendMessage")
    for _ in range(4):
        assert story.world.step("MAIN") == {message_id}
        story.world.clock.now = story.world.queues.live["MAIN"].next_event_at()
    story.world.calls.break_if = broken()

    assert story.world.step("MAIN") == set()
    assert list(story.world.queues.notes) == [message_id]


def test_everything_stays_while_the_ledger_can_not_be_read():
    """Records received before can't be judged without it."""
    story = Story()
    story.send("MAIN", "a", "fail", "ok")
    story.send("MAIN", "b", group="other")
    story.invoke("MAIN", story.world.receive("MAIN"), deletes=False)
    story.environments[0] = story._new_environment()
    story.world.clock.advance(181)
    story.world.calls.break_if = broken("BatchGetItem")
    starts = len(story.starts)

    story.step("MAIN")

    assert len(story.starts) == starts
    story.world.calls.break_if = broken()
    story.drain()
    assert set(story.done) == {"a", "b"}


@pytest.mark.parametrize("idempotency", [True, False])
def test_a_total_failure_of_every_call_loses_nothing(idempotency):
    """While it lasts lower lanes yield, since not knowing is a reason to; afterwards all goes on."""
    story = Story({"consumer": {"reserved_concurrency": 2, "idempotency": idempotency}}, environments=2)
    for number in range(12):
        story.send("MAIN", f"main{number}", "fail" if number == 3 else "ok", group=f"g{number % 3}")
        story.send("HIGH", f"high{number}", group=f"g{number % 3}")
    story.world.calls.break_if = lambda operation, _: aws_error(operation)
    for _ in range(30):
        for lane in ("MAIN", "HIGH"):
            story.step(lane)
        story.world.clock.advance(31)
    assert not any(start.lane == "MAIN" for start in story.starts)
    story.world.calls.break_if = broken()

    story.drain()

    assert story.dead() == {"main3": "attempts exhausted"}
    story.check_kept()


@pytest.mark.parametrize("event", [{}, {"Records": []}, {"Records": [{"eventSource": "aws:s3"}]}, {"a": 1}])
def test_an_event_that_is_no_batch_raises(event):
    """An answer would delete what it came with."""
    with pytest.raises(ConfigurationError):
        World().consumer.handle(event, None)


def test_an_event_from_an_unknown_queue_raises_and_names_the_lanes():
    """A function mapped to a foreign queue handles none of it."""
    world = World()
    world.send("HIGH")
    event = sqs_event("OTHER", world.receive("HIGH"))

    with pytest.raises(ConfigurationError, match="HIGH"):
        world.consumer.handle(event, None)


def test_an_unexpected_fault_in_the_middle_keeps_what_is_not_known_to_be_done():
    """And only that."""
    story = Story({"consumer": {"idempotency": True}})
    ids = {name: story.send("MAIN", name, group=name) for name in "abc"}
    writes = story.world.calls.counts
    story.break_once(lambda _operation: writes["PutItem"] == 2, RuntimeError("unforeseen"))

    kept = story.world.invoke("MAIN", story.world.receive("MAIN"), consumer=story.environments[0])

    assert story.done == ["a"]
    assert kept == {ids["b"], ids["c"]}
    assert "batch_interrupted" in [name for name, _ in story.world.recorder.problems]


@pytest.mark.parametrize("operation", ["ChangeMessageVisibilityBatch", "PutItem", "TransactWriteItems"])
def test_a_fault_after_the_work_does_not_repeat_it(operation):
    """What was done is answered as done even if the invocation can't be closed."""
    story = Story()
    story.send("MAIN", "first", group="one")
    story.send("MAIN", "fails", "fail", "ok", group="two")
    story.break_once(lambda name: name == operation, RuntimeError("unforeseen"))

    story.step("MAIN")
    story.drain()

    assert story.done.count("first") == 1
    story.check_kept()


def test_a_message_whose_deletion_was_lost_is_handled_again():
    """At least once, not at most once."""
    story = Story()
    story.send("HIGH", "a")
    story.invoke("HIGH", story.world.receive("HIGH"), deletes=False)

    story.drain()

    assert story.done == ["a", "a"]
    story.check_kept()


@pytest.mark.parametrize("lanes", [1, 2, 3, 7])
@pytest.mark.parametrize("enabled", [True, False])
def test_any_number_of_lanes_works_the_same(lanes, enabled):
    """Lanes are data."""
    tables = [{"name": f"L{number}", "threshold": 100 - number * 10} for number in range(lanes)]
    story = Story({"lanes": tables, "enabled": enabled})
    for number in range(40):
        story.send(
            f"L{number % lanes}", f"m{number}", "fail" if number == 7 else "ok", group=f"g{number % 5}"
        )

    story.drain()

    assert story.dead() == {"m7": "attempts exhausted"}
    assert enabled or story.world.recorder.counts["YieldedMessages"] == 0
    story.check_kept()


def test_records_without_a_group_are_handled_on_their_own():
    """A queue that is not FIFO has no order: one failure holds nothing else back."""
    story = Story()
    for number in range(4):
        story.send("MAIN", f"m{number}", "fail" if number == 0 else "ok", group=f"g{number}")
    event = sqs_event("MAIN", story.world.receive("MAIN"))
    for record in event["Records"]:
        for name in ("MessageGroupId", "MessageDeduplicationId", "SequenceNumber"):
            del record["attributes"][name]

    answer = story.environments[0].handle(event, None)

    assert len(answer["batchItemFailures"]) == 1
    assert story.done == ["m1", "m2", "m3"]


def test_the_answer_is_what_lambda_reads():
    """JSON with an id for each record that stays."""
    story = Story()
    message_id = story.send("MAIN", "a", "fail")
    event = sqs_event("MAIN", story.world.receive("MAIN"))

    answer = story.environments[0].handle(event, None)

    assert json.loads(json.dumps(answer)) == {"batchItemFailures": [{"itemIdentifier": message_id}]}


def test_a_keyboard_interrupt_is_not_swallowed():
    """Whoever runs the function by hand can stop it; the batch stays."""
    world = World()

    @world.consumer.handler("work")
    def work(_message):
        raise KeyboardInterrupt

    world.send("HIGH")
    messages = world.receive("HIGH")

    with pytest.raises(KeyboardInterrupt):
        world.invoke("HIGH", messages)
    assert world.queues.live["HIGH"].counts().not_visible == 1


def test_figures_that_can_not_be_told_change_no_answer():
    """What was done is answered as done."""
    story = Story()
    story.send("HIGH", "a")
    story.world.recorder.end = lambda: int("no figure")

    story.step("HIGH")

    story.check_kept()


@pytest.mark.parametrize("poison", ["dead", "fail", "exit"])
@pytest.mark.parametrize(
    "raw", [{}, {"function_timeout": 60}, {"idempotency": True, "max_attempts": 9}], ids=str
)
def test_a_dead_letter_beside_one_that_kills_its_process_is_one_dead_letter(poison, raw):
    """Their batch comes back for longer than SQS recognises a repeat."""
    story = Story({"consumer": raw})
    story.send("MAIN", "poison", poison, group="a")
    story.send("MAIN", "killer", "crash", group="b")

    story.drain()

    assert sorted(story.dead()) == ["killer", "poison"]
    assert story.world.queues.dead["MAIN"].counts().visible == 2
    story.check_kept()
