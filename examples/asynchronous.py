"""A handler that is a coroutine function, with a client that all messages of an environment share."""

import asyncio
import functools

import aiohttp

from lanes import Consumer, HandlerContext, Message

PARTNER = "https://partner.example/lines"

consumer = Consumer()


@functools.cache
def session() -> aiohttp.ClientSession:
    """Make the client for the first message; it keeps its connections for the later ones."""
    return aiohttp.ClientSession()


@consumer.handler("invoice.issued")
async def post_invoice(message: Message, context: HandlerContext) -> None:
    """Post the lines of an invoice, up to three at once, and yield between them to more urgent work."""
    lines = message.data["lines"]
    for start in range(0, len(lines), 3):
        await context.checkpoint()
        async with asyncio.TaskGroup() as tasks:
            for line in lines[start : start + 3]:
                tasks.create_task(post(message.id, line))


async def post(invoice: str, line: str) -> None:
    """Post one line; the partner ignores one that it has."""
    async with session().put(f"{PARTNER}/{invoice}/{line}") as answer:
        answer.raise_for_status()


lambda_handler = consumer.lambda_handler
