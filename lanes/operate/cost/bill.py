"""Estimate the daily bill of the lanes at the current rate: in total, by lane, and the share of yields."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import TYPE_CHECKING

from lanes.operate.cost.estimate import use_of, yields_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.operate.cost.prices import Prices
    from lanes.operate.cost.usage import LaneUse, SharedUse, UseLine

DAY = timedelta(days=1)
MILLION = 1_000_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BillLine:
    """One line of a day's bill; None is unknown."""

    use: UseLine
    amount: float | None
    dollars: float | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LaneCost:
    """
    The daily cost of one lane, with the share of its yields.

    Attributes:
        lane: its name.
        messages: messages handled a day.
        dollars: cost of a day, without the shared use.
        a_million: cost of a million messages; None without messages.
        yields: yields a day.
        yields_dollars: their cost, including the lane's part of ledger and log.
    """

    lane: str
    messages: float
    dollars: float
    a_million: float | None
    yields: float
    yields_dollars: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """
    The cost of a day.

    Attributes:
        lines: all lines.
        lanes: the sums by lane.
        messages: messages handled a day.
        dollars: cost of a day.
        a_million: cost of a million messages; None without messages.
        unknown: lines that are missing in the sums.
    """

    lines: Sequence[BillLine]
    lanes: Sequence[LaneCost]
    messages: float
    dollars: float
    a_million: float | None
    unknown: Sequence[str]


def bill_of(
    lanes: Sequence[LaneUse],
    shared: SharedUse,
    prices: Prices,
    *,
    window: timedelta,
    messages_a_send: float = 1.0,
) -> Bill:
    """
    Return the bill of a day at the rate of the window.

    Args:
        lanes: their use over the window, the highest lane first.
        shared: the shared use.
        prices: prices of AWS.
        window: length of the period.
        messages_a_send: messages that producers send in a request, 1 to 10.
    """
    hours = window / timedelta(hours=1)
    factor = DAY / window
    uses = use_of(lanes, shared, hours=hours, messages_a_send=messages_a_send)
    lines = [_priced(use, prices, factor) for use in uses]
    total = sum(line.dollars or 0.0 for line in lines)
    messages = sum(lane.handled for lane in lanes) * factor
    return Bill(
        lines=lines,
        lanes=[
            _lane_cost(lane, lines, lanes=lanes, shared=shared, prices=prices, factor=factor)
            for lane in lanes
        ],
        messages=messages,
        dollars=total,
        a_million=_a_million(total, messages),
        unknown=list(dict.fromkeys(line.use.what for line in lines if line.amount is None)),
    )


def _priced(use: UseLine, prices: Prices, factor: float) -> BillLine:
    amount = None if use.amount is None else use.amount * factor
    return BillLine(use=use, amount=amount, dollars=None if amount is None else prices.of(use.item, amount))


def _lane_cost(
    lane: LaneUse,
    lines: Sequence[BillLine],
    *,
    lanes: Sequence[LaneUse],
    shared: SharedUse,
    prices: Prices,
    factor: float,
) -> LaneCost:
    # The lane's own lines include its yields; `added` names their part and is not added again.
    own = sum(line.dollars or 0.0 for line in lines if line.use.lane == lane.lane)
    added = sum(_priced(use, prices, factor).dollars or 0.0 for use in yields_of(lane, lanes, shared))
    messages = lane.handled * factor
    return LaneCost(
        lane=lane.lane,
        messages=messages,
        dollars=own,
        a_million=_a_million(own, messages),
        yields=lane.yielded * factor,
        yields_dollars=added,
    )


def _a_million(dollars: float, messages: float) -> float | None:
    return dollars / messages * MILLION if messages else None
