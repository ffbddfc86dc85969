"""
The sample application: three kinds of messages that share one slow, rate-limited resource.

Replace the handlers with your own; Lambda calls `lambda_handler`.
"""

from __future__ import annotations

import json
import os
import sys
import time

from lanes import Consumer, HandlerContext, Message, Unavailable

consumer = Consumer()


@consumer.handler("customer.loyalty_tier")
def set_loyalty_tier(message: Message, context: HandlerContext) -> None:
    """Store the loyalty tier of one customer, from a backfill."""
    _use_resource(message, context)


@consumer.handler("order.placed")
def place_order(message: Message, context: HandlerContext) -> None:
    """Pass an order to the warehouse."""
    _use_resource(message, context)


@consumer.handler("payment.captured")
def book_payment(message: Message, context: HandlerContext) -> None:
    """Book a payment that a customer waits for."""
    _use_resource(message, context)


lambda_handler = consumer.lambda_handler


def _use_resource(message: Message, context: HandlerContext) -> None:
    """Use the resource for its usual time; it fails or is away if the data of the message says so."""
    _print_step("started", message, context)
    data = message.data if isinstance(message.data, dict) else {}
    if time.time() < data.get("away_until", 0.0):
        _print_step("away", message, context)
        raise Unavailable(reason="the resource is away, as the message says")
    fault = data.get("fault")
    if fault == "always" or (fault == "once" and context.attempt == 1):
        _print_step("refused", message, context)
        raise RuntimeError(f"the resource refused {message.kind} ({fault})")
    time.sleep(float(os.environ.get("RESOURCE_SECONDS", "0.008")))
    _print_step("finished", message, context)


def _print_step(step: str, message: Message, context: HandlerContext) -> None:
    """Print each use of the resource: the demo checks the consumer by these lines."""
    line = {
        "resource": step,
        "id": message.id,
        "kind": message.kind,
        "group": message.group,
        "attempt": context.attempt,
        "at": time.time(),
    }
    # One write for text and line end, so that lines of several threads do not mix.
    sys.stdout.write(json.dumps(line) + "\n")
