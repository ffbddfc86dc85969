"""Handlers that are coroutine functions keep each promise (C1, C3, C4, C7): one loop serves all records."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import subprocess
import sys
import warnings
from datetime import timedelta

import pytest

from lanes import Consumer, DeadLetter, Retry, current_priority, current_traceparent
from lanes.consumer.event_loop import HandlerLoop
from lanes.testing import ProcessKilled
from tests.support.memory import lanes_of

MARK = contextvars.ContextVar("mark", default="outside")


@pytest.mark.parametrize("idempotency", [False, True])
def test_one_loop_and_its_clients_serve_all_records(engine, idempotency):
    """Also those of other batches; blocking handlers run beside."""
    consumer, loops, blocking = Consumer(), [], []
    client = []

    @consumer.handler("work")
    async def work(message):
        loops.append(asyncio.get_running_loop())
        if not client:
            client.append(asyncio.get_running_loop().create_future())
            client[0].set_result("connected")
        assert await asyncio.wait_for(client[0], 1) == "connected"
        await asyncio.sleep(0)

    consumer.handler("blocking")(lambda message: blocking.append(message.id))
    lanes = lanes_of(consumer, engine, idempotency=idempotency)
    for _ in range(3):
        lanes.producer.send("work", {})
        lanes.producer.send("blocking", {})
        lanes.run_until_idle()

    assert len(loops) == len(blocking) == 3
    assert len(set(map(id, loops))) == 1
    assert not lanes.journal.failed


def test_the_priority_and_the_trace_hold_inside_and_in_tasks(engine):
    """And a coroutine's own context does not reach the next record."""
    consumer, seen = Consumer(), []
    traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

    @consumer.handler("work")
    async def work(message):
        async def part():
            await asyncio.sleep(0)
            return current_priority(), current_traceparent()[3:35], MARK.get()

        seen.append(await asyncio.create_task(part()))
        MARK.set(message.id)

    lanes = lanes_of(consumer, engine)
    for priority in (70, -10):
        lanes.producer.send("work", {}, priority=priority, traceparent=traceparent)
        lanes.run_until_idle()

    trace = traceparent[3:35]
    assert seen == [(70, trace, "outside"), (-10, trace, "outside")]


@pytest.mark.parametrize("awaits", [True, False])
def test_a_checkpoint_yields_whether_it_is_awaited_or_not(engine, awaits):
    """A forgotten await must not turn priority off."""
    consumer, order = Consumer(), []

    @consumer.handler("long")
    async def work_long(message, context):
        for step in range(3):
            if awaits:
                await context.checkpoint()
            else:
                context.checkpoint()
            order.append(f"step {step}")
            lanes.clock.advance(timedelta(seconds=2))
            if "urgent" not in order:
                lanes.producer.send("urgent", {}, priority=50)
                await asyncio.sleep(0)

    consumer.handler("urgent")(lambda _message: order.append("urgent"))
    lanes = lanes_of(consumer, engine, reserved_concurrency=1)
    lanes.producer.send("long", {}, priority=-100)
    lanes.run_until_idle()

    assert order == ["step 0", "urgent", "step 0", "step 1", "step 2"]
    lanes.assert_handled("long", attempt=1)
    assert not lanes.journal.failed


def test_an_awaited_checkpoint_lets_other_tasks_run(engine):
    """As a pause of asyncio does."""
    consumer, ran = Consumer(), []

    @consumer.handler("work")
    async def work(message, context):
        async def beside():
            ran.append("beside")

        task = asyncio.create_task(beside())
        await context.checkpoint()
        ran.append("after")
        await task

    lanes = lanes_of(consumer, engine)
    lanes.producer.send("work", {})
    lanes.run_until_idle()

    assert ran == ["beside", "after"]


def bad_before_good(consumer, engine):
    """Handle a message of each kind, in one group; return the lanes, and the ids of those that were good."""
    good = []

    @consumer.handler("good")
    async def _good(message):
        await asyncio.sleep(0)
        good.append(message.id)

    lanes = lanes_of(consumer, engine, max_attempts=2)
    lanes.producer.send("bad", {}, group="g")
    lanes.producer.send("good", {}, group="g")
    lanes.run_until_idle()
    return lanes, good


@pytest.mark.parametrize(
    ("error", "attempts", "reason"),
    [
        (ValueError("no"), 2, "attempts exhausted"),
        (Retry(), 2, "attempts exhausted"),
        (DeadLetter("broken"), 1, "broken"),
        (asyncio.CancelledError(), 2, "attempts exhausted"),
        (SystemExit(3), 2, "attempts exhausted"),
        (TimeoutError(), 2, "attempts exhausted"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_coroutine_raises_is_an_outcome(engine, error, attempts, reason):
    """As in a plain function, and the next record finds a loop."""
    consumer, starts = Consumer(), []

    @consumer.handler("bad")
    async def bad(message):
        starts.append(message.id)
        await asyncio.sleep(0)
        raise error

    lanes, good = bad_before_good(consumer, engine)

    assert len(starts) == attempts
    lanes.assert_dead_lettered("bad", reason=reason)
    assert len(good) == 1


async def exits():
    raise SystemExit(3)


async def exits_in_a_group():
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(exits())


async def exits_in_a_gathering():
    await asyncio.gather(exits(), asyncio.sleep(1))


async def exits_in_a_task_of_its_own():
    task = asyncio.create_task(exits())
    await asyncio.sleep(0)
    await task


@pytest.mark.parametrize("leave", [exits_in_a_group, exits_in_a_gathering, exits_in_a_task_of_its_own])
def test_a_task_that_exits_costs_no_other_message_an_attempt(engine, leave):
    """Whatever it left the loop with, the next record finds a working one."""
    consumer = Consumer()

    @consumer.handler("bad")
    async def bad(message):
        await leave()

    lanes, good = bad_before_good(consumer, engine)

    assert {type(failed.error) for failed in lanes.journal.failed} == {SystemExit}
    lanes.assert_dead_lettered("bad", reason="attempts exhausted")
    assert len(good) == 1


def test_a_task_beside_a_handler_that_exits_does_not_go_on_beside_the_next_record(engine):
    """The loop was left between two of its steps."""
    consumer, ran, tasks = Consumer(), [], []

    async def beside():
        await asyncio.sleep(0.001)
        ran.append("beside")

    @consumer.handler("bad")
    async def bad(message):
        tasks.append(asyncio.create_task(beside()))
        await asyncio.sleep(0)
        raise SystemExit(3)

    @consumer.handler("good")
    async def good(message):
        await asyncio.sleep(0.01)
        ran.append("good")

    lanes = lanes_of(consumer, engine, max_attempts=1)
    lanes.producer.send("bad", {}, group="g")
    lanes.producer.send("good", {}, group="g")
    lanes.run_until_idle()

    assert ran == ["good"]


def test_a_handler_that_stops_its_loop_does_not_go_on_beside_the_next_record(engine):
    """Its attempt has failed, so the rest of it must not run."""
    consumer, ran = Consumer(), []

    @consumer.handler("bad")
    async def bad(message):
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)
        ran.append("bad")

    @consumer.handler("good")
    async def good(message):
        await asyncio.sleep(0.01)
        ran.append("good")

    lanes = lanes_of(consumer, engine, max_attempts=2)
    lanes.producer.send("bad", {}, group="g")
    lanes.producer.send("good", {}, group="g")
    lanes.run_until_idle()

    assert len(lanes.journal.failed) == 2
    assert ran == ["good"]


def test_a_task_that_a_handler_leaves_is_reported_once(engine, caplog):
    """Its message is done: the task may be one that a library keeps in the background."""
    consumer, left = Consumer(), []

    async def post_later():
        await asyncio.sleep(0.01)

    @consumer.handler("work")
    async def work(message):
        left.append(asyncio.create_task(post_later()))
        await asyncio.create_task(asyncio.sleep(0))

    lanes = lanes_of(consumer, engine)
    for _ in range(3):
        lanes.producer.send("work", {}, group="g")
    lanes.run_until_idle()

    assert len(lanes.journal.handled) == len(left) == 3
    (warning,) = [
        record.getMessage() for record in caplog.records if record.name == "lanes.consumer.event_loop"
    ]
    assert "post_later, which stands still until another coroutine handler runs" in warning


def test_a_killed_process_leaves_no_task_to_the_next_one(engine):
    """Its attempt is repeated, and tasks that it had started are cancelled."""
    consumer, starts, ends = Consumer(), [], []

    async def endless():
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("cancelled")

    @consumer.handler("work")
    async def work(message):
        starts.append(message.id)
        task = asyncio.create_task(endless())
        await asyncio.sleep(0)
        if len(starts) == 1:
            raise ProcessKilled
        task.cancel()

    lanes = lanes_of(consumer, engine)
    lanes.producer.send("work", {})
    lanes.run_until_idle()

    assert len(starts) == 2
    assert ends[0] == "cancelled"
    lanes.assert_handled("work")


def test_the_loop_is_closed_with_its_consumer():
    """Nothing warns of an unclosed loop."""
    consumer = Consumer()

    @consumer.handler("work")
    async def work(message):
        asyncio.get_running_loop().create_task(asyncio.Event().wait())

    lanes = lanes_of(consumer, "mappings")
    lanes.producer.send("work", {})
    lanes.run_until_idle()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del consumer, lanes, work
        gc.collect()

    assert not [one for one in caught if issubclass(one.category, ResourceWarning)]


def test_a_loop_that_is_collected_within_another_one_is_closed_too():
    """Garbage is collected anywhere."""
    ends = []

    async def endless():
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("cancelled")

    async def started():
        tasks = asyncio.get_running_loop().create_task(endless())
        await asyncio.sleep(0)
        return tasks

    async def main():
        nonlocal loop
        loop = None
        gc.collect()

    loop = HandlerLoop()
    task = loop.run(started())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(main())
        gc.collect()

    assert (ends, task.cancelled(), caught) == (["cancelled"], True, [])


def test_tasks_are_cancelled_when_the_process_ends():
    """As `asyncio.run` does at its end."""
    code = """
import asyncio
from lanes import Consumer
from lanes.consumer.event_loop import HandlerLoop
from lanes.testing import InMemoryLanes

consumer = Consumer()

async def endless():
    try:
        await asyncio.Event().wait()
    finally:
        print("cancelled")

tasks = []

@consumer.handler("work")
async def work(message):
    tasks.append(asyncio.create_task(endless()))
    await asyncio.sleep(0)

lanes = InMemoryLanes(consumer)
lanes.producer.send("work", {})
lanes.run_until_idle()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    (warning,) = done.stderr.splitlines()
    assert (done.stdout, "left the task endless" in warning) == ("cancelled\n", True)


def test_inside_of_a_running_loop_the_error_says_how(engine):
    """A test that is a coroutine itself would block its own loop."""
    consumer = Consumer()

    @consumer.handler("work")
    async def work(message):
        await asyncio.sleep(0)

    lanes = lanes_of(consumer, engine, max_attempts=1)

    async def main():
        lanes.producer.send("work", {"n": 1})
        lanes.run_until_idle()
        lanes.assert_dead_lettered(reason="attempts exhausted")
        assert "await asyncio.to_thread(lanes.run_until_idle)" in lanes.journal.dead_lettered[0].error
        lanes.producer.send("work", {"n": 2})
        await asyncio.to_thread(lanes.run_until_idle)

    asyncio.run(main())
    lanes.assert_handled("work", n=2)
