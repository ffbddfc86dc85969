"""Record each run of a handler as a subsegment of X-Ray, with the Tracer of Powertools."""

from typing import Any

from aws_lambda_powertools import Tracer

from lanes import Consumer, HandlerContext, Message

consumer = Consumer()
# Patching every library takes half a second of a cold start; name the modules that you want to see.
tracer = Tracer(auto_patch=False)


@consumer.handler("order.placed")
@tracer.capture_method(capture_response=False)
def place_order(message: Message, context: HandlerContext) -> None:
    """Handle an order in a subsegment that you can find by its annotations."""
    tracer.put_annotation("message_id", message.id)
    tracer.put_annotation("lane", context.lane)
    tracer.put_annotation("attempt", context.attempt)
    if context.traceparent:
        tracer.put_annotation("traceparent", context.traceparent)
    reserve(message.data)


def lambda_handler(event: dict[str, Any], context: Any) -> Any:
    """Handle one invocation."""
    return consumer.handle(event, context)


# The rest represents your own systems.

RESERVED: list[Any] = []


def reserve(order: Any) -> None:
    """Reserve the stock for an order."""
    RESERVED.append(order)
