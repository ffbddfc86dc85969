"""
The sample application: three kinds of messages that share one slow, rate-limited resource.

Replace the handlers with your own; the last function is what Lambda calls.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from lanes import Consumer, HandlerContext, Message

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aws_lambda_powertools.utilities.typing import LambdaContext

consumer = Consumer()


@consumer.handler("customer.loyalty_tier")
def set_loyalty_tier(message: Message, context: HandlerContext) -> None:
    """Store the tier that a backfill worked out for one customer."""
    _use_resource(message, context)


@consumer.handler("order.placed")
def place_order(message: Message, context: HandlerContext) -> None:
    """Tell the warehouse of an order."""
    _use_resource(message, context)


@consumer.handler("payment.captured")
def book_payment(message: Message, context: HandlerContext) -> None:
    """Book a payment that somebody waits for."""
    _use_resource(message, context)


def lambda_handler(event: Mapping[str, Any], context: LambdaContext) -> Any:
    """Handle one batch of one lane."""
    return consumer.handle(event, context)


def _use_resource(message: Message, context: HandlerContext) -> None:
    """Take the time that the resource takes, and fail where the message's data asks for it."""
    _say("started", message, context)
    fault = message.data.get("fault") if isinstance(message.data, dict) else None
    if fault == "always" or (fault == "once" and context.attempt == 1):
        _say("refused", message, context)
        raise RuntimeError(f"the resource refused {message.kind} ({fault})")
    time.sleep(float(os.environ.get("RESOURCE_SECONDS", "0.008")))
    _say("finished", message, context)


def _say(step: str, message: Message, context: HandlerContext) -> None:
    """Print what happens to the resource: the demo judges the consumer by it."""
    line = {
        "resource": step,
        "id": message.id,
        "kind": message.kind,
        "group": message.group,
        "attempt": context.attempt,
        "at": time.time(),
    }
    # One write for text and line end, so that lines of threads never mix.
    sys.stdout.write(json.dumps(line) + "\n")
