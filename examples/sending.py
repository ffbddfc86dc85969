"""Send many messages, and find those that could not be sent."""

from collections.abc import Iterable

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
