"""Four recipes for docs/how-to/recipes.md: capture once, B after A, one after many, and waiting for a partner."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Protocol

from lanes import Consumer, DeadLetter, Message, Producer, Retry


class Bank(Protocol):
    """A partner that takes a payment twice only if it gets two keys."""

    def capture(self, cents: int, *, idempotency_key: str) -> str:
        """Capture a payment; return its reference."""


class Scanner(Protocol):
    """A partner that needs some minutes for each file."""

    def state(self, file: str) -> str:
        """Return "running", "clean" or "infected"."""


def add_capture(consumer: Consumer, bank: Bank) -> None:
    """Capture each payment once, however often its message is handled."""

    @consumer.handler("payment.captured", resource="bank")
    def capture(message: Message) -> None:
        bank.capture(message.data["cents"], idempotency_key=message.id)


def add_steps(consumer: Consumer, producer: Producer) -> None:
    """Send the invoice after the order, once for each order."""

    @consumer.handler("order.placed")
    def place(message: Message) -> None:
        order = message.data["order"]
        producer.send("invoice.wanted", {"order": order}, id=f"{message.id}/invoice", group=message.group)


def import_files(producer: Producer, batch: str, files: Iterable[str]) -> None:
    """Import many files, and handle `batch.imported` once, after the last of them."""
    names = sorted(set(files))
    with producer.run(batch, expected=len(names), on_complete="batch.imported") as run:
        run.send_many(
            Message(kind="file.imported", id=f"{batch}/{name}", data={"file": name}) for name in names
        )


def add_scan(consumer: Consumer, scanner: Scanner) -> None:
    """Ask a partner each minute whether a file is ready; other messages are handled meanwhile."""

    @consumer.handler("file.scanned")
    def scanned(message: Message) -> None:
        state = scanner.state(message.data["file"])
        if state == "running":
            raise Retry(after=timedelta(minutes=1), counts=False)
        if state == "infected":
            raise DeadLetter("the partner found a virus")


def scan(producer: Producer, file: str) -> None:
    """Wait for the partner for a day at most."""
    producer.send("file.scanned", {"file": file}, group=file, expires=timedelta(days=1))
