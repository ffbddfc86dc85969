"""Lanes in memory: what happens to messages there is what happens to them on AWS."""

import threading
from collections import Counter
from datetime import timedelta
from functools import partial
from types import SimpleNamespace

import pytest

from lanes import Consumer, LanesConfig, Message, Retry, current_priority
from lanes.bell import RETURN_EVERY
from lanes.errors import RunError
from lanes.testing import InMemoryLanes, NeverIdleError, ProcessKilled
from lanes.testing.function import INVOCATION
from lanes.testing.mapping import RunLimit

BULK, HIGH = -100, 50


def new_lanes(handlers, raw=None, *, engine="mappings", **more):
    """Make lanes whose handlers take the lanes, the message and the context."""
    raw = raw or {}
    raw |= {"consumer": {"engine": engine, **raw.get("consumer", {})}}
    consumer = Consumer()
    lanes = InMemoryLanes(consumer, config=LanesConfig.from_dict(raw), **more)
    for kind, handler in handlers.items():
        consumer.handler(kind)(lambda message, context, run=handler: run(lanes, message, context))
    return lanes


@pytest.fixture(params=["mappings", "pull"])
def engine(request):
    """Give the name of each engine."""
    return request.param


@pytest.fixture
def lanes_with(engine):
    """Give `new_lanes` for each engine."""
    return partial(new_lanes, engine=engine)


def ok(_lanes, _message, _context):
    """Succeed."""


def fail(_lanes, message, _context):
    """Fail."""
    raise ValueError(f"{message.kind} fails")


def kinds(entries):
    """Give the kinds in order."""
    return [one.message.kind for one in entries]


def numbers(entries, kind):
    """Give the numbers of the messages of a kind, in order."""
    return [one.message.data["n"] for one in entries if one.message.kind == kind]


def test_a_message_waits_until_the_lanes_run(lanes_with, engine):
    """Nothing happens by itself, so a test sees each state."""
    lanes = lanes_with({"a": ok})
    sent = lanes.producer.send("a", {"n": 1})
    before = list(lanes.journal.handled)
    lanes.run_until_idle()

    assert before == []
    assert lanes.assert_handled("a", n=1).id == sent.id
    assert lanes.clock.now - lanes.clock.started_at == (
        pytest.approx(1 + INVOCATION) if engine == "mappings" else pytest.approx(2, abs=0.3)
    )


def test_a_free_slot_serves_the_higher_lane_while_the_lower_one_goes_on():
    """With two slots nobody has to yield to one message."""

    def low(lanes, message, _context):
        if message.data["n"] == 0:
            lanes.producer.send("high", {}, priority=HIGH)

    lanes = new_lanes({"low": low, "high": ok}, {"consumer": {"reserved_concurrency": 2}})
    for n in range(4):
        lanes.producer.send("low", {"n": n}, group="g", priority=BULK)
    lanes.run_until_idle()

    assert kinds(lanes.journal.handled)[:2] == ["high", "low"]
    assert numbers(lanes.journal.handled, "low") == [0, 1, 2, 3]
    assert not lanes.journal.yields


def test_what_runs_in_another_slot_knows_nothing_of_this_ones_priority():
    """The priority block of one invocation does not leak into another, also where a raw body has none of its own."""
    seen = {}

    def low(lanes, _message, _context):
        seen["low"] = current_priority()
        lanes.send_body("HIGH", "raw")

    consumer = Consumer()
    lanes = InMemoryLanes(consumer, config=LanesConfig.from_dict({"consumer": {"reserved_concurrency": 2}}))
    consumer.handler("low")(lambda message: low(lanes, message, None))
    consumer.raw_handler(lambda _record: seen.setdefault("raw", current_priority()))
    lanes.producer.send("low", {}, priority=BULK)
    lanes.run_until_idle()

    assert seen == {"low": BULK, "raw": None}


def test_each_slot_has_its_own_deadline():
    """What begins later beside a handler may also end later."""

    def low(lanes, _message, _context):
        lanes.clock.advance(15)
        lanes.producer.send("high", {}, priority=HIGH)

    def high(lanes, _message, _context):
        lanes.clock.advance(20)

    lanes = new_lanes({"low": low, "high": high}, {"consumer": {"reserved_concurrency": 2}})
    lanes.producer.send("low", {}, priority=BULK)
    lanes.run_until_idle()

    assert [(one.message.kind, one.receive_count) for one in lanes.journal.handled] == [
        ("high", 1),
        ("low", 1),
    ]


def test_one_slot_is_one_process_until_that_dies():
    """What the consumer remembers from one invocation to the next is tested too."""
    made = []
    consumer = Consumer()
    within = consumer.within
    consumer.within = lambda *given, **more: made.append(1) or within(*given, **more)

    @consumer.handler("a")
    def _a(_message):
        if message_kills():
            raise ProcessKilled

    def message_kills():
        return len(made) == 1 and len(lanes.journal.handled) == 2

    lanes = InMemoryLanes(consumer)
    for _ in range(4):
        lanes.producer.send("a", {})
        lanes.run_until_idle()

    assert len(lanes.journal.handled) == 4
    assert len(made) == 2


def test_a_failed_attempt_is_tried_again_after_its_backoff(lanes_with, engine):
    """The clock moves on by itself; the message keeps its lane."""

    def once(_lanes, _message, context):
        if context.attempt == 1:
            raise ValueError("not yet")

    lanes = lanes_with({"a": once}, {"consumer": {"backoff_base": "10s"}})
    lanes.producer.send("a", {}, priority=HIGH)
    lanes.run_until_idle()

    lanes.assert_handled("a", lane="HIGH", attempt=2)
    (failed,) = lanes.journal.failed
    assert (failed.attempt, str(failed.error)) == (1, "not yet")
    # In the pull engine a heartbeat brings it, once in 20 seconds.
    longest = 12 if engine == "mappings" else 12 + RETURN_EVERY
    assert 8 <= (lanes.journal.handled[0].at - failed.at).total_seconds() <= longest


def test_a_raw_body_reaches_the_raw_handler():
    """What other services send can be tested too."""
    consumer = Consumer()
    bodies = []
    consumer.raw_handler(lambda record: bodies.append(record.body))
    lanes = InMemoryLanes(consumer)
    lanes.send_body("MAIN", "a notification")
    lanes.run_until_idle()

    assert bodies == ["a notification"]
    assert lanes.assert_handled(data="a notification").kind == ""
    with pytest.raises(KeyError, match="no lane 'LOW'"):
        lanes.send_body("LOW", "a notification")


def test_nothing_that_a_killed_process_still_does_takes_effect():
    """Its slot looks taken until its time is over: it published no release."""
    killed = []

    def kill(_lanes, message, _context):
        killed.append(message.id)
        raise ProcessKilled

    lanes = new_lanes({"a": kill}, {"consumer": {"reserved_concurrency": 2}})
    lanes.producer.send("a", {})
    lanes.run_until(lambda: bool(killed))

    (record,) = lanes._stack.slots.records.values()
    assert record.busy


def test_a_handler_beyond_the_functions_timeout_is_killed(lanes_with):
    """As Lambda does it; each such attempt counts, but for a first one that nothing announced."""

    def slow(lanes, _message, _context):
        lanes.clock.advance(timedelta(seconds=31))

    lanes = lanes_with({"a": slow}, {"consumer": {"max_attempts": 2}})
    lanes.producer.send("a", {})
    lanes.run_until_idle()

    lanes.assert_dead_lettered("a", reason="attempts exhausted")
    # A slot gives a record that ended its process a pause and an invocation of its own, which takes receives.
    assert lanes.journal.dead_lettered[0].receives == (6 if lanes.config.consumer.engine == "pull" else 4)


def test_a_handler_that_sends_itself_for_ever_is_noticed(lanes_with):
    """The error says which kind and how often."""

    def again(lanes, message, _context):
        lanes.producer.send(message.kind, message.data)

    lanes = lanes_with({"ping": again})
    lanes.producer.send("ping", {})

    with pytest.raises(
        NeverIdleError, match=r"after 50 handler starts .*ping 50 times; 50 messages were sent"
    ):
        lanes.run_until_idle(most_handlings=50)


def test_invocations_that_get_nowhere_are_noticed_too():
    """A batch that only ever goes back starts no handler."""
    busy = SimpleNamespace(started=Counter(), total=0)
    limit = RunLimit(busy, new_lanes({}).journal, most=10)
    busy.total = 199
    limit.check()
    busy.total = 200

    with pytest.raises(NeverIdleError, match="after 0 handler starts in 200 invocations; handled: none"):
        limit.check()


def test_a_run_ends_as_soon_as_its_condition_holds(lanes_with):
    """And says whether it does."""
    lanes = lanes_with({"a": ok}, {"lanes": [{"name": "MAIN", "batch_size": 1}]})
    for _ in range(5):
        lanes.producer.send("a", {})

    assert lanes.run_until(lambda: len(lanes.journal.handled) == 2)
    assert len(lanes.journal.handled) == 2
    assert not lanes.run_until(lambda: len(lanes.journal.handled) == 9)
    assert len(lanes.journal.handled) == 5


def test_a_batch_that_was_held_too_long_is_received_again():
    """A mapping took it out, nobody ran it, and its visibility timeout ended."""
    lanes = new_lanes({"low": ok, "high": ok})
    lanes.producer.send("low", {}, priority=BULK)
    lanes.producer.send("high", {}, priority=HIGH)
    lanes.run_until(lambda: bool(lanes.journal.handled))
    lanes.clock.advance(timedelta(hours=1))
    lanes.run_until_idle()

    assert [one.receive_count for one in lanes.journal.handled] == [1, 2]
    assert lanes._invocations.total == 2


def test_a_mapping_takes_out_no_more_batches_than_its_maximum_concurrency():
    """What it holds counts as waiting for a slot, what it left in the queue is for others to see."""
    lanes = new_lanes({"a": ok}, {"lanes": [{"name": "MAIN", "batch_size": 1}]})
    for n in range(5):
        lanes.producer.send("a", {"n": n})
    seen = []
    lanes.run_until(lambda: seen.append(tuple(lanes._stack.queues.live["MAIN"].counts()[:2])))

    assert seen[:3] == [(5, 0), (3, 1), (2, 1)]


def test_another_consumer_takes_over_as_after_a_deployment():
    """What waits is handled by the new handlers."""
    lanes = InMemoryLanes()
    lanes.producer.send("a", {"n": 1})
    with pytest.raises(ValueError, match="no consumer"):
        lanes.run_until_idle()
    told = []
    for release in ("old", "new"):
        consumer = Consumer()
        consumer.handler("a")(lambda _message, release=release: told.append(release))
        lanes.serve(consumer)
        lanes.run_until_idle()
        lanes.producer.send("a", {"n": 2})

    assert told == ["old", "new"]
    lanes.assert_handled("a", attempt=1, n=1)


def test_many_messages_keep_the_order_they_were_given_in(lanes_with):
    """Also between groups: no thread decides anything here."""
    lanes = lanes_with({"a": ok})
    threads = set()
    lanes._sender.send_batch = _noting_threads(lanes._sender.send_batch, threads)
    messages = [Message(kind="a", data={"n": n}, group=f"g{n % 7}") for n in range(100)]
    lanes.producer.send_many(messages, concurrency=8)
    again = lanes_with({"a": ok})
    again.producer.send_many(messages)

    assert [one.message.id for one in lanes.journal.sent] == [one.message.id for one in again.journal.sent]
    assert {one.lane for one in lanes.journal.sent} == {"MEDIUM"}
    assert threads == {threading.get_ident()}


def _noting_threads(send, threads):
    def noting(*given):
        threads.add(threading.get_ident())
        return send(*given)

    return noting


def test_the_clock_does_not_go_back(lanes_with):
    """Time that is taken away would break every rule about time."""
    lanes = lanes_with({})

    with pytest.raises(ValueError, match="can't go back"):
        lanes.clock.advance(-1)


def test_a_message_that_returns_soon_is_served_by_the_slot_that_stays_for_it():
    """Without a heartbeat."""

    def once(_lanes, _message, context):
        if context.attempt == 1:
            raise Retry(after=timedelta(seconds=4))

    lanes = new_lanes({"a": once}, engine="pull")
    lanes.producer.send("a", {})
    lanes.run_until_idle()

    (failed,), (handled,) = lanes.journal.failed, lanes.journal.handled
    assert 4 <= (handled.at - failed.at).total_seconds() <= 6.5
    assert lanes._invocations.total == 1


@pytest.mark.parametrize(("seconds", "expected"), [(None, 1.0), (0.05, 0.05), (7.0, 7.0)])
def test_a_handler_that_moves_the_clock_takes_no_second_of_its_own(seconds, expected):
    """What it says replaces the default."""
    consumer, times = Consumer(), []

    @consumer.handler("work")
    def work(_message):
        times.append(lanes.clock.now)
        if seconds is not None:
            lanes.clock.advance(timedelta(seconds=seconds))

    lanes = InMemoryLanes(consumer)
    for _ in range(2):
        lanes.producer.send("work", {}, group="g")
    lanes.run_until_idle()

    assert times[1] - times[0] == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize("duration", [None, "5", -1, float("nan"), float("inf"), timedelta(seconds=-1)])
def test_a_time_to_run_is_a_duration(duration):
    """None else moves the clock."""
    lanes = InMemoryLanes()
    before = lanes.clock.now

    with pytest.raises(ValueError, match="must be a timedelta or seconds, and not negative"):
        lanes.run_for(duration)

    assert lanes.clock.now == before


def test_bad_input_of_a_test_is_named():
    """With its value and what is allowed."""
    lanes = InMemoryLanes()

    with pytest.raises(TypeError, match=r"serve takes a lanes.Consumer, not None"):
        lanes.serve(None)
    with pytest.raises(RunError, match="the name of the run is None; it must have 1 to 100 letters"):
        lanes.new_producer().run(None, expected=1)
    with pytest.raises(TypeError, match="condition is True; it must be a function"):
        lanes.run_until(True)
    with pytest.raises(TypeError, match="body is "):
        lanes.send_body("HIGH", {})
    with pytest.raises(ValueError, match="body is empty"):
        lanes.send_body("HIGH", "")


def test_a_run_goes_on_after_batches_waited_for_longer_than_their_visibility():
    """Their mapping drops them, so their messages wait in the queue, which nothing hides any more."""
    lanes = new_lanes({"slow": ok}, handler_time=timedelta(seconds=20))
    for number in range(30):
        lanes.producer.send("slow", {}, priority=BULK, group=f"m{number}")
    for number in range(30):
        lanes.producer.send("slow", {}, priority=HIGH, group=f"h{number}")

    lanes.run_until_idle()

    lanes.assert_nothing_waiting()
