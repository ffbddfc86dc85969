"""
What a million messages cost in calls and dollars, by mix: `python -m benchmarks.calls --json`.

The mixes: a backlog of one lane with nothing above it, single messages now and then, bursts of HIGH and a trickle of
MEDIUM over a backlog of MAIN at one slot and at three, and those with the waiting room, whose waiting is billed, and
with idempotency on (the plain pattern has neither). Calls are those that the function makes; requests also those of the
mappings (receives and deletions) and invocations. Dollars are all of these with the function's time and the table's
units, at the prices of `lanes/operate/prices.toml`; what producers send, polls that bring nothing, and logs are left
out.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any

from benchmarks.report import Findings, NotSaturatedError, Table, run
from benchmarks.scenarios import Load, meet
from lanes.operate.cost import cost_of, times
from lanes.operate.prices import Item, read_prices
from simulator.outcome import use_of
from simulator.parameters import Unknowns
from simulator.world import Pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simulator.world import SimulatedLanes

WORK = 0.1
MILLION = 1_000_000
LEAST = 100
"""Messages without which a mix shows nothing."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """A load on so many slots; `contended` ones have something make way, `room` ones have the waiting room."""

    name: str
    slots: int
    load: Load
    contended: bool = True
    idempotency: bool = False
    room: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a message cost under one pattern: the function's calls, all requests, and a million of them in dollars."""

    calls: float
    requests: float
    dollars: float


def mixes(seconds: float) -> tuple[Mix, ...]:
    """Return the mixes, each for so many virtual seconds."""
    usual = Load(seconds=seconds, work=WORK, high_work=WORK)
    calm = dataclasses.replace(usual, high=0.0, medium=0.0)
    single = dataclasses.replace(usual, depth=0, high=0.0, medium=0.05, seconds=seconds * 4)
    return (
        Mix(name="backlog alone", slots=1, load=calm, contended=False),
        Mix(name="single messages", slots=1, load=single, contended=False),
        Mix(name="bursts over a backlog", slots=1, load=usual),
        Mix(name="bursts over a backlog", slots=3, load=usual),
        Mix(name="the same, waiting room", slots=1, load=usual, contended=False, room=True),
        Mix(name="the same, waiting room", slots=3, load=usual, contended=False, room=True),
        Mix(name="the same, idempotent", slots=3, load=usual, idempotency=True),
    )


def price_of(mix: Mix, pattern: Pattern, *, seed: int) -> Price:
    """Run a mix under a pattern."""
    raw = {"consumer": {"idempotency": mix.idempotency, "waiting_room": mix.room}}
    lanes = meet(mix.load, slots=mix.slots, pattern=pattern, raw=raw, unknowns=Unknowns(), seed=seed)
    handled = len(lanes.handled)
    if handled < LEAST:
        raise NotSaturatedError(f"{mix.name}: {handled} messages were handled")
    if pattern is Pattern.LANES and mix.contended and not lanes.tally.counts["YieldedMessages"]:
        raise NotSaturatedError(f"{mix.name}: nothing ever made way")
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
    sys.exit(run("calls", measure, about="What a million messages cost in calls and dollars, by mix."))
