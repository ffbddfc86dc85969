"""A reminder that is sent a day later, unless the cart is bought before."""

from datetime import timedelta

from lanes import Consumer, Message, Producer

consumer = Consumer()
SHOWN: list[int] = []


def remind_tomorrow(producer: Producer, cart: int) -> None:
    """Send a reminder for later; a second call for the same cart changes nothing."""
    producer.send("cart.reminder", {"cart": cart}, id=f"reminder-{cart}", not_before=timedelta(hours=24))


@consumer.handler("cart.reminder")
def remind(message: Message) -> None:
    """Show the reminder."""
    SHOWN.append(message.data["cart"])
