"""Handlers that fail, ask for a retry, give up, take long, send messages, and read bodies of any form."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from aws_lambda_powertools.utilities.data_classes import S3EventBridgeNotificationEvent

from lanes import Consumer, DeadLetter, HandlerContext, Message, Producer, RawRecord, Retry

consumer = Consumer()


class BankBusyError(Exception):
    """The bank takes no more bookings for now."""


@consumer.handler("payment.captured")
def book_payment(message: Message) -> None:
    """Book a payment; give up on an invalid amount, and retry later while the bank is busy."""
    amount = message.data["amount"]
    if amount <= 0:
        raise DeadLetter(f"an amount of {amount} can't be booked")
    try:
        book(message.id, amount)
    except BankBusyError as busy:
        raise Retry(after=timedelta(minutes=2), reason="the bank is busy") from busy


@dataclass(frozen=True)
class Refund:
    """The data of a refund."""

    order: int
    amount: float
    reason: str | None = None


@consumer.handler("refund.requested")
def refund(message: Message[Refund]) -> None:
    """Pay a refund; data that is not a Refund has become a dead letter."""
    pay_back(message.data.order, message.data.amount)


@consumer.handler("catalogue.rebuilt")
def rebuild_catalogue(message: Message, context: HandlerContext) -> None:
    """Rebuild page by page, and yield between two pages to more urgent work."""
    for page in pages_left(message.data["catalogue"]):
        context.checkpoint()
        rebuild_page(page)


@consumer.handler("order.placed")
def place_order(message: Message) -> None:
    """Send a message; it inherits the priority of this one unless you set another."""
    producer().send("receipt.printed", {"order": message.data["order"]}, group=message.group)


@consumer.raw_handler
def import_upload(record: RawRecord) -> None:
    """Read an S3 event from EventBridge, which is not a CloudEvent."""
    detail = record.body_as(S3EventBridgeNotificationEvent).detail
    import_file(detail.bucket.name, detail.object.key)


lambda_handler = consumer.lambda_handler


@functools.cache
def producer() -> Producer:
    """Make the producer at its first use, for the lanes of this function."""
    return Producer.from_env(source="orders")


# Replace the rest with your own systems.

BOOKED: dict[str, int] = {}
PAID_BACK: dict[int, float] = {}
DONE_PAGES: list[str] = []
IMPORTED: list[str] = []
BUSY_ABOVE = 10_000


def book(payment: str, amount: int) -> None:
    """Book an amount once, however often you call it."""
    if amount > BUSY_ABOVE:
        raise BankBusyError
    BOOKED[payment] = amount


def pay_back(order: int, amount: float) -> None:
    """Pay the money of one order back."""
    PAID_BACK[order] = amount


def pages_left(catalogue: str) -> Iterator[str]:
    """Give the pages that are not yet rebuilt."""
    pages = [f"{catalogue}/{number}" for number in (1, 2, 3)]
    return iter([page for page in pages if page not in DONE_PAGES])


def rebuild_page(page: str) -> None:
    """Rebuild one page and record it."""
    DONE_PAGES.append(page)


def import_file(bucket: str, key: str) -> None:
    """Read one file."""
    IMPORTED.append(f"{bucket}/{key}")
