"""Record each run of a handler as a span of OpenTelemetry in the trace of its message."""

from typing import Any

from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from lanes import Consumer, HandlerContext, Message, Producer

consumer = Consumer()
tracer = trace.get_tracer("orders")
propagator = TraceContextTextMapPropagator()


@consumer.handler("order.placed")
def place_order(message: Message, context: HandlerContext) -> None:
    """Continue the trace of the message; a message sent inside the span gets the span as its parent."""
    parent = propagator.extract({"traceparent": context.traceparent or ""})
    with tracer.start_as_current_span(message.kind, context=parent, kind=trace.SpanKind.CONSUMER) as span:
        span.set_attribute("messaging.message.id", message.id)
        span.set_attribute("lanes.lane", context.lane)
        span.set_attribute("lanes.attempt", context.attempt)
        producer().send("receipt.printed", message.data, group=message.group)


def lambda_handler(event: dict[str, Any], context: Any) -> Any:
    """Handle one invocation."""
    return consumer.handle(event, context)


def producer() -> Producer:
    """Send to the lanes of the function's own deployment."""
    return Producer.from_env(source="orders")
