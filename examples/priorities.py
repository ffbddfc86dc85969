"""Who decides how urgent a message is: the caller, a block around the code, or a rule of the kind."""

import asyncio
import contextvars
import threading

from lanes import Priority, PriorityRules, Producer, processing_priority

RULES = PriorityRules(
    {
        "payment.captured": Priority.HIGH,
        "order.placed": lambda message: Priority.HIGH if message.data["express"] else None,
    }
)


def import_orders(producer: Producer, orders: list[int]) -> None:
    """Everything sent inside the block is bulk work, in whatever function it is sent."""
    with processing_priority(Priority.BULK):
        for order in orders:
            remind(producer, order)


@processing_priority(Priority.LOW)
def nightly_reminders(producer: Producer, orders: list[int]) -> None:
    """The same for all calls of one function."""
    for order in orders:
        remind(producer, order)


def remind(producer: Producer, order: int) -> None:
    """Send without a word on priority."""
    producer.send("order.reminded", {"order": order}, group=f"order-{order}")


def remind_in_thread(producer: Producer, order: int) -> None:
    """A thread starts without a block; give it a copy of the context, or open a block inside it."""
    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(remind, producer, order))
    thread.start()
    thread.join()


async def remind_all(producer: Producer, orders: list[int]) -> None:
    """A coroutine opens the block inside; its tasks and `asyncio.to_thread` inherit it."""
    with processing_priority(Priority.LOW):
        async with asyncio.TaskGroup() as tasks:
            for order in orders:
                tasks.create_task(asyncio.to_thread(remind, producer, order))
