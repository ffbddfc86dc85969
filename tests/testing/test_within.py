"""A consumer with another runtime: the same handlers, called through a function around them."""

from lanes import Consumer
from tests.support.memory import World


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
