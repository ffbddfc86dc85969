"""`lanes cost`: what a day costs at the present pace."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lanes.cli.operating import duration, operations_of
from lanes.cli.place import Output, place_of
from lanes.cli.printing import console, laid_out, say, show_json
from lanes.operate.cost_report import bill_of
from lanes.operate.prices import read_prices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.operate.cost_report import Bill, BillLine, LaneCost
    from lanes.operate.prices import Prices

NOTHING_KNOWN = 3
# AWS: SQS and Lambda report their figures every minute (SQS developer guide, available CloudWatch metrics).
LEAST_WINDOW = timedelta(minutes=1)
SHARED = "all"


def cost(
    context: typer.Context,
    *,
    window: Annotated[str, typer.Option(help="The time whose figures count, up to now.")] = "1h",
    prices: Annotated[Path | None, typer.Option(help="A TOML file with prices of your own.")] = None,
    messages_a_send: Annotated[
        float, typer.Option(min=1, max=10, help="Messages that producers send in a request, on average.")
    ] = 1,
) -> None:
    """
    Tell what a day costs that goes on like the last hour, in US dollars: line by line, by lane, and what yields add.

    Figures come from CloudWatch, a fraction of a cent for each look. Free tier and discounts are left out, and so are
    producers' machines, the outbox and bulk jobs. Ends with 3 if nothing is known.
    """
    place = place_of(context)
    operations = operations_of(context)
    charged = read_prices(prices)
    time = duration(window)
    if time < LEAST_WINDOW:
        raise typer.BadParameter(f"{window!r} is shorter than a minute", param_hint="--window")
    use = operations.use().read(time)
    bill = bill_of(use.lanes, use.shared, charged, window=time, messages_a_send=messages_a_send)
    if place.output is Output.JSON:
        show_json(_record(bill, charged))
    else:
        _show(bill)
    for note in use.notes:
        say(f"note: {note}")
    _explain(bill, charged, window)
    if not any(line.amount for line in bill.lines if line.use.lane):
        say("nothing is known of the lanes' use: CloudWatch has no figures of this time")
        raise typer.Exit(NOTHING_KNOWN)


def _show(bill: Bill) -> None:
    out = console()
    # A line of nothing tells nothing; an unknown one does.
    out.print(laid_out([_line_row(line) for line in bill.lines if line.amount != 0], out))
    out.print(laid_out([*(_lane_row(lane) for lane in bill.lanes), _sum_row(bill)], out))


def _line_row(line: BillLine) -> dict[str, Any]:
    use = line.use
    return {
        "lane": use.lane or SHARED,
        "what": use.what,
        "a_day": None if line.amount is None else f"{line.amount:,.{0 if line.amount >= 100 else 3}f}",  # noqa: PLR2004
        "unit": use.item.replace("_", " "),
        "dollars": _dollars(line.dollars),
        "from": f"estimate: {use.how}" if use.is_estimate else use.how,
    }


def _lane_row(lane: LaneCost) -> dict[str, Any]:
    return {
        "lane": lane.lane,
        "messages_a_day": f"{lane.messages:,.0f}",
        "dollars_a_day": _dollars(lane.dollars),
        "dollars_a_million": "no messages" if lane.a_million is None else f"{lane.a_million:,.2f}",
        "yields_a_day": f"{lane.yields:,.0f}",
        "they_add": _dollars(lane.yields_dollars),
    }


def _sum_row(bill: Bill) -> dict[str, Any]:
    return {
        "lane": f"{SHARED}, with what they share",
        "messages_a_day": f"{bill.messages:,.0f}",
        "dollars_a_day": _dollars(bill.dollars),
        "dollars_a_million": "no messages" if bill.a_million is None else f"{bill.a_million:,.2f}",
        "yields_a_day": f"{sum(lane.yields for lane in bill.lanes):,.0f}",
        "they_add": _dollars(sum(lane.yields_dollars for lane in bill.lanes)),
    }


def _dollars(value: float | None) -> str | None:
    return None if value is None else f"{value:,.4f}"


def _explain(bill: Bill, prices: Prices, window: str) -> None:
    say(
        f"a day like the last {window}, at prices of {prices.region} read on {prices.read_on}: {prices.source}"
    )
    say("no free tier, no discounts; what yields add is part of the lines above")
    if bill.unknown:
        say(f"unknown, and in no sum: {', '.join(bill.unknown)}")


def _record(bill: Bill, prices: Prices) -> dict[str, Any]:
    """Return the fields for programs: a day's amounts and dollars."""
    return {
        "dollars": bill.dollars,
        "messages": bill.messages,
        "dollars_a_million": bill.a_million,
        "unknown": list(bill.unknown),
        "lanes": [
            {
                "lane": lane.lane,
                "messages": lane.messages,
                "dollars": lane.dollars,
                "dollars_a_million": lane.a_million,
                "yields": lane.yields,
                "yields_dollars": lane.yields_dollars,
            }
            for lane in bill.lanes
        ],
        "lines": _line_records(bill.lines),
        "prices": {"region": prices.region, "read_on": prices.read_on, "source": prices.source},
    }


def _line_records(lines: Sequence[BillLine]) -> list[dict[str, Any]]:
    return [
        {
            "lane": line.use.lane or None,
            "what": line.use.what,
            "item": line.use.item.value,
            "amount": line.amount,
            "dollars": line.dollars,
            "how": line.use.how,
            "is_estimate": line.use.is_estimate,
        }
        for line in lines
    ]
