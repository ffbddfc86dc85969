"""The handler after the change: the kind has a new name, a field is new, and another kind is new."""

from dataclasses import dataclass
from typing import Any

from lanes import Consumer, Message

consumer = Consumer()
SHIPPED: list[tuple[int, int, str]] = []
CANCELLED: list[int] = []
VERSION = 2


@dataclass(frozen=True)
class Order:
    """The data of a message of the kind `order.placed`; older senders give no currency."""

    order: int
    cents: int
    currency: str = "EUR"


@consumer.handler("order.placed", aliases=["order.created"])
def ship(message: Message[Order]) -> None:
    """Ship one order."""
    SHIPPED.append((message.data.order, message.data.cents, message.data.currency))


@consumer.handler("order.cancelled")
def cancel(message: Message) -> None:
    """Cancel one order."""
    CANCELLED.append(current(message.data)["order"])


def current(data: dict[str, Any]) -> dict[str, Any]:
    """Return the data of any version in the form of the newest one: version 1 had `number`."""
    if data.get("version", 1) < VERSION:
        return {"version": VERSION, "order": data["number"]}
    return data


lambda_handler = consumer.lambda_handler
