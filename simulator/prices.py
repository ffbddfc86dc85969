"""
The priced items of AWS, and their prices with region, date and source.

The simulator's own prices are in `prices.toml` beside this module.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import tomllib
from importlib import resources
from typing import TYPE_CHECKING, Any

from lanes.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

OWN_FILE = "prices.toml"
MILLION = 1_000_000


class Item(enum.StrEnum):
    """The items that AWS charges for; the values are the keys of a price file."""

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


def read_prices(path: Path | None = None) -> Prices:
    """
    Read the library's prices, replaced by those of a file.

    Raises:
        ConfigurationError: the file could not be read, or has an unknown item or an invalid price.
    """
    own = _from(resources.files(__package__).joinpath(OWN_FILE).read_text("utf-8"), source=OWN_FILE)
    if path is None:
        return own
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError([f"can't be read: {error}"], source=str(path)) from error
    given = _from(text, source=str(path))
    return dataclasses.replace(
        own,
        region=given.region or own.region,
        read_on=given.read_on or own.read_on,
        source=given.source or f"{path}, and for the rest: {own.source}",
        dollars={**own.dollars, **given.dollars},
    )


def _from(text: str, *, source: str) -> Prices:
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError([str(error)], source=source) from error
    table = raw.pop("dollars", {})
    problems = [f"{key} is unknown" for key in raw if key not in ("region", "read_on", "source")]
    if isinstance(table, dict):
        problems += [problem for key, value in table.items() for problem in _problems(key, value)]
    else:
        problems.append("dollars is not a table")
    if problems:
        raise ConfigurationError(problems, source=source)
    return Prices(
        region=str(raw.get("region", "")),
        read_on=str(raw.get("read_on", "")),
        source=str(raw.get("source", "")),
        dollars={Item(key): float(value) for key, value in table.items()},
    )


def _problems(key: str, value: Any) -> list[str]:
    if key not in {item.value for item in Item}:
        return [f"dollars.{key} is unknown; there are {', '.join(Item)}"]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        return [f"dollars.{key} is {value!r}; a number of dollars from 0 on is needed"]
    return []
