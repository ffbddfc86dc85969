"""A handler that says when its resource is away, so that an outage of the bank dead-letters no payment."""

from datetime import timedelta

import requests

from lanes import Consumer, Message, Unavailable

BANK = "https://bank.example/captures"

consumer = Consumer(unavailable=(requests.ConnectionError, requests.Timeout))


@consumer.handler("payment.captured", resource="bank")
def capture(message: Message) -> None:
    """Capture a payment; a refused connection means that the bank is away, and so does its answer 503."""
    answer = requests.post(BANK, json=message.data, timeout=10)
    if answer.status_code == requests.codes.service_unavailable:
        raise Unavailable(after=timedelta(seconds=30), reason="the bank is closed")
    answer.raise_for_status()


lambda_handler = consumer.lambda_handler
