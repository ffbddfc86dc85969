"""Set priorities in the call, in a block around your code, or by a rule for the kind."""

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
    """Send bulk work: the block applies to every message sent inside it, in any function."""
    with processing_priority(Priority.BULK):
        for order in orders:
            remind(producer, order)


@processing_priority(Priority.LOW)
def nightly_reminders(producer: Producer, orders: list[int]) -> None:
    """Apply a priority to all calls of one function."""
    for order in orders:
        remind(producer, order)


def remind(producer: Producer, order: int) -> None:
    """Send without a priority of its own."""
    producer.send("order.reminded", {"order": order}, group=f"order-{order}")


def remind_in_thread(producer: Producer, order: int) -> None:
    """Pass a copy of the context: a new thread starts without the block."""
    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(remind, producer, order))
    thread.start()
    thread.join()


async def remind_all(producer: Producer, orders: list[int]) -> None:
    """Open the block inside the coroutine: its tasks and `asyncio.to_thread` inherit it."""
    with processing_priority(Priority.LOW):
        async with asyncio.TaskGroup() as tasks:
            for order in orders:
                tasks.create_task(asyncio.to_thread(remind, producer, order))
