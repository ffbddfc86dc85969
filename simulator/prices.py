"""The priced items of AWS, and their prices with region, date and source, from `prices.toml` beside this module."""

from __future__ import annotations

import dataclasses
import enum
import tomllib
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MILLION = 1_000_000


class Item(enum.StrEnum):
    """The items that AWS charges for; the values are the keys of that file."""

    SQS_FIFO = "sqs_fifo_requests"
    SQS_OTHER = "sqs_other_requests"
    INVOCATIONS = "lambda_requests"
    COMPUTE_ARM = "lambda_arm_gb_seconds"
    WRITES = "dynamodb_write_units"
    READS = "dynamodb_read_units"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """
    Prices of one region.

    Attributes:
        region: the AWS region.
        read_on: date of the prices.
        source: source of the prices.
        dollars: US dollars for a million of each item, as the price pages of AWS state them.
    """

    region: str
    read_on: str
    source: str
    dollars: Mapping[Item, float]

    def cost(self, use: Mapping[Item, float], *, times: float = 1.0) -> float:
        """
        Return the cost of some use in US dollars, without free tier and discounts.

        Args:
            use: the amount of each item; missing items are not used.
            times: so often, such as a thousand times for a million messages from the use of a thousand.

        Example:
            >>> use = {Item.SQS_FIFO: 300_000, Item.INVOCATIONS: 100_000, Item.COMPUTE_ARM: 5_000}
            >>> round(read_prices().cost(use), 2)
            0.24
        """
        return sum(use.get(item, 0) * times * self.dollars[item] / MILLION for item in Item)


def read_prices() -> Prices:
    """Read the simulator's prices."""
    raw = tomllib.loads(resources.files(__package__).joinpath("prices.toml").read_text("utf-8"))
    return Prices(
        region=raw["region"],
        read_on=str(raw["read_on"]),
        source=raw["source"],
        dollars={Item(key): float(value) for key, value in raw["dollars"].items()},
    )
