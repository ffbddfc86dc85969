"""C4: a yield is not a failure; a message is dead-lettered after exactly `max_attempts` failed attempts."""

import dataclasses
from datetime import timedelta

import pytest

from lanes.consumer.ledger import Ending
from lanes.overrides import OVERRIDES_AGE
from lanes.testing.clock import START
from lanes.testing.table import OVERRIDES_READ
from tests.support.memory import aws_error
from tests.support.scenario import Scenario

LEDGER_CALLS = {"BatchGetItem", "PutItem", "BatchWriteItem", "UpdateItem", "GetItem", "DeleteItem", "Query"}
NATIVE = 1000


def ledger_calls(scenario):
    """Return the calls made to the table."""
    return [operation for operation in scenario.world.calls.log if operation in LEDGER_CALLS]


@pytest.mark.parametrize("yields", [1, 30, 999])
def test_a_message_is_handled_however_often_it_yielded(yields):
    """Up to the last receive that AWS allows, its queue's own dead-letter queue never gets it."""
    scenario = Scenario(native=NATIVE)
    world, main = scenario.world, scenario.world.queues.live["MAIN"]
    main.settings = dataclasses.replace(main.settings, retention=timedelta(days=60))
    scenario.send("MAIN", "main")
    held = []
    for number in range(yields):
        world.clock.now = main.next_event_at() or world.clock.now
        if held:
            # The mapping retries it, so the next one waits, and none looks as if a dead process had left it behind.
            scenario.invoke("HIGH", held)
            world.clock.advance(1)
        scenario.send("HIGH", f"high{number}", group=f"g{number}")
        held = world.receive("HIGH")
        scenario.step("MAIN")
        assert scenario.starts_of("main") == []

    scenario.invoke("HIGH", held)
    scenario.drain()

    (start,) = scenario.starts_of("main")
    assert (start.attempt, start.receive_count) == (1, yields + 1)
    assert scenario.dead() == {}
    assert world.recorder.counts["YieldedMessages"] == yields


def test_at_the_last_receive_a_checkpoint_lets_the_handler_finish():
    """One more yield would bring the message to its queue's own dead-letter queue, unexplained."""
    scenario = Scenario(native=NATIVE)
    scenario.send("MAIN", "main", "check")
    main = scenario.world.queues.live["MAIN"]
    for _ in range(NATIVE - 1):
        (message,) = main.receive(1)
        main.change_visibility(message.receipt_handle, timedelta(0))
    scenario.in_handler = lambda _message: (
        scenario.send("HIGH", "high"),
        scenario.world.clock.advance(1),
        scenario.world.receive("HIGH"),
    )

    scenario.step("MAIN")

    assert scenario.done == ["main"]


@pytest.mark.parametrize(
    ("batch_size", "position"), [(1, 0), (2, 0), (2, 1), (5, 2), (10, 0), (10, 4), (10, 9)]
)
@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("idempotency", [True, False])
def test_poison_is_dead_lettered_after_exactly_max_attempts(
    engine, batch_size, position, grouped, idempotency
):
    """At any batch size and position, while its group and all others go on."""
    scenario = Scenario(
        {
            "lanes": [{"name": "MAIN", "batch_size": batch_size}],
            "consumer": {"max_attempts": 4, "idempotency": idempotency},
        },
        engine=engine,
    )
    for number in range(batch_size + 3):
        does = "fail" if number == position else "ok"
        scenario.send("MAIN", f"m{number}", does, group="g" if grouped else f"g{number}")

    scenario.drain()

    assert [start.attempt for start in scenario.starts_of(f"m{position}")] == [1, 2, 3, 4]
    assert scenario.dead() == {f"m{position}": "attempts exhausted"}
    assert len(scenario.done) == batch_size + 2
    scenario.check_kept()


@pytest.mark.parametrize("max_attempts", [1, 2, 7])
def test_the_dead_letter_tells_attempts_and_yields_apart(max_attempts):
    """What SQS counts together, as receives."""
    scenario = Scenario({"consumer": {"max_attempts": max_attempts}})
    message_id = scenario.send("MAIN", "main", "fail")
    for number in range(3):
        scenario.send("HIGH", f"high{number}")
        held = scenario.world.receive("HIGH")
        scenario.step("MAIN")
        scenario.invoke("HIGH", held)
        scenario.world.clock.advance(1)
    scenario.drain()

    note = scenario.world.queues.notes[message_id]
    assert (note.attempts, note.yields, note.receives) == (max_attempts, 3, max_attempts + 3)
    assert note.error == "ValueError: main fails"


def test_yields_between_failures_count_for_nothing():
    """Fail, yield, fail, yield: the attempts run on."""
    scenario = Scenario({"consumer": {"max_attempts": 3}})
    scenario.send("MAIN", "main", "fail")
    for number in range(6):
        scenario.world.clock.now = (
            scenario.world.queues.live["MAIN"].next_event_at() or scenario.world.clock.now
        )
        if number % 2:
            scenario.step("MAIN")
            continue
        scenario.send("HIGH", f"high{number}")
        held = scenario.world.receive("HIGH")
        scenario.step("MAIN")
        scenario.invoke("HIGH", held)

    scenario.drain()

    assert [start.attempt for start in scenario.starts_of("main")] == [1, 2, 3]
    assert list(scenario.dead()) == ["main"]


@pytest.mark.parametrize("idempotency", [True, False])
def test_a_checkpoint_that_yields_gives_its_attempt_back(idempotency):
    """Also one that was announced before it began."""
    scenario = Scenario({"consumer": {"max_attempts": 2, "idempotency": idempotency}})
    scenario.send("MAIN", "main", "fail", "check", "fail")
    scenario.step("MAIN")
    for number in range(4):
        scenario.world.clock.now = (
            scenario.world.queues.live["MAIN"].next_event_at() or scenario.world.clock.now
        )
        scenario.in_handler = lambda message, number=number: (
            message.id == "main" and (scenario.send("HIGH", f"h{number}"), scenario.world.clock.advance(0.5))
        )
        scenario.step("MAIN")
        scenario.in_handler = lambda _message: None
        scenario.step("HIGH")

    scenario.drain()

    starts = scenario.starts_of("main")
    assert {start.attempt for start in starts} == {1, 2}
    assert len(starts) == 6
    assert scenario.done[-1] == "main"


def test_a_message_that_succeeds_on_its_first_receive_costs_no_call_to_the_ledger(engine):
    """With idempotency off and one slot: reading the counts above is all."""
    scenario = Scenario({"consumer": {"reserved_concurrency": 1}}, engine=engine)
    for lane in ("HIGH", "MEDIUM", "MAIN"):
        for number in range(30):
            scenario.send(lane, f"{lane}{number}", group=f"g{number % 7}")
        scenario.drain()
        scenario.world.clock.advance(1)

    assert len(scenario.done) == 90
    assert ledger_calls(scenario) == []


@pytest.mark.parametrize("messages", [30, 1_000])
def test_the_board_of_overrides_is_read_by_the_clock_and_not_by_the_message(engine, messages):
    """Every five seconds at most, however many messages are handled meanwhile."""
    scenario = Scenario(engine=engine)
    scenario.takes = 30.0 / messages
    for number in range(messages):
        scenario.send("HIGH", f"m{number}", group=f"g{number}")

    scenario.drain()

    assert len(scenario.done) == messages
    assert (
        scenario.world.calls.counts[OVERRIDES_READ] <= 1 + (scenario.world.clock.now - START) / OVERRIDES_AGE
    )


def test_one_lane_alone_costs_one_other_call_a_batch():
    """Nothing is above it, so nothing is read either; a dead batch is to return soon."""
    scenario = Scenario()
    for number in range(30):
        scenario.send("HIGH", f"m{number}", group=f"g{number}")

    scenario.drain()

    assert scenario.world.calls.log == [OVERRIDES_READ, *["ChangeMessageVisibilityBatch"] * 3]


@pytest.mark.parametrize("records", [1, 2, 10])
def test_a_yield_costs_at_most_one_write_for_its_batch(records):
    """And one change of visibilities."""
    scenario = Scenario()
    for number in range(records):
        scenario.send("MAIN", f"main{number}", group=f"g{number % 3}")
    scenario.send("HIGH", "high")
    scenario.world.receive("HIGH")

    scenario.step("MAIN")

    writes = [operation for operation in ledger_calls(scenario) if operation not in {"Query", "BatchGetItem"}]
    assert len(writes) == 1
    assert scenario.world.calls.counts["ChangeMessageVisibilityBatch"] == 1


def test_throttled_receives_count_for_nothing():
    """Lambda let the batch go as often as it liked; the message was never tried."""
    scenario = Scenario({"consumer": {"max_attempts": 2}})
    scenario.send("MAIN", "main", "fail", "ok")
    for _ in range(20):
        assert scenario.world.receive("MAIN")
        scenario.world.clock.advance(181)

    scenario.drain()

    assert [start.attempt for start in scenario.starts] == [1, 2]
    assert scenario.dead() == {}


@pytest.mark.parametrize(("idempotency", "runs"), [(True, 3), (False, 4)])
def test_attempts_that_kill_their_process_count(engine, idempotency, runs):
    """Only the first one, with idempotency off, may go uncounted: one run more."""
    scenario = Scenario({"consumer": {"max_attempts": 3, "idempotency": idempotency}}, engine=engine)
    message_id = scenario.send("MAIN", "main", "crash")

    scenario.drain()

    assert len(scenario.starts) == runs
    assert scenario.dead() == {"main": "attempts exhausted"}
    assert "crashed" in scenario.world.queues.notes[message_id].error


def test_what_killed_its_process_before_is_held_no_longer_than_its_invocation():
    """Each crash costs the function timeout and two seconds, and no visibility timeout."""
    scenario = Scenario({"consumer": {"max_attempts": 9, "function_timeout": 10}})
    scenario.send("MAIN", "main", "crash")

    scenario.step("MAIN")
    scenario.world.clock.advance(11)
    scenario.step("MAIN")
    assert len(scenario.starts) == 1
    scenario.world.clock.advance(1)
    scenario.step("MAIN")
    assert len(scenario.starts) == 2
    scenario.world.clock.advance(12)
    scenario.step("MAIN")

    assert len(scenario.starts) == 3


@pytest.mark.parametrize("idempotency", [True, False])
@pytest.mark.parametrize("position", [0, 4, 9])
@pytest.mark.parametrize("max_attempts", [1, 3])
def test_the_neighbours_of_one_that_kills_its_process_are_healthy(
    engine, idempotency, position, max_attempts
):
    """They are repeated with it, never dead-lettered for it."""
    scenario = Scenario(
        {"consumer": {"max_attempts": max_attempts, "idempotency": idempotency}}, engine=engine
    )
    for number in range(10):
        scenario.send("MAIN", f"m{number}", "crash" if number == position else "ok", group=f"g{number % 4}")

    scenario.drain()

    assert list(scenario.dead()) == [f"m{position}"]
    assert len(set(scenario.done)) == 9
    if idempotency:
        assert len(scenario.done) == 9
    assert len(scenario.starts_of(f"m{position}")) == max_attempts + (not idempotency)
    scenario.check_kept()


def test_time_that_runs_out_is_no_failure(engine):
    """What doesn't fit any more goes back untouched, and returns at once."""
    scenario = Scenario({"consumer": {"function_timeout": 30, "record_time": 12}}, engine=engine)
    scenario.takes = 12
    for number in range(5):
        scenario.send("MAIN", f"m{number}")

    scenario.step("MAIN")
    assert scenario.done == ["m0", "m1"]
    assert scenario.world.queues.live["MAIN"].is_receivable()
    scenario.drain()

    assert {start.attempt for start in scenario.starts} == {1}
    scenario.check_kept()


def test_the_longest_record_seen_tells_what_a_record_takes(engine):
    """Where no time is configured."""
    scenario = Scenario({"consumer": {"function_timeout": 30}}, engine=engine)
    scenario.takes = 12
    for number in range(6):
        scenario.send("MAIN", f"m{number}", group=f"g{number}")

    scenario.step("MAIN")

    assert len(scenario.done) == 2
    scenario.drain()
    scenario.check_kept()


def test_a_record_that_takes_nearly_the_whole_timeout_is_tried_all_the_same(engine):
    """It would fit nowhere else."""
    scenario = Scenario({"consumer": {"function_timeout": 30, "record_time": 29}}, engine=engine)
    for number in range(3):
        scenario.send("MAIN", f"m{number}")

    scenario.drain()

    assert scenario.done == ["m0", "m1", "m2"]


def test_an_attempt_that_could_not_be_counted_is_counted_by_the_settlement(engine):
    """Two failed writes in a row, the third one holds."""
    scenario = Scenario({"consumer": {"max_attempts": 2}}, engine=engine)
    scenario.send("MAIN", "main", "fail")
    scenario.world.calls.break_if = lambda operation, _: (
        aws_error() if operation == "PutItem" and scenario.world.calls.counts["PutItem"] <= 2 else None
    )

    scenario.drain()

    assert len(scenario.starts) == 2


def test_an_announced_attempt_does_not_begin_while_it_can_not_be_written_down(engine):
    """It is postponed, and costs nothing."""
    scenario = Scenario({"consumer": {"max_attempts": 2, "backoff_base": 8}}, engine=engine)
    scenario.send("MAIN", "main", "fail", "ok")
    scenario.step("MAIN")
    scenario.world.clock.advance(10)
    broken = ["PutItem", "BatchWriteItem"]
    scenario.world.calls.break_if = lambda operation, _: aws_error() if operation in broken else None
    scenario.step("MAIN")
    assert len(scenario.starts) == 1
    broken.clear()

    scenario.drain()

    assert [start.attempt for start in scenario.starts] == [1, 2]
    assert scenario.done == ["main"]


def test_a_record_that_yields_before_its_start_does_not_rest_on_a_second_write():
    """It is checked before its attempt is counted: the next process would see a count that stays as a crash."""
    scenario = Scenario({"consumer": {"max_attempts": 1, "idempotency": True}}, environments=2)
    world = scenario.world
    scenario.send("MAIN", "main")

    def send_urgent(operation, _):
        if operation == "UpdateItem" and len(scenario.sent) == 1:
            world.clock.advance(0.5)
            scenario.send("HIGH", "urgent")
        failed = operation in {"PutItem", "BatchWriteItem"} and world.calls.counts["PutItem"] > 1
        return aws_error() if failed else None

    world.calls.break_if = send_urgent
    scenario.step("MAIN")
    assert (len(scenario.sent), scenario.starts) == (2, [])
    world.calls.break_if = lambda *_: None
    world.clock.advance(600)
    scenario.step("MAIN", environment=1)
    scenario.drain()

    assert sorted(scenario.done) == ["main", "urgent"]


def test_a_redriven_message_starts_anew(engine):
    """Also where AWS keeps its message id, and its first receive is lost."""
    scenario = Scenario({"consumer": {"max_attempts": 2}}, engine=engine)
    message_id = scenario.send("MAIN", "main", "fail")
    scenario.drain()
    scenario.world.clock.advance(3600)
    live = scenario.world.queues.live["MAIN"]
    live._new_message_id = lambda: message_id
    scenario.world.queues.notes.clear()

    scenario.send("MAIN", "main", "fail")
    scenario.world.receive("MAIN")
    scenario.world.clock.advance(181)
    scenario.drain()

    assert [start.attempt for start in scenario.starts] == [1, 2, 1, 2]


@pytest.mark.parametrize("does", [("fail",), ("retry", "fail")])
def test_a_late_note_of_what_went_back_never_replaces_a_later_attempt(engine, does):
    """What may be back before its note has landed is noted before it is let go."""
    scenario = Scenario(environments=2, engine=engine)
    scenario.takes = 29.5  # of 30 s
    scenario.send("HIGH", "long", group="one")
    scenario.send("HIGH", "failing", *does, group="two")
    meanwhile = []

    def slow(operation):
        # Whoever writes first is overtaken by a whole invocation, where the queue lets it.
        if operation in {"PutItem", "BatchWriteItem"} and scenario.done == ["long"] and not meanwhile:
            meanwhile.append(operation)
            scenario.takes = 0.01
            scenario.step("HIGH", environment=1)

    scenario.world.calls.takes = slow
    scenario.step("HIGH", environment=0)
    scenario.drain()

    assert meanwhile
    assert [start.attempt for start in scenario.starts if start.id == "failing"] == [1, 2, 3, 4, 5]
    scenario.check_kept()


@pytest.mark.parametrize("does", ["fail", "crash"])
@pytest.mark.parametrize("idempotency", [False, True])
def test_a_late_note_of_a_refused_return_erases_no_attempt(engine, idempotency, does):
    """The change of visibility lost its answer only: another slot has made an attempt before it is repeated."""
    consumer = {"reserved_concurrency": 2, "idempotency": idempotency, "max_attempts": 3}
    scenario = Scenario({"consumer": consumer}, environments=2, engine=engine)
    scenario.send("MAIN", "a", "fail", does)
    handled_meanwhile = []

    def lost(operation, _position):
        if operation != "ChangeMessageVisibilityBatch" or not scenario.starts or handled_meanwhile:
            return None
        handled_meanwhile.append(operation)
        scenario.world.clock.advance(60)
        (again,) = scenario.world.receive("MAIN", 1)
        scenario.invoke("MAIN", [again], environment=1)
        return aws_error()

    scenario.world.calls.lose_if = lost
    scenario.invoke("MAIN", scenario.world.receive("MAIN", 1))
    assert len(scenario.starts) == 2
    scenario.drain()

    assert [start.attempt for start in scenario.starts] == [1, 2, 3]
    assert scenario.dead() == {"a": "attempts exhausted"}


def lose_the_first(scenario, ending):
    """Let the first write of an ending take no effect; return the function with which it lands."""
    ledger, lost = scenario.world.ledger, []
    note = ledger.note

    def losing(entries):
        if entries[0].ending is ending and not lost:
            lost.extend(entries)
            raise aws_error()
        note(entries)

    ledger.note = losing
    return lambda: note(lost)


def test_the_start_of_an_attempt_that_lands_late_makes_no_attempt_of_a_yield():
    """The handler has left at a checkpoint before the first write of its start lands."""
    scenario = Scenario({"consumer": {"idempotency": True}}, environments=2)
    land = lose_the_first(scenario, Ending.STARTED)
    scenario.send("MAIN", "main", "check")
    scenario.in_handler = lambda _message: (
        scenario.send("HIGH", "high"),
        scenario.world.clock.advance(0.5),
        scenario.world.receive("HIGH"),
    )
    scenario.step("MAIN", environment=0)
    land()
    scenario.in_handler = lambda _message: None
    scenario.world.clock.advance(20)
    scenario.step("HIGH", environment=1)
    scenario.world.clock.advance(20)
    scenario.step("MAIN", environment=1)
    scenario.drain()

    assert [start.attempt for start in scenario.starts_of("main")] == [1, 1]


def test_a_return_that_lands_late_erases_no_attempt(engine):
    """The next attempt was counted and killed its process before the first write of the return lands."""
    scenario = Scenario({"consumer": {"idempotency": True, "max_attempts": 3}}, engine=engine)
    land = lose_the_first(scenario, Ending.FAILED)
    scenario.send("MAIN", "main", "fail", "crash", "fail")
    scenario.step("MAIN")
    scenario.world.clock.advance(10)
    scenario.step("MAIN")
    land()
    scenario.drain()

    assert [start.attempt for start in scenario.starts_of("main")] == [1, 2, 3]
    assert scenario.dead() == {"main": "attempts exhausted"}
