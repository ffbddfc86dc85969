"""What is found out beside a handler for the record after it."""

import dataclasses

from lanes.consumer.background import NoBackground
from lanes.consumer.consumer import Consumer
from tests.support.memory import World


class Asked(NoBackground):
    """A background that notes when it is asked to do something."""

    def __init__(self, clock):
        self._clock = clock
        self.at = []

    def after(self, seconds, action):
        self.at.append(self._clock())
        return super().after(seconds, action)


def test_nothing_is_read_ahead_for_a_record_that_there_will_be_no_time_for():
    """The answer would wait for a slow reading in vain, and the function might be over before it."""
    world = World({"consumer": {"function_timeout": 30}})
    background = Asked(world.clock)
    consumer = Consumer(dataclasses.replace(world.consumer._surroundings, background=background))
    consumer.handler("work")(lambda _message: world.clock.advance(9.0))
    for number in range(10):
        world.send("MAIN", group=f"g{number}")
    began = world.clock()

    kept = world.step("MAIN", consumer=consumer)

    assert len(kept) == 7
    # The first has taught how long they take; the second is followed by a third, and that by none.
    assert background.at == [began + 9.0]
