"""Never run: what type checkers must accept of the public names."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lanes import (
    Consumer,
    DeadLetter,
    HandlerContext,
    Lane,
    LanesConfig,
    Message,
    PartialSendError,
    Priority,
    PriorityRules,
    Producer,
    Retry,
    SentMessage,
    UnsentMessage,
    continuing_trace,
    current_priority,
    current_traceparent,
    processing_priority,
)
from lanes.testing import InMemoryLanes

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

in_memory: InMemoryLanes = InMemoryLanes(config=LanesConfig(), handler_time=timedelta(milliseconds=10))
in_memory.run_for(timedelta(hours=1))
found: Message = in_memory.assert_sent("order.placed", lane="HIGH", order=7)
attempt: int = in_memory.journal.handled[0].attempt

config: LanesConfig = LanesConfig.load("lanes.toml", stage="demo")
lane: Lane = config.lane_for(Priority.HIGH)
above: tuple[Lane, ...] = config.lanes_above(lane)

rules = PriorityRules({"a": 5, "b": lambda message: message.data["n"], "c": [Priority.LOW, lambda _: None]})
producer: Producer = Producer.from_stack("Lanes", rules=rules)

with processing_priority(Priority.LOW) as level:
    number: int = level
    priority: int | None = current_priority()
    sent: SentMessage = producer.send("order.placed", {"order": 7}, group="g", priority=7)


with continuing_trace("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"):
    traceparent: str | None = current_traceparent()


@processing_priority(Priority.BULK)
def rebuild(count: int, *, name: str) -> list[SentMessage]:
    """Keep the signature of what is decorated."""
    return producer.send_many((Message(kind=name, data=place) for place in range(count)), concurrency=2)


records: list[SentMessage] = rebuild(3, name="k")

try:
    rebuild(3, name="k")
except PartialSendError as error:
    failed: list[UnsentMessage] = error.failed
    again: list[Message] = [unsent.message for unsent in failed]


def handler(message: Message) -> None:
    """Raise what a handler may raise."""
    if message.data is None:
        raise DeadLetter("empty")
    raise Retry(after=timedelta(seconds=5), reason="busy")


@dataclass
class Order:
    """The data of a message."""

    order: int


consumer = Consumer()


@consumer.handler("order.placed")
def place_order(message: Message[Order], context: HandlerContext) -> None:
    """Know the type of the data."""
    number: int = message.data.order
    producer.send("order.billed", {"order": number})


anything: Message[object] = Message(kind="k", data=Order(order=7))
order_of_it: int = Message(kind="k", data=Order(order=7)).data.order
wrong: str = Message(kind="k", data=Order(order=7)).data.order  # type: ignore[assignment]


@consumer.handler("invoice.issued", aliases=["invoice.created"])
async def post_invoice(message: Message[Order], context: HandlerContext) -> None:
    """Be a coroutine function."""
    await context.checkpoint()
    context.checkpoint()


@consumer.batch_handler("receipt.issued", max_size=5, aliases=["receipt.created"])
def post_receipts(messages: list[Message[Order]], context: HandlerContext) -> dict[str, Exception]:
    """Answer by id."""
    return {message.id: Retry() for message in messages if message.data.order < 0}


@consumer.batch_handler("receipt.sent")
async def post_all(messages: list[Message[Order]]) -> list[str] | None:
    """Be a coroutine function."""
    return [message.id for message in messages]


@consumer.batch_handler("receipt.lost")
def post_none(messages: list[Message[Order]]) -> None:
    """Return nothing."""


@consumer.batch_handler("receipt.wrong")  # type: ignore[type-var]
def post_wrong(messages: list[Message[Order]]) -> list[int]:
    """Return something else than ids."""
    return [message.data.order for message in messages]


registered: Callable[[Message[Order], HandlerContext], Coroutine[Any, Any, None]] = post_invoice
lambda_handler: Callable[[Mapping[str, Any], Any], Any] = consumer.lambda_handler
in_memory.serve(consumer, entry_point=lambda_handler)
