"""A function that goes wrong: while the folder of faults has a file of that name."""

import os
from datetime import timedelta
from pathlib import Path

from lanes import Consumer, Message, Retry, Unavailable

FAULTS = Path(os.environ["FAULTS"])

if (FAULTS / "import").exists():
    import a_module_that_was_not_deployed  # noqa: F401

consumer = Consumer()


@consumer.handler("order.placed")
def place_order(message: Message) -> None:
    """Do nothing."""


@consumer.handler("charge", resource="bank")
def charge(message: Message) -> None:
    """Charge a customer; one bank is closed."""
    if message.group == "closed" and (FAULTS / "bank").exists():
        raise Unavailable(reason="bank 7 is closed")


@consumer.handler("stuck")
def stuck(message: Message) -> None:
    """Fail at each attempt; without a time of its own, the pauses of what blocks its group grow."""
    raise Retry(timedelta(seconds=2), "the account is gone")


@consumer.handler("poison")
def poison(message: Message) -> None:
    """End the process."""
    os._exit(1)


@consumer.handler("leave")
def leave(message: Message) -> None:
    """End the process, once."""
    left = FAULTS / "left"
    if not left.exists():
        left.touch()
        os._exit(1)


lambda_handler = consumer.lambda_handler
