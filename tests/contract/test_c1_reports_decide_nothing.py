"""C1: a log line or a metric that fails decides nothing, whatever it raises."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from lanes import Consumer, DeadLetter, Retry
from tests.support.memory import World

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
