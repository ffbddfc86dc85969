"""The handler before the change: orders have a number and an amount in cents."""

from dataclasses import dataclass

from lanes import Consumer, Message

consumer = Consumer()
SHIPPED: list[tuple[int, int]] = []


@dataclass(frozen=True)
class Order:
    """The data of a message of the kind `order.created`."""

    order: int
    cents: int


@consumer.handler("order.created")
def ship(message: Message[Order]) -> None:
    """Ship one order."""
    SHIPPED.append((message.data.order, message.data.cents))


lambda_handler = consumer.lambda_handler
