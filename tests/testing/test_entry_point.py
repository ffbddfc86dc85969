"""Lanes that deliver through the function's own entry point, or to a consumer with another runtime."""

from __future__ import annotations

import pytest

from lanes import Consumer, LanesConfig
from lanes.testing import InMemoryLanes
from tests.support.memory import World


@pytest.fixture
def consumer():
    """A consumer whose first attempt of each message fails."""
    consumer = Consumer()

    @consumer.handler("order.placed")
    def place(_message, context):
        if context.attempt == 1:
            raise ValueError("not yet")

    return consumer


@pytest.fixture(params=["mappings", "pull"])
def lanes(request, consumer):
    """Lanes of each engine."""
    config = LanesConfig.from_dict({"consumer": {"engine": request.param, "reserved_concurrency": 2}})
    return InMemoryLanes(consumer, config=config)


def test_the_consumers_own_entry_point_returns_its_answer(lanes, consumer):
    """As a function that calls `handle` and returns its answer."""
    calls = []

    def own(event, context):
        calls.append(context.aws_request_id)
        return consumer.handle(event, context)

    for entry_point in (consumer.lambda_handler, own):
        lanes.serve(consumer, entry_point=entry_point)
        lanes.producer.send("order.placed", {"order": 7})
        lanes.run_until_idle()

    assert len(lanes.journal.handled) == len(lanes.journal.failed) == 2
    assert calls
    assert consumer._stand_in is None


def test_an_entry_point_without_an_answer_is_refused(lanes, consumer):
    """On AWS the failed message would be deleted."""

    def own(event, context):
        consumer.handle(event, context)

    lanes.serve(consumer, entry_point=own)
    lanes.producer.send("order.placed", {"order": 7})

    with pytest.raises(TypeError, match=r"own returned None .* `own = consumer\.lambda_handler`"):
        lanes.run_until_idle()


def test_lanes_on_moto_deliver_through_it_as_well(lanes_on_moto, consumer):
    """One batch, with the same refusal."""
    lanes_on_moto.producer.send("order.placed", {"order": 7}, priority=50)
    lanes_on_moto.producer.send("order.placed", {"order": 8}, priority=0)

    answer = lanes_on_moto.deliver("HIGH", consumer, entry_point=consumer.lambda_handler)

    assert len(answer["batchItemFailures"]) == 1
    with pytest.raises(TypeError, match="Lambda would delete every record"):
        lanes_on_moto.deliver("MEDIUM", consumer, entry_point=lambda *given: consumer.handle(*given) and None)


def test_the_handlers_run_with_the_other_runtime_through_what_is_around_them():
    """The consumer itself stays as it is: one that is deployed serves as the model of one under test."""
    world, told = World(), []
    original = Consumer()
    original.handler("work")(lambda message: told.append(message.id))
    original.raw_handler(lambda record: told.append(record.body))

    def around(handler, argument, context):
        told.append(context.lane)
        return handler(argument, context)

    other = original.within(world.consumer._runtime, around=around)
    world.send("MAIN", id="one")
    world.send_body("MAIN", "raw", group="r")

    assert world.step("MAIN", consumer=other) == set()
    assert told == ["MAIN", "one", "MAIN", "raw"]
    assert original._runtime is None


def test_without_anything_around_them_the_handlers_are_just_called():
    """Also where there is no handler of raw bodies."""
    world, told = World(), []
    original = Consumer()
    original.handler("work")(lambda message: told.append(message.id))

    other = original.within(world.consumer._runtime)
    world.send("MAIN", id="one")

    assert world.step("MAIN", consumer=other) == set()
    assert told == ["one"]
