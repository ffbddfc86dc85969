"""`lanes cost`: estimate the daily cost at the current rate."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lanes.cli.arguments import duration, operations_of
from lanes.cli.exit_codes import ExitCode
from lanes.cli.printing import console, layout, say, show_json
from lanes.cli.target import Output, target_of
from lanes.operate.cost.bill import bill_of
from lanes.operate.cost.prices import read_prices

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.operate.cost.bill import Bill, BillLine, LaneCost
    from lanes.operate.cost.prices import Prices

# AWS: SQS and Lambda report their figures every minute (SQS developer guide, available CloudWatch metrics).
MIN_WINDOW = timedelta(minutes=1)
SHARED = "all"


def cost(
    context: typer.Context,
    *,
    window: Annotated[str, typer.Option(help="Use the metrics of this last time.")] = "1h",
    prices: Annotated[Path | None, typer.Option(help="Read your own prices from this TOML file.")] = None,
    messages_a_send: Annotated[
        float,
        typer.Option(
            min=1, max=10, help="Assume that producers send this many messages in a request, on average."
        ),
    ] = 1,
) -> None:
    """
    Estimate the daily cost at the current rate in US dollars: by item, by lane, and the share of yields.

    The metrics come from CloudWatch; reading them costs a fraction of a cent. The estimate leaves out free tier,
    discounts, producers, the outbox and bulk jobs. Exit code 3: CloudWatch has no metrics of the lanes.
    """
    target = target_of(context)
    operations = operations_of(context)
    charged = read_prices(prices)
    time = duration(window, "--window")
    if time < MIN_WINDOW:
        raise typer.BadParameter(f"{window!r} is too short; give at least 1m", param_hint="--window")
    use = operations.use().read(time)
    bill = bill_of(use.lanes, use.shared, charged, window=time, messages_a_send=messages_a_send)
    if target.output is Output.JSON:
        show_json(_record(bill, charged))
    else:
        _show(bill)
    for note in use.notes:
        say(f"note: {note}")
    _explain(bill, charged, window)
    if not any(line.amount for line in bill.lines if line.use.lane):
        say("CloudWatch has no metrics of the lanes in this time; give a longer --window")
        raise typer.Exit(ExitCode.NO)


def _show(bill: Bill) -> None:
    out = console()
    # Items of zero are noise; unknown ones are worth a line.
    out.print(layout([_line_row(line) for line in bill.lines if line.amount != 0], out))
    # One table, so that the columns of lanes and sum have the same width.
    out.print(layout([*(_lane_row(lane) for lane in bill.lanes), _sum_row(bill)], out))


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
        "added_by_yields": _dollars(lane.yields_dollars),
    }


def _sum_row(bill: Bill) -> dict[str, Any]:
    return {
        "lane": f"{SHARED}, with shared costs",
        "messages_a_day": f"{bill.messages:,.0f}",
        "dollars_a_day": _dollars(bill.dollars),
        "dollars_a_million": "no messages" if bill.a_million is None else f"{bill.a_million:,.2f}",
        "yields_a_day": f"{sum(lane.yields for lane in bill.lanes):,.0f}",
        "added_by_yields": _dollars(sum(lane.yields_dollars for lane in bill.lanes)),
    }


def _dollars(value: float | None) -> str | None:
    return None if value is None else f"{value:,.4f}"


def _explain(bill: Bill, prices: Prices, window: str) -> None:
    say(
        f"a day at the rate of the last {window}, with prices of {prices.region} from {prices.read_on}: {prices.source}"
    )
    say("without free tier and discounts; the cost of yields is part of the items above")
    if bill.unknown:
        say(f"unknown, and not in the sums: {', '.join(bill.unknown)}")


def _record(bill: Bill, prices: Prices) -> dict[str, Any]:
    """Return the JSON record: amounts and dollars of a day."""
    return {
        "dollars": bill.dollars,
        "messages": bill.messages,
        "dollars_a_million": bill.a_million,
        "unknown": list(dict.fromkeys(line.use.code for line in bill.lines if line.amount is None)),
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
            "code": line.use.code,
            "what": line.use.what,
            "item": line.use.item.value,
            "amount": line.amount,
            "dollars": line.dollars,
            "how": line.use.how,
            "is_estimate": line.use.is_estimate,
        }
        for line in lines
    ]
