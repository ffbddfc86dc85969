"""A first consumer."""

from collections.abc import Mapping
from typing import Any

from lanes import Consumer, Message

consumer = Consumer()


@consumer.handler("order.placed")
def place_order(message: Message) -> None:
    """Ship one order."""
    print("shipping order", message.data["order"])


def lambda_handler(event: Mapping[str, Any], context: Any) -> Any:
    """Handle one invocation."""
    return consumer.handle(event, context)
