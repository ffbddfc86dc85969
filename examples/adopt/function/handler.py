"""The function that takes over: it reads the JSON of the older senders, and CloudEvents."""

import json

from lanes import Consumer, Decoded, Message, RawRecord

consumer = Consumer()


@consumer.decoder(lane="HIGH")
def read_order(record: RawRecord) -> Decoded:
    """Read the JSON that the shop has always sent."""
    order = json.loads(record.body)
    return Decoded(kind="order.placed", id=order["number"], data=order, source="shop")


@consumer.handler("order.placed")
def place_order(message: Message) -> None:
    """Do what the older function does with an order."""
    PLACED.append(message.data["number"])


lambda_handler = consumer.lambda_handler

# Replace this with your own systems.
PLACED: list[str] = []
