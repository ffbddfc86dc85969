"""C4, C7: a yield, `Retry` and `DeadLetter` count as such inside exception groups too, at any depth."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
from contextvars import ContextVar
from datetime import timedelta

import pytest

from lanes import Consumer, DeadLetter, Retry
from lanes.consumer.signals import Yielded
from lanes.testing import ProcessKilled
from tests.support.memory import World, lanes_of

TENANT = ContextVar("tenant", default="none")


def nested(depth, *errors):
    """Return the errors in groups in groups."""
    for _ in range(depth):
        errors = (BaseExceptionGroup("tasks", errors),)
    return errors[0]


def test_a_checkpoint_in_a_task_group_is_a_yield(engine):
    """Urgent messages come one by one; the long message runs to its end in the end, with no failed attempt."""
    consumer, urgent = Consumer(), []

    @consumer.handler("long")
    def work_long(message, context):
        async def part():
            lanes.producer.send("urgent", len(urgent), priority=50)
            lanes.clock.advance(timedelta(seconds=2))
            context.checkpoint()

        async def main():
            async with asyncio.TaskGroup() as outer:
                outer.create_task(asyncio.sleep(5))

                async def inner():
                    async with asyncio.TaskGroup() as tasks:
                        tasks.create_task(part())

                outer.create_task(inner())

        if len(urgent) < 7:
            asyncio.run(main())

    consumer.handler("urgent")(lambda message: urgent.append(message.data))
    lanes = lanes_of(consumer, engine, reserved_concurrency=1)
    lanes.producer.send("long", {}, priority=-100)
    lanes.run_until_idle()

    assert len(urgent) == 7
    lanes.assert_handled("long", attempt=1)
    assert not lanes.journal.failed


@pytest.mark.parametrize("depth", [1, 2, 5000])
@pytest.mark.parametrize(
    ("errors", "reason", "attempts"),
    [
        ([DeadLetter("broken")], "broken", 1),
        ([ValueError("no"), DeadLetter("broken"), Retry(after=timedelta(minutes=1))], "broken", 1),
        ([Yielded(), DeadLetter("broken")], "broken", 1),
        ([Yielded(), ValueError("no")], "attempts exhausted", 2),
        ([Yielded(), Retry()], "attempts exhausted", 2),
        ([asyncio.CancelledError()], "attempts exhausted", 2),
        ([SystemExit(1)], "attempts exhausted", 2),
    ],
    ids=["dead letter", "first", "beside a yield", "failure", "retry", "cancelled", "exit"],
)
def test_the_strongest_of_a_group_decides(engine, depth, errors, reason, attempts):
    """`DeadLetter` before `Retry` before other errors, and a yield only where nothing else happened."""
    consumer, starts = Consumer(), []

    @consumer.handler("work")
    def work(message):
        starts.append(message.id)
        raise nested(depth, *errors)

    lanes = lanes_of(consumer, engine, max_attempts=2)
    lanes.producer.send("work", {})
    lanes.run_until_idle()

    lanes.assert_dead_lettered("work", reason=reason)
    assert len(starts) == attempts
    assert lanes.journal.dead_lettered[0].attempts == attempts


@pytest.mark.parametrize("cancelled", [asyncio.CancelledError(), concurrent.futures.CancelledError()])
def test_tasks_cancelled_beside_a_yield_do_not_count(engine, cancelled):
    """A group cancels its other tasks when one of them leaves."""
    consumer, starts = Consumer(), []

    @consumer.handler("work")
    def work(message, context):
        starts.append(context.attempt)
        if len(starts) < 4:
            raise BaseExceptionGroup("tasks", [cancelled, nested(2, Yielded(), Yielded())])

    lanes = lanes_of(consumer, engine, max_attempts=2)
    lanes.producer.send("work", {})
    lanes.run_until_idle()

    lanes.assert_handled("work", attempt=1)
    assert starts == [1, 1, 1, 1]
    assert not lanes.journal.failed


def test_the_longest_retry_of_a_group_counts(engine):
    """Beside errors that ask for no time, and one that can't compute it."""

    class OddRetry(Retry):
        @property
        def after(self):
            raise RuntimeError("no time")

        @after.setter
        def after(self, value):
            """Take any."""

    consumer, starts = Consumer(), []

    @consumer.handler("work")
    def work(message):
        starts.append(lanes.clock.now)
        if len(starts) == 1:
            errors = [OddRetry(), Retry(), Retry(after=timedelta(seconds=20)), ValueError("no")]
            raise nested(2, *errors, Retry(after=timedelta(minutes=10)), Retry(after=timedelta(seconds=3)))

    lanes = lanes_of(consumer, engine)
    lanes.producer.send("work", {})
    lanes.run_until_idle()

    assert 600 <= starts[1] - starts[0] <= 620


def test_the_only_error_of_a_group_is_the_one_that_is_named(engine):
    """A group's own text is only a count."""
    consumer = Consumer()

    @consumer.handler("work")
    def work(message):
        raise nested(3, Yielded(), ValueError("no such page"))

    lanes = lanes_of(consumer, engine, max_attempts=1)
    lanes.producer.send("work", {})
    lanes.run_until_idle()

    assert lanes.journal.dead_lettered[0].error == "ValueError: no such page"


def test_the_end_of_the_process_stays_one_inside_a_group(engine):
    """It is not a failure that the process could record."""
    consumer, starts = Consumer(), []

    @consumer.handler("work")
    def work(message):
        starts.append(message.id)
        if len(starts) == 1:
            raise nested(2, ProcessKilled(), ValueError("no"))

    lanes = lanes_of(consumer, engine)
    lanes.producer.send("work", {})
    lanes.run_until_idle()

    assert len(starts) == 2
    lanes.assert_handled("work")
    assert not lanes.journal.failed


def without_name():
    """Return an exception the name of whose class can't be read; made late, since pytest reads names of modules."""

    class Unnamed(type):
        @property
        def __name__(cls):
            raise ValueError("no name")

    return Unnamed("UnnamedError", (Exception,), {})()


class ClasslessError(Exception):
    """Its class can't be read."""

    @property
    def __class__(self):
        raise ValueError("no class")


def in_group():
    """Return one in a group."""
    return ExceptionGroup("both", [without_name(), ValueError()])


@pytest.mark.parametrize("made", [without_name, ClasslessError, in_group])
def test_an_exception_whose_class_fails_is_a_failed_attempt(engine, made):
    """It interrupted its batch each time: no attempt was counted, and the records behind it never ran."""
    world = World({"consumer": {"max_attempts": 2, "backoff_base": 1}}, engine=engine)
    consumer, handled = world.environment(), []

    @consumer.handler("order")
    def handle(message):
        handled.append(message.id)
        if message.id == "bad":
            raise made()

    world.send("MAIN", "order", id="bad", group="1")
    world.send("MAIN", "order", id="good", group="2")
    for _ in range(10):
        world.step("MAIN", consumer=consumer)
        world.clock.advance(5)

    assert handled == ["bad", "good", "bad"]
    assert [json.loads(one.body)["id"] for one in world.queues.dead["MAIN"]._store.messages()] == ["bad"]


def test_a_variable_that_a_handler_sets_stays_in_its_call(engine):
    """A tenant or a locale set for one message was that of the next ones too."""
    world = World(engine=engine)
    consumer, seen = world.environment(), []

    @consumer.handler("order")
    def handle(message):
        seen.append(TENANT.get())
        TENANT.set(message.id)

    for number in range(3):
        world.send("MAIN", "order", id=str(number), group=str(number))
    world.step("MAIN", consumer=consumer)

    assert seen == ["none"] * 3
