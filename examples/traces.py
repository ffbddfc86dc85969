"""Messages that belong to a trace: that of a request, and that of the message that a handler works on."""

import urllib.request
from collections.abc import Mapping
from typing import Any

from lanes import Consumer, HandlerContext, Message, Producer, continuing_trace

consumer = Consumer()


def order_received(headers: Mapping[str, str], order: dict[str, Any], producer: Producer) -> None:
    """Send in the trace of a web request; one without the header belongs to none."""
    with continuing_trace(headers.get("traceparent")):
        producer.send("order.placed", order)


@consumer.handler("order.placed")
def place_order(message: Message, context: HandlerContext) -> None:
    """Call another service in the message's trace; what is sent from here continues it by itself."""
    request = urllib.request.Request("https://stock.example/reservations", method="POST")
    if context.traceparent:
        request.add_header("traceparent", context.traceparent)
    reserve(message.data, request)


# What follows stands for your own systems.

REQUESTS: list[dict[str, str]] = []


def reserve(_order: Any, request: urllib.request.Request) -> None:
    """Call the service that keeps the stock."""
    REQUESTS.append(dict(request.header_items()))
