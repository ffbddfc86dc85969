"""
The price of a million messages in calls and dollars, by mix: `python -m benchmarks.calls --json`.

The mixes: a backlog of one lane below empty ones, single messages now and then, bursts of HIGH and a trickle of
MEDIUM over a backlog of MAIN at one slot and at three, and the latter with idempotency on (the plain pattern has none).
Calls are those of the function; requests also count receives and deletions of the mappings, and invocations. Dollars
cover all of these, the function's time and the table's units, at the prices of `lanes/operate/cost/prices.toml`. The
producers' requests, empty polls and logs are left out.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any

from benchmarks.report import Findings, NotSaturatedError, Table, run
from benchmarks.scenarios import Load, simulate
from lanes.operate.cost.model import cost_of, times
from lanes.operate.cost.prices import Item, read_prices
from simulator.outcome import use_of
from simulator.parameters import Unknowns
from simulator.simulated_lanes import Pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simulator.simulated_lanes import SimulatedLanes

WORK = 0.1
MILLION = 1_000_000
MIN_HANDLED = 100
"""Handled messages below which a mix shows nothing."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """A load on a number of slots; in a `contended` one, batches yield."""

    name: str
    slots: int
    load: Load
    contended: bool = True
    idempotency: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Price of a message under one pattern: calls of the function, all requests, and dollars per million."""

    calls: float
    requests: float
    dollars: float


def mixes(seconds: float) -> tuple[Mix, ...]:
    """Return the mixes, each for this many virtual seconds."""
    default = Load(seconds=seconds, work=WORK, high_work=WORK)
    calm = dataclasses.replace(default, high=0.0, medium=0.0)
    single = dataclasses.replace(default, depth=0, high=0.0, medium=0.05, seconds=seconds * 4)
    return (
        Mix(name="backlog alone", slots=1, load=calm, contended=False),
        Mix(name="single messages", slots=1, load=single, contended=False),
        Mix(name="bursts over a backlog", slots=1, load=default),
        Mix(name="bursts over a backlog", slots=3, load=default),
        Mix(name="the same, idempotent", slots=3, load=default, idempotency=True),
    )


def price_of(mix: Mix, pattern: Pattern, *, seed: int) -> Price:
    """Run a mix under a pattern."""
    lanes = simulate(
        mix.load,
        slots=mix.slots,
        pattern=pattern,
        unknowns=Unknowns(),
        seed=seed,
        idempotency=mix.idempotency,
    )
    handled = len(lanes.handled)
    if handled < MIN_HANDLED:
        raise NotSaturatedError(f"{mix.name}: {handled} messages were handled")
    if pattern is Pattern.LANES and mix.contended and not lanes.tally.counts["YieldedMessages"]:
        raise NotSaturatedError(f"{mix.name}: no record yielded")
    use = times(use_of(lanes), MILLION / handled)
    return Price(
        calls=sum(lanes.calls.counts.values()) / handled,
        requests=_requests(lanes) / handled,
        dollars=cost_of(use, read_prices()).dollars,
    )


def _requests(lanes: SimulatedLanes) -> float:
    use: Mapping[Item, float] = use_of(lanes)
    polled = sum(mapping.receives + mapping.deletes for mapping in lanes.mappings.values())
    return sum(lanes.calls.counts.values()) + polled + use[Item.INVOCATIONS]


def measure(*, quick: bool, seed: int) -> Findings:
    """Price each mix under each pattern."""
    figures: dict[str, Any] = {}
    rows = []
    for mix in mixes(120.0 if quick else 1_200.0):
        found = {pattern: price_of(mix, pattern, seed=seed) for pattern in Pattern}
        key = f"{mix.name.replace(',', '').replace(' ', '_')}_{mix.slots}"
        figures[f"calls_{key}"] = round(found[Pattern.LANES].calls, 3)
        figures[f"dollars_per_million_{key}"] = round(found[Pattern.LANES].dollars, 3)
        figures[f"plain_dollars_per_million_{key}"] = round(found[Pattern.PLAIN].dollars, 3)
        rows += [
            (mix.name, mix.slots, pattern.value, one.calls, one.requests, one.dollars)
            for pattern, one in found.items()
        ]
    columns = ("mix", "slots", "pattern", "calls a message", "requests", "$ a million")
    prices = read_prices()
    conditions = {"work_s": WORK, "memory_mb": 512, "prices_of": str(prices.read_on), "region": prices.region}
    title = "calls and dollars by mix"
    return Findings(
        figures=figures, tables=[Table(title=title, columns=columns, rows=rows)], conditions=conditions
    )


if __name__ == "__main__":
    sys.exit(run("calls", measure, about="The price of a million messages in calls and dollars, by mix."))
