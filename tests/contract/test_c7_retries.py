"""C7: retries keep their lane; failed records return after a backoff, or when the handler asked for it."""

import asyncio
import dataclasses
import io
import json
from datetime import timedelta

import pytest

from lanes import Consumer, DeadLetter, Retry
from lanes.aws.telemetry import PowertoolsTelemetry
from lanes.consumer.engines.looks import POLL
from lanes.priority import current_priority
from lanes.testing.calls import ProcessKilled
from tests.support.memory import World, aws_error
from tests.support.scenario import Scenario


def handled(scenario):
    """Return the log events of what was handled."""
    return scenario.world.recorder.named("message_handled")


def returns_after(scenario, lane="HIGH"):
    """Return the seconds until the lane's queue gives something again by itself."""
    return scenario.world.queues.live[lane].next_event_at() - scenario.world.clock.now


def test_a_failed_record_returns_to_its_own_lane_after_a_backoff():
    """It doubles with each attempt, a quarter of it is jitter."""
    scenario = Scenario({"consumer": {"backoff_base": 8}})
    scenario.send("HIGH", "a", "fail")
    waits = []
    for _ in range(4):
        scenario.step("HIGH")
        waits.append(returns_after(scenario))
        scenario.world.clock.advance(waits[-1])

    assert [start.lane for start in scenario.starts] == ["HIGH"] * 4
    for wait, full in zip(waits, [8, 16, 32, 64], strict=True):
        assert full * 0.75 <= wait <= full


def test_the_backoff_has_a_cap(engine):
    """However many attempts there were."""
    scenario = Scenario({"consumer": {"backoff_base": 8, "backoff_max": 20}}, engine=engine)
    scenario.send("HIGH", "a", "fail")
    for _ in range(4):
        scenario.step("HIGH")
        assert returns_after(scenario) <= 20
        scenario.world.clock.advance(20)


@pytest.mark.parametrize("before", [(), ("crash",)])
def test_a_message_that_asked_for_the_dead_letter_queue_never_runs_again(engine, before):
    """Not even when the answer after its dead letter was lost, whether its attempt was announced or not."""
    scenario = Scenario({"consumer": {"max_attempts": 5}}, engine=engine)
    scenario.send("HIGH", "a", *before, "dead", "ok")
    for _ in before:
        scenario.step("HIGH")
        scenario.world.clock.advance(200)

    scenario.invoke("HIGH", scenario.world.receive("HIGH"), deletes=False)
    scenario.drain()

    assert [start.does for start in scenario.starts] == [*before, "dead"]
    assert scenario.dead() == {"a": "not wanted"}
    scenario.check_kept()


def test_retry_returns_the_record_when_the_handler_asked_for_it(engine):
    """And counts as a failed attempt."""
    scenario = Scenario(engine=engine)
    scenario.send("HIGH", "a", "retry", "ok")

    scenario.drain()

    first, second = scenario.starts
    assert 3 <= second.at - first.at <= (3.1 if engine == "mappings" else 3 + POLL + 0.1)
    assert [first.attempt, second.attempt] == [1, 2]


def test_retry_without_a_time_backs_off_as_usual():
    """Only the log tells it from another failure."""
    world = World({"consumer": {"backoff_base": 8}})

    @world.consumer.handler("work")
    def work(_message):
        raise Retry(reason="not yet")

    world.send("HIGH")
    world.step("HIGH")

    assert 6 <= world.queues.live["HIGH"].next_event_at() - world.clock.now <= 8


def test_a_longer_time_than_sqs_can_do_is_cut(engine):
    """A message is invisible for twelve hours at most; the failure in the log, and so in a trace, says so."""
    world = World(engine=engine)

    @world.consumer.handler("work")
    def work(_message):
        raise Retry(after=timedelta(days=3))

    world.send("HIGH")
    world.step("HIGH")

    assert 11 * 3600 <= world.queues.live["HIGH"].next_event_at() - world.clock.now <= 12 * 3600
    assert world.recorder.problems == []
    (failure,) = world.recorder.named("message_failed")
    assert "not 3 days, 0:00:00: SQS hides no message for longer" in failure["error"]


def test_retry_at_once_is_possible(engine):
    """Zero means now."""
    world = World(engine=engine)

    @world.consumer.handler("work")
    def work(_message, context):
        if context.attempt == 1:
            raise Retry(after=timedelta(0))

    world.send("HIGH")
    world.step("HIGH")
    world.step("HIGH")

    assert world.queues.live["HIGH"].counts().visible == 0
    assert len(world.recorder.named("message_handled")) == 1


@pytest.mark.parametrize("after_effect", [False, True])
def test_who_gave_up_is_not_asked_again_when_the_dead_letter_could_not_be_sent(engine, after_effect):
    """The record returns, and only the sending is tried again: a second run might even succeed."""
    scenario = Scenario(engine=engine)
    scenario.send("HIGH", "a", "dead", "ok")
    scenario.break_once(lambda operation: operation == "SendMessage", aws_error(), after_effect=after_effect)

    scenario.step("HIGH")
    scenario.drain()

    assert [start.does for start in scenario.starts] == ["dead"]
    assert scenario.dead() == {"a": "not wanted"}
    scenario.check_kept()


def test_a_dead_letter_is_sent_again_before_sqs_forgets_the_first_one(engine):
    """Within five minutes SQS recognises the repeat, so a lost answer makes no second dead letter."""
    scenario = Scenario({"consumer": {"max_attempts": 12, "backoff_base": 2}}, engine=engine)
    scenario.send("HIGH", "a", "fail")
    scenario.break_once(lambda operation: operation == "SendMessage", aws_error(), after_effect=True)

    scenario.drain()

    assert len(scenario.starts) == 12
    scenario.check_kept()


def test_a_retry_keeps_its_priority(engine):
    """The handler runs inside the message's priority at every attempt."""
    world = World(engine=engine)
    seen = []

    @world.consumer.handler("work")
    def work(_message):
        seen.append(current_priority())
        if len(seen) < 3:
            raise ValueError

    body = json.dumps(
        {"specversion": "1.0", "id": "1", "source": "s", "type": "work", "data": None, "priority": 70}
    )
    world.send_body("HIGH", body)
    for _ in range(3):
        world.step("HIGH")
        world.clock.advance(30)

    assert seen == [70, 70, 70]
    assert current_priority() is None


class SpeechlessError(Exception):
    """An exception that can't be put into words."""

    def __str__(self):
        raise RuntimeError("no words")


class LeavingError(Exception):
    """An exception that ends the process when it is put into words."""

    def __str__(self):
        raise SystemExit(1)


class CancelledTextError(Exception):
    """An exception whose text is cancelled."""

    def __str__(self):
        raise asyncio.CancelledError


class RecursiveError(Exception):
    """An exception in its own arguments."""

    def __repr__(self):
        return repr(self)


class UnreadableError(DeadLetter):
    """A signal whose reason can't be computed."""

    @property
    def reason(self):
        raise RuntimeError("no reason")

    @reason.setter
    def reason(self, value):
        """Take any."""


class BusyError(Retry):
    """A signal of the application's own, which forgets to make what it is made of."""

    def __init__(self, who):
        self.who = who


class NobodysError(DeadLetter):
    """Another one."""

    def __init__(self, who):
        self.who = who


def retry_after(after):
    """Return a signal whose time was set to something else afterwards."""
    error = Retry()
    error.after = after
    return error


@pytest.mark.parametrize(
    "error",
    [
        SpeechlessError(),
        LeavingError(),
        CancelledTextError(),
        ValueError(RecursiveError()),
        UnreadableError(""),
        BusyError("bank"),
        NobodysError("bank"),
        retry_after(5),
        DeadLetter(""),
        ValueError("\ud800 is half a character"),
        DeadLetter(SpeechlessError()),
        DeadLetter(None),
        SystemExit(3),
        GeneratorExit(),
        RecursionError(),
        ExceptionGroup("several", [ValueError(), OSError()]),
        ValueError("long" * 100_000),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_handler_raises_is_an_outcome(engine, error):
    """It is counted, told in words that travel, and ends where any failure ends; its neighbours go on."""
    world = World({"consumer": {"max_attempts": 2}}, engine=engine)
    stream, handled = io.BytesIO(), []
    telemetry = PowertoolsTelemetry(environ={}, stream=stream)
    world.consumer = Consumer(dataclasses.replace(world.consumer._runtime, telemetry=telemetry))

    @world.consumer.handler("work")
    def work(message):
        if message.id == "bad":
            raise error
        handled.append(message.id)

    world.send("HIGH", id="bad", group="one")
    world.send("HIGH", id="good", group="two")
    world.step("HIGH")
    world.clock.advance(10)
    world.step("HIGH")

    assert handled == ["good"]
    (note,) = world.queues.notes.values()
    assert note.reason.encode()
    assert f"{note.reason}{note.error}".encode()
    events = [json.loads(line) for line in stream.getvalue().splitlines()]
    names = {one.get("event") for one in events}
    assert "batch_interrupted" not in names
    assert "message_dead_lettered" in names
    # CloudWatch Logs would cut a longer line into parts, which neither a trace nor a status can read.
    assert all(len(str(one.get("error"))) < 5_000 for one in events)


def test_a_long_wait_outlasts_a_later_record_that_kills_the_process(engine):
    """The wait is set before the next record starts, as nothing else would keep it."""
    world = World({"consumer": {"reserved_concurrency": 1}}, engine=engine)
    starts = []

    @world.consumer.handler("later")
    def later(_message):
        starts.append("later")
        raise Retry(after=timedelta(hours=1))

    @world.consumer.handler("kills")
    def kills(_message):
        starts.append("kills")
        world.calls.crash()

    for kind in ("later", "kills"):
        world.send("HIGH", kind, group=kind)
    with pytest.raises(ProcessKilled):
        world.step("HIGH")

    assert starts == ["later", "kills"]
    world.calls.killed = False
    world.clock.advance(200)
    # Only the record that killed its process is back.
    assert world.queues.live["HIGH"].counts().visible == 1
