"""Continue the trace of a request, and of the message in a handler."""

import urllib.request
from collections.abc import Mapping
from typing import Any

from lanes import Consumer, HandlerContext, Message, Producer, continuing_trace

consumer = Consumer()


def order_received(headers: Mapping[str, str], order: dict[str, Any], producer: Producer) -> None:
    """Send in the trace of a web request, if it has one."""
    with continuing_trace(headers.get("traceparent")):
        producer.send("order.placed", order)


@consumer.handler("order.placed")
def place_order(message: Message, context: HandlerContext) -> None:
    """Call another service in the message's trace; messages that you send continue it by themselves."""
    request = urllib.request.Request("https://stock.example/reservations", method="POST")
    if context.traceparent:
        request.add_header("traceparent", context.traceparent)
    reserve(message.data, request)


# Replace the rest with your own systems.

REQUESTS: list[dict[str, str]] = []


def reserve(_order: Any, request: urllib.request.Request) -> None:
    """Call the service that keeps the stock."""
    REQUESTS.append(dict(request.header_items()))
