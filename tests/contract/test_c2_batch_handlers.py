"""Batch handlers keep each promise for each of their messages (C1 to C8), in both engines."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from datetime import timedelta

import pytest

from lanes import Consumer, DeadLetter, Message, Retry, current_priority, current_traceparent
from lanes.errors import ConfigurationError
from lanes.testing import ProcessKilled
from tests.support.memory import lanes_of
from tests.support.scenario import Scenario

IDS = [f"m{number}" for number in range(10)]


LANES = [
    {"name": "HIGH", "threshold": 50, "batch_size": 10},
    {"name": "MEDIUM", "threshold": 0, "batch_size": 10},
    {"name": "MAIN"},
]


class Bench:
    """Lanes with one batch handler, which answers as `answers` says, and its calls."""

    def __init__(self, engine, *answers, max_size=10, handler_time=None, **settings):
        self.calls: list[list[str]] = []
        self.attempts: list[int] = []
        self.answers = list(answers)
        consumer = Consumer()

        @consumer.batch_handler("invoice", max_size=max_size)
        def post(messages: list[Message], context):
            self.calls.append([message.id for message in messages])
            self.attempts.append(context.attempt)
            assert len(context.message_ids) == len(messages)
            answer = self.answers.pop(0) if self.answers else None
            if isinstance(answer, BaseException):
                raise answer
            return answer

        self.lanes = lanes_of(consumer, engine, lanes=LANES, **settings)

    def run(self, *ids, **fields):
        for name in ids:
            self.lanes.producer.send("invoice", {}, id=name, **fields)
        self.lanes.run_until_idle()
        return self

    @property
    def handled(self):
        return sorted(self.order)

    @property
    def order(self):
        return [one.message.id for one in self.lanes.journal.handled]

    @property
    def failed(self):
        return {one.message.id: type(one.error).__name__ for one in self.lanes.journal.failed}


def test_one_call_handles_up_to_ten_messages_in_their_order(engine):
    """Which groups of their own may be handled in any order, in the one in which they were sent."""
    bench = Bench(engine).run(*IDS, "m10")

    assert bench.calls == [IDS, ["m10"]]
    assert bench.handled == sorted([*IDS, "m10"])
    assert bench.attempts == [1, 1]


@pytest.mark.parametrize("max_size", [1, 3])
def test_no_call_is_larger_than_the_handler_takes(engine, max_size):
    """A list of one is a list, too."""
    bench = Bench(engine, max_size=max_size).run(*IDS)

    assert [name for call in bench.calls for name in call] == IDS
    assert {len(call) for call in bench.calls} <= {max_size, 1}
    assert max(map(len, bench.calls)) == max_size


@pytest.mark.parametrize(
    "answer",
    [
        ["m3", "m7"],
        ("m7", "m3"),
        {"m3", "m7"},
        {"m3": ValueError("no such customer"), "m7": Retry()},
        {"m3": ExceptionGroup("two", [ValueError("no such customer"), KeyError("x")]), "m7": Retry()},
    ],
)
def test_only_the_named_messages_have_failed(engine, answer):
    """They come again, each alone: what made them fail must not reach others."""
    bench = Bench(engine, answer).run(*IDS)

    assert bench.calls[0] == IDS
    assert sorted(bench.calls[1:]) == [["m3"], ["m7"]]
    assert bench.attempts == [1, 2, 2]
    assert bench.handled == IDS
    assert set(bench.failed) == {"m3", "m7"}


def test_a_handler_may_take_the_messages_out_of_its_list(engine):
    """The list is its own: what it names as failed is one of its messages all the same."""
    consumer, calls = Consumer(), []

    @consumer.batch_handler("invoice")
    def post(messages):
        failed = []
        while messages:
            calls.append(messages.pop(0).id)
            if calls == IDS[:3]:
                failed.append("m2")
        return failed

    lanes = lanes_of(consumer, engine, lanes=LANES)
    for name in IDS:
        lanes.producer.send("invoice", {}, id=name)
    lanes.run_until_idle()

    assert calls == [*IDS, "m2"]
    assert sorted(one.message.id for one in lanes.journal.handled) == IDS
    assert [one.message.id for one in lanes.journal.failed] == ["m2"]


def test_the_exception_of_each_message_decides_its_own_outcome(engine):
    """`DeadLetter` gives up, `Retry` names a time, an error counts an attempt."""
    answer = {"m1": DeadLetter("not ours"), "m2": Retry(after=timedelta(minutes=2)), "m3": ValueError("bad")}
    bench = Bench(engine, answer)
    began = bench.lanes.clock.time
    bench.run(*IDS[:5])

    assert bench.lanes.assert_dead_lettered("invoice", reason="not ours").id == "m1"
    (again,) = [one.at for one in bench.lanes.journal.handled if one.message.id == "m2"]
    assert again - began >= timedelta(minutes=2)
    assert bench.handled == ["m0", "m2", "m3", "m4"]
    assert bench.failed == {"m1": "DeadLetter", "m2": "Retry", "m3": "ValueError"}


def test_an_exception_is_a_failed_attempt_of_all_and_then_of_each_alone(engine):
    """One bad message can't use up the attempts of others."""
    bench = Bench(engine, RuntimeError("500"), max_size=4).run(*IDS[:4])

    assert bench.calls[0] == IDS[:4]
    assert sorted(bench.calls[1:]) == [[name] for name in IDS[:4]]
    assert (bench.handled, bench.attempts) == (IDS[:4], [1, 2, 2, 2, 2])


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (["m1", "stranger"], "'stranger'"),
        ({"m1": None}, "NoneType"),
        ({"m1": ValueError}, "type"),
        ("m1", "str"),
        ([7], "int"),
        (3, "int"),
        (False, "bool"),
    ],
)
def test_an_answer_that_names_no_message_fails_all_of_them(engine, answer, words):
    """On any doubt none is done, and the reason names the mistake."""
    bench = Bench(engine, answer, *[answer] * 3, max_attempts=1).run("m1", "m2", "m3")

    letters = bench.lanes.journal.dead_lettered
    assert sorted(letter.message.id for letter in letters) == ["m1", "m2", "m3"]
    assert bench.handled == []
    assert all("batch handler" in letter.error and words in letter.error for letter in letters)


def test_one_call_has_one_message_of_a_group(engine):
    """So that nothing behind a failed one is handled before it."""
    bench = Bench(engine, ["a0"])
    for number in range(4):
        for group in "ab":
            bench.lanes.producer.send("invoice", {}, id=f"{group}{number}", group=group)
    bench.lanes.run_until_idle()

    assert all(len({name[0] for name in call}) == len(call) for call in bench.calls)
    for group in "ab":
        done = [name for name in bench.order if name[0] == group]
        assert done == [f"{group}{number}" for number in range(4)]


def test_only_messages_of_one_kind_priority_and_id_share_a_call(engine):
    """The handler runs inside the priority of each, and answers by id; other names of the kind are of the kind."""
    consumer, calls, others = Consumer(), [], []

    @consumer.batch_handler("invoice", aliases=["bill"])
    def post(messages):
        calls.append(([message.source for message in messages], current_priority()))

    consumer.handler("other")(lambda message: others.append(message.id))
    lanes = lanes_of(consumer, engine, lanes=LANES)
    for source, kind, priority, name in [
        ("a", "invoice", 60, "1"),
        ("b", "bill", 60, "2"),
        ("c", "invoice", 70, "3"),
        ("d", "invoice", 60, "1"),
        ("e", "other", 60, "4"),
        ("f", "invoice", 60, "5"),
    ]:
        lanes.new_producer(source=source).send(kind, {}, id=name, priority=priority)
    lanes.run_until_idle()

    assert calls == [(["a", "b", "f"], 60), (["c"], 70), (["d"], 60)]
    assert others == ["4"]


@pytest.mark.parametrize("engine", ["mappings", "pull"])
def test_the_higher_lane_goes_first_before_each_call(engine):
    """And is not interrupted by a call that has begun. In place another slot would take it, which here runs later."""
    consumer, order = Consumer(), []

    @consumer.batch_handler("invoice", max_size=3)
    def post(messages):
        order.append([message.id for message in messages])
        lanes.clock.advance(timedelta(seconds=1))
        if len(order) == 1:
            lanes.producer.send("urgent", {}, priority=50)

    consumer.handler("urgent")(lambda _message: order.append("urgent"))
    lanes = lanes_of(consumer, engine, lanes=LANES)
    for name in IDS[:9]:
        lanes.producer.send("invoice", {}, id=name, priority=-100)
    lanes.run_until_idle()

    assert order[:2] == [IDS[:3], "urgent"]
    assert sorted(name for call in order if call != "urgent" for name in call) == IDS[:9]


@pytest.mark.parametrize("idempotency", [False, True])
@pytest.mark.parametrize("native", [False, True])
def test_a_checkpoint_lets_the_whole_call_yield_without_an_attempt(engine, idempotency, native):
    """None of its messages is done, and all are handled later in their first attempt."""
    consumer, order = Consumer(), []

    def work(messages):
        order.append([message.id for message in messages])
        lanes.clock.advance(timedelta(seconds=1))
        if len(order) == 1:
            lanes.producer.send("urgent", {}, priority=50)

    if native:

        @consumer.batch_handler("invoice")
        async def post(messages, context):
            work(messages)
            await asyncio.sleep(0)
            await context.checkpoint()
            return ()

    else:

        @consumer.batch_handler("invoice")
        def post(messages, context):
            work(messages)
            context.checkpoint()

    consumer.handler("urgent")(lambda _message: order.append("urgent"))
    lanes = lanes_of(consumer, engine, lanes=LANES, idempotency=idempotency, reserved_concurrency=1)
    for name in IDS:
        lanes.producer.send("invoice", {}, id=name, priority=-100)
    lanes.run_until_idle()

    assert order == [IDS, "urgent", IDS]
    assert not lanes.journal.failed
    assert {one.attempt for one in lanes.journal.handled} == {1}


def test_with_idempotency_only_the_failed_message_is_handled_again(engine):
    """Each has an effect of its own; a second delivery of a done one is skipped."""
    bench = Bench(engine, ["m4"], idempotency=True).run(*IDS)
    bench.lanes.clock.advance(timedelta(minutes=10))
    bench.run(*IDS, group="again")

    assert bench.calls == [IDS, ["m4"]]


@pytest.mark.parametrize("idempotency", [False, True])
def test_a_message_that_kills_the_process_dies_alone(engine, idempotency):
    """The others of its call are handled, and only it is dead-lettered after its attempts."""
    consumer, runs = Consumer(), Counter()

    @consumer.batch_handler("invoice")
    def post(messages):
        runs.update(message.id for message in messages)
        if any(message.id == "m3" for message in messages):
            raise ProcessKilled

    lanes = lanes_of(
        consumer, engine, lanes=LANES, idempotency=idempotency, max_attempts=3, function_timeout=10
    )
    for name in IDS:
        lanes.producer.send("invoice", {}, id=name)
    lanes.run_until_idle()

    assert {one.message.id for one in lanes.journal.handled} == {*IDS} - {"m3"}
    assert [letter.message.id for letter in lanes.journal.dead_lettered] == ["m3"]
    assert runs["m3"] == 3 + (not idempotency)
    if idempotency:
        assert {count for name, count in runs.items() if name != "m3"} == {2}


def test_data_that_does_not_fit_is_dead_lettered_without_a_call(engine):
    """The type of the data is that of the list's messages."""
    consumer, seen = Consumer(), []

    @consumer.batch_handler("invoice")
    def post(messages: list[Message[int]]):
        seen.append([message.data for message in messages])

    lanes = lanes_of(consumer, engine, lanes=LANES)
    for data in (1, "two", 3):
        lanes.producer.send("invoice", data)
    lanes.run_until_idle()

    assert seen == [[1, 3]]
    assert lanes.assert_dead_lettered("invoice").data == "two"


@pytest.mark.parametrize("same", [True, False])
def test_a_call_continues_a_trace_that_all_its_messages_have(engine, same):
    """Else none, as it can't be part of several; each message has its own."""
    consumer, seen = Consumer(), []

    @consumer.batch_handler("invoice")
    def post(messages, context):
        assert context.traceparent == current_traceparent()
        seen.append((current_traceparent() or "")[3:35])

    lanes = lanes_of(consumer, engine, lanes=LANES)
    traces = ["4bf92f3577b34da6a3ce929d0e0e4736", "4bf92f3577b34da6a3ce929d0e0e4737"]
    for trace in (traces[0], traces[not same]):
        lanes.producer.send("invoice", {}, traceparent=f"00-{trace}-00f067aa0ba902b7-01")
    lanes.run_until_idle()

    assert seen == [traces[0] if same else ""]


@pytest.mark.parametrize(
    "limit", [{"max_rates": {"work": 3}}, {"max_rate": 3}, {"max_rate": 3, "max_rates": {"work": 3}}]
)
def test_a_rate_counts_messages_and_not_calls(limit):
    """So a call has no more messages than may start in a second."""
    scenario = Scenario({"consumer": limit}, engine="pull", max_size=10)
    scenario.warm_up()
    scenario.world.clock.advance(60)
    for number in range(30):
        scenario.send("MAIN", f"m{number}", group=f"g{number}")
    scenario.drain()

    scenario.check_kept()
    starts = sorted(start.at for start in scenario.starts)
    assert max(map(len, scenario.calls)) == 4
    for window in (10.0, 20.0):
        most = max(sum(1 for at in starts if begin <= at < begin + window) for begin in starts)
        assert most <= 3 * window + 4


def test_an_overdue_message_is_served_alone(engine):
    """The reserve pays for one record at a time."""
    settings = {"lanes": [{"name": "HIGH", "threshold": 50}, {"name": "MAIN", "max_wait": 60}]}
    scenario = Scenario(settings, engine=engine, max_size=10)
    scenario.warm_up()
    for number in range(8):
        scenario.send("MAIN", f"m{number}", group=f"g{number}")
    scenario.world.clock.advance(120)
    for number in range(200):
        scenario.send("HIGH", f"h{number}", group=f"h{number}")
    scenario.takes = 0.5
    scenario.drain()

    scenario.check_kept()
    first = next(call for call in scenario.calls if call[0].startswith("m"))
    assert first == ["m0"]


@pytest.mark.parametrize("max_size", [0, 11, -1])
def test_a_size_that_no_call_has_is_refused(max_size):
    """It says which are allowed."""
    with pytest.raises(ConfigurationError, match=f"from 1 to 10.*not {max_size}"):
        Consumer().batch_handler("invoice", max_size=max_size)


@pytest.mark.parametrize("max_size", [True, "10", 2.0, None])
def test_a_size_that_is_no_whole_number_is_refused(max_size):
    """At registration."""
    with pytest.raises(TypeError, match="max_size must be an int"):
        Consumer().batch_handler("invoice", max_size=max_size)


def test_one_message_is_not_taken_for_several():
    """Nor several for one: the handler would loop over the wrong thing."""

    def one(message: Message[int]) -> None: ...

    def several(messages: list[Message[int]]) -> None: ...

    def generator(messages):
        yield messages

    with pytest.raises(TypeError, match="annotate message as list"):
        Consumer().batch_handler("invoice")(one)
    with pytest.raises(TypeError, match="batch_handler"):
        Consumer().handler("invoice")(several)
    with pytest.raises(TypeError, match="generator"):
        Consumer().batch_handler("invoice")(generator)
    with pytest.raises(TypeError, match="batch_handler needs the kind"):
        Consumer().batch_handler(several)


def test_a_raw_body_never_joins_a_call(engine):
    """It is no message of the kind."""
    bench = Bench(engine, max_attempts=1)
    bench.lanes.send_body("MEDIUM", json.dumps({"a": 1}))
    bench.run("m1")

    assert bench.calls == [["m1"]]
    assert len(bench.lanes.journal.dead_lettered) == 1
