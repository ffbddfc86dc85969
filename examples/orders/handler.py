"""Handlers that fail, ask for another try, give up, take long, send on, and read bodies of any form."""

import functools
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from aws_lambda_powertools.utilities.data_classes import S3EventBridgeNotificationEvent

from lanes import Consumer, DeadLetter, HandlerContext, Message, Producer, RawRecord, Retry

consumer = Consumer()


class BankBusyError(Exception):
    """The bank takes no more bookings for now."""


@consumer.handler("payment.captured")
def book_payment(message: Message) -> None:
    """Book a payment; give up what can never be booked, and come back later while the bank is busy."""
    amount = message.data["amount"]
    if amount <= 0:
        raise DeadLetter(f"an amount of {amount} can't be booked")
    try:
        book(message.id, amount)
    except BankBusyError as busy:
        raise Retry(after=timedelta(minutes=2), reason="the bank is busy") from busy


@consumer.handler("catalogue.rebuilt")
def rebuild_catalogue(message: Message, context: HandlerContext) -> None:
    """Rebuild page by page, and leave between two pages while more urgent work waits."""
    for page in pages_left(message.data["catalogue"]):
        context.checkpoint()
        rebuild_page(page)


@consumer.handler("order.placed")
def place_order(message: Message) -> None:
    """Send on; the new message gets the priority of this one unless it says otherwise."""
    producer().send("receipt.printed", {"order": message.data["order"]}, group=message.group)


@consumer.raw_handler
def import_upload(record: RawRecord) -> None:
    """Read an event of S3 as EventBridge writes it, which is no CloudEvent."""
    detail = record.body_as(S3EventBridgeNotificationEvent).detail
    import_file(detail.bucket.name, detail.object.key)


def lambda_handler(event: Mapping[str, Any], context: Any) -> Any:
    """Handle one batch of one lane."""
    return consumer.handle(event, context)


@functools.cache
def producer() -> Producer:
    """Make the producer when it is first used; the function knows its own lanes."""
    return Producer.from_env(source="orders")


# What follows stands for your own systems.

BOOKED: dict[str, int] = {}
DONE_PAGES: list[str] = []
IMPORTED: list[str] = []
BUSY_ABOVE = 10_000


def book(payment: str, amount: int) -> None:
    """Book an amount once, however often it is asked to."""
    if amount > BUSY_ABOVE:
        raise BankBusyError
    BOOKED[payment] = amount


def pages_left(catalogue: str) -> Iterator[str]:
    """Give the pages that no earlier run has rebuilt."""
    pages = [f"{catalogue}/{number}" for number in (1, 2, 3)]
    return iter([page for page in pages if page not in DONE_PAGES])


def rebuild_page(page: str) -> None:
    """Rebuild one page and remember that."""
    DONE_PAGES.append(page)


def import_file(bucket: str, key: str) -> None:
    """Read one file."""
    IMPORTED.append(f"{bucket}/{key}")
