"""Run by tests of tracing, in a process of its own: X-Ray's library keeps its recorder for the whole of a process."""

import json
import sys
from random import Random

from lanes import Message, current_traceparent
from lanes.aws.tracing import TracedTelemetry, XRayTracing
from lanes.consumer import Consumer
from lanes.consumer.consumer import Surroundings
from lanes.consumer.slots import SingleSlot
from lanes.errors import DeadLetter, Retry
from tests.support.memory import World


def traced_consumer(world: World) -> Consumer:
    """Make a consumer in memory that is traced."""
    tracing = XRayTracing()
    return Consumer(
        Surroundings(
            deployment=world.deployment,
            queues=world.queues,
            ledger=world.ledger,
            register=SingleSlot(),
            telemetry=TracedTelemetry(world.recorder, tracing),
            tracing=tracing,
            clock=world.clock,
            random=Random(1),
        )
    )


def main(traceparent: str) -> None:
    """Handle messages of each outcome and print what handlers saw, the ids of what was done, and what was logged."""
    world = World({"consumer": {"max_attempts": 3}})
    consumer = traced_consumer(world)
    places = {}

    @consumer.handler("order.placed")
    def place(message, context):
        places[message.id] = [context.traceparent, current_traceparent()]
        if message.data == "retry":
            raise Retry(reason="busy")
        if message.data == "hopeless":
            raise DeadLetter("no")
        if message.data == "bad":
            raise ValueError("wrong")

    world.send_body("MAIN", Message(kind="order.placed", id="low").to_body(), group="low")
    for data in ("traced", "untraced", "retry", "hopeless", "bad"):
        message = Message(
            kind="order.placed", id=data, data=data, traceparent=None if data == "untraced" else traceparent
        )
        world.send_body("HIGH", message.to_body(), group=data)
    world.step("MAIN", consumer=consumer)
    world.step("HIGH", consumer=consumer)
    events = [name for name, _ in world.recorder.events]
    sys.stdout.write(json.dumps({"places": places, "events": events}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
