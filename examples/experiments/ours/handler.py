"""The same work with lanes."""

import time

from lanes import Consumer, Message

consumer = Consumer()


@consumer.handler("work")
def work(message: Message) -> None:
    """Take the time in the data of the message."""
    time.sleep(message.data["seconds"])
    print("done", message.data["lane"], message.data["number"])  # noqa: T201 - the log


lambda_handler = consumer.lambda_handler
