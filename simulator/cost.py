"""
The cost of an amount of use.

`cost_of` takes amounts of priced items; `sqs_use` makes them from counted calls.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from .prices import Item

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .prices import Prices

MEGABYTES_A_GIGABYTE = 1024
# AWS: send, receive, delete and change of visibility on a FIFO queue have a price of their own; a batch call is one
# request (Amazon SQS pricing).
FIFO_CALLS = frozenset(
    {
        "SendMessage",
        "SendMessageBatch",
        "ReceiveMessage",
        "DeleteMessage",
        "DeleteMessageBatch",
        "ChangeMessageVisibility",
        "ChangeMessageVisibilityBatch",
    }
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CostLine:
    """An amount of an item, and its cost in US dollars."""

    item: Item
    amount: float
    dollars: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of some use, by item."""

    lines: Sequence[CostLine]

    @property
    def dollars(self) -> float:
        """The sum in US dollars."""
        return sum(line.dollars for line in self.lines)


def cost_of(use: Mapping[Item, float], prices: Prices) -> Cost:
    """
    Return the cost of an amount of use, without free tier and discounts.

    Args:
        use: the amount of each item; missing items are not used.
        prices: from `simulator.prices.read_prices`.

    Example:
        >>> from .prices import Item, read_prices
        >>> use = {Item.SQS_FIFO: 300_000, Item.INVOCATIONS: 100_000, Item.COMPUTE_ARM: gb_seconds(10_000, 512)}
        >>> round(cost_of(use, read_prices()).dollars, 2)
        0.24
    """
    return Cost(
        lines=[
            CostLine(item=item, amount=use[item], dollars=prices.of(item, use[item]))
            for item in Item
            if use.get(item)
        ]
    )


def times(use: Mapping[Item, float], factor: float) -> dict[Item, float]:
    """Return a multiple of a use, such as the use of a million messages from that of a thousand."""
    return {item: amount * factor for item, amount in use.items()}


def gb_seconds(seconds: float, memory_mb: float) -> float:
    """Return the GB-seconds that Lambda charges: gigabytes of configured memory times seconds."""
    return seconds * memory_mb / MEGABYTES_A_GIGABYTE


def sqs_use(calls: Mapping[str, float]) -> dict[Item, float]:
    """
    Return the requests of counted calls to FIFO queues, each with up to 64 KB.

    Args:
        calls: number by operation, such as `SendMessageBatch` or `sqs.SendMessageBatch`; calls of other services
            are ignored.
    """
    use: dict[Item, float] = {}
    for name, count in calls.items():
        service, _, operation = name.rpartition(".")
        if service in ("", "sqs"):
            item = Item.SQS_FIFO if operation in FIFO_CALLS else Item.SQS_OTHER
            use[item] = use.get(item, 0) + count
    return use
