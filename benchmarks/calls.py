"""
The price of a million messages in calls and dollars, by mix, a part of `benchmarks.wait`.

The mixes: a backlog of one lane below empty ones, single messages now and then, bursts of HIGH and a trickle of
MEDIUM over a backlog of MAIN at 1, 3 and 10 slots, and those at three slots with idempotency on (the plain pattern has
none). Calls are those of the function; requests also count receives and deletions of the mappings, rings of the bell,
and invocations. Dollars cover all of these, the function's time and the table's units, at the prices of
`simulator/prices.toml`. The producers' other requests, empty polls of mappings and logs are left out. The
plain pattern is priced with batches of 1, 2, 5 and 10; `dollars_over_plain` compares with the cheapest of them.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from benchmarks.patterns import PATTERNS, PLAIN_BATCHES, require_overtaken
from benchmarks.report import Findings, NotSaturatedError, Table
from benchmarks.scenarios import Load, simulate
from simulator.outcome import queue_requests, use_of
from simulator.parameters import Unknowns
from simulator.prices import read_prices
from simulator.simulated_lanes import Pattern

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lanes.config import EngineName

WORK = 0.1
MILLION = 1_000_000
BURSTS = "bursts over a backlog"
SLOTS = (1, 3, 10)
SECONDS, RANGE_SECONDS, QUICK_SECONDS = 120.0, 60.0, 60.0
"""Virtual seconds: of the figures, for each undocumented behaviour, and at small sizes."""

MIN_HANDLED = 100
"""Handled messages below which a mix shows nothing."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """A load on a number of slots; in a `contended` one, urgent messages overtake."""

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
        *bursts(seconds),
        Mix(name="the same, idempotent", slots=3, load=default, idempotency=True),
    )


def bursts(seconds: float) -> tuple[Mix, ...]:
    """Return the mixed bursts at each number of slots."""
    load = Load(seconds=seconds, work=WORK, high_work=WORK)
    return tuple(Mix(name=BURSTS, slots=slots, load=load) for slots in SLOTS)


def price_of(
    mix: Mix, pattern: Pattern, *, seed: int, unknowns: Unknowns | None = None, plain_batch: int = 1
) -> Price:
    """Run a mix under a pattern."""
    lanes = simulate(
        mix.load,
        slots=mix.slots,
        pattern=pattern,
        unknowns=unknowns or Unknowns(),
        seed=seed,
        idempotency=mix.idempotency,
        plain_batch=plain_batch,
    )
    handled = len(lanes.handled)
    if handled < MIN_HANDLED and unknowns is None:
        raise NotSaturatedError(f"{mix.name}: {handled} messages were handled")
    # Where a throttled batch is dropped, HIGH may wait for its whole visibility timeout.
    if pattern in PATTERNS.values() and mix.contended and unknowns is None:
        require_overtaken(lanes)
    requests = queue_requests(lanes).total() + lanes.function.times.invocations
    return Price(
        calls=sum(lanes.calls.counts.values()) / handled,
        requests=requests / handled,
        dollars=read_prices().cost(use_of(lanes), times=MILLION / handled),
    )


def prices_of(
    mix: Mix, engine: EngineName, *, seed: int, unknowns: Unknowns | None = None
) -> dict[str, Price]:
    """Return the prices of a mix by pattern."""
    plains = {
        f"plain {size}": price_of(mix, Pattern.PLAIN, seed=seed, unknowns=unknowns, plain_batch=size)
        for size in PLAIN_BATCHES
    }
    return {
        "ours": price_of(mix, PATTERNS[engine], seed=seed, unknowns=unknowns),
        **plains,
        "none": price_of(mix, Pattern.NONE, seed=seed, unknowns=unknowns),
    }


def measure(*, engine: EngineName, quick: bool, seed: int) -> Findings:
    """Price each mix under each pattern."""
    figures: dict[str, Any] = {}
    rows, mixed = [], []
    for mix in mixes(QUICK_SECONDS if quick else SECONDS):
        found = prices_of(mix, engine, seed=seed)
        mixed += [found] if mix.name == BURSTS else []
        key = f"{mix.name.replace(',', '').replace(' ', '_')}_{mix.slots}"
        figures[f"calls_{key}"] = round(found["ours"].calls, 3)
        figures[f"dollars_per_million_{key}"] = round(found["ours"].dollars, 3)
        figures[f"plain_dollars_per_million_{key}"] = round(_plain(found), 3)
        rows += [
            (mix.name, mix.slots, name, one.calls, one.requests, one.dollars) for name, one in found.items()
        ]
    columns = ("mix", "slots", "pattern", "calls a message", "requests", "$ a million")
    prices = read_prices()
    conditions = {"work_s": WORK, "memory_mb": 512, "prices_of": str(prices.read_on), "region": prices.region}
    return Findings(
        figures=_ratios(mixed) | figures,
        tables=[Table(title="calls and dollars by mix", columns=columns, rows=rows)],
        conditions=conditions,
    )


def judge(
    *, engine: EngineName, quick: bool, seed: int, unknowns: Unknowns | None = None
) -> dict[str, float]:
    """Return the ratios of the mixed bursts: at full size, or under one behaviour in shorter runs."""
    seconds = SECONDS if unknowns is None else RANGE_SECONDS
    found = bursts(QUICK_SECONDS if quick else seconds)
    return _ratios([prices_of(mix, engine, seed=seed, unknowns=unknowns) for mix in found])


def _ratios(mixed: Sequence[Mapping[str, Price]]) -> dict[str, float]:
    """Return the worst ratios of the mixed bursts."""
    return {
        "dollars_over_none": round(max(one["ours"].dollars / one["none"].dollars for one in mixed), 3),
        "dollars_over_plain": round(max(one["ours"].dollars / _plain(one) for one in mixed), 3),
        "dollars_over_plain_one_by_one": round(
            max(one["ours"].dollars / one["plain 1"].dollars for one in mixed), 3
        ),
    }


def _plain(found: Mapping[str, Price]) -> float:
    """Return the dollars of the plain pattern with the cheaper batch size."""
    return min(found[f"plain {size}"].dollars for size in PLAIN_BATCHES)
