"""Send many messages, and find those that could not be sent; send one that is of no use after its time."""

from collections.abc import Iterable
from datetime import timedelta

from lanes import Message, PartialSendError, Producer


def remind_customers(producer: Producer, customers: Iterable[str]) -> list[str]:
    """Send one message to each customer; return the customers it failed for."""
    messages = [
        Message(kind="customer.reminded", data={"customer": customer}, id=f"reminder-{customer}")
        for customer in customers
    ]
    try:
        producer.send_many(messages)
    except PartialSendError as error:
        return [unsent.message.data["customer"] for unsent in error.failed]
    return []


def announce_price(producer: Producer, sku: str, cents: int) -> None:
    """Send a price that no handler should get a quarter of an hour later."""
    producer.send("price.changed", {"sku": sku, "cents": cents}, group=sku, expires=timedelta(minutes=15))
