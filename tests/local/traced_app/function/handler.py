"""Handles an order and sends on what follows from it, in the same trace; says what X-Ray records meanwhile."""

import json

from lanes import Consumer, Producer

consumer = Consumer()


@consumer.handler("order.placed")
def place(message):
    from aws_xray_sdk.core import xray_recorder

    segment = xray_recorder.current_subsegment()
    print(json.dumps({"event": "recording", "name": segment.name, "sampled": segment.sampled}))  # noqa: T201
    Producer.from_env().send("receipt.printed", None, priority=50)


@consumer.handler("receipt.printed")
def print_receipt(message):
    pass


def lambda_handler(event, context):
    return consumer.handle(event, context)
