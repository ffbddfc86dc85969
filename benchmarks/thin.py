"""The bill of thin traffic, a part of `benchmarks.loads`: single messages of 50 ms at random moments, nothing else."""

from __future__ import annotations

import dataclasses
from functools import cache, partial
from random import Random
from typing import TYPE_CHECKING

from benchmarks.patterns import PATTERNS, deployed
from lanes.config import EngineName
from simulator.cost import cost_of, times
from simulator.outcome import use_of
from simulator.prices import read_prices

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simulator.parameters import Unknowns

SLOTS = (1, 10, 50, 200)
BUSY = 1.0
EVERY: Mapping[float, float] = {BUSY: 300.0, 50.0: 5_000.0}
"""Mean seconds between two messages, and virtual seconds of a run."""

WORK = 0.05
MONTH = 30 * 86_400.0
LANES = ("HIGH", "MEDIUM", "MAIN")
WARM = 5.0
REST = 30.0
SETTLED = 7_200.0
"""Seconds before the first message, after the last one in the bill, and until all must be handled."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """US dollars a month at some slots with a message every so many seconds in the mean."""

    every: float
    slots: int
    dollars: float


@cache
def bills(*, engine: EngineName, seed: int, scale: float, unknowns: Unknowns) -> tuple[Bill, ...]:
    """Return the bills of an engine."""
    return tuple(
        Bill(
            every=every,
            slots=slots,
            dollars=_dollars(
                engine, slots=slots, every=every, seconds=seconds * scale, seed=seed, unknowns=unknowns
            ),
        )
        for every, seconds in EVERY.items()
        for slots in SLOTS
    )


def thin_figures(*, engine: EngineName, seed: int, scale: float, unknowns: Unknowns) -> dict[str, float]:
    """
    Return the greatest bill over that with one slot, and that of a message a second with one over the mapped engine's.

    The mapped engine's empty polls, of which AWS says no rate, have no price here; they are its bill for rarer ones.
    """
    own = bills(engine=engine, seed=seed, scale=scale, unknowns=unknowns)
    mapped = bills(engine=EngineName.MAPPINGS, seed=seed, scale=scale, unknowns=unknowns)
    ones = {bill.every: bill.dollars for bill in own if bill.slots == 1}
    others = {bill.every: bill.dollars for bill in mapped if bill.slots == 1}
    figures = {
        "thin_dollars_over_one_slot": max(bill.dollars / ones[bill.every] for bill in own),
        "thin_dollars_over_mapped": ones[BUSY] / others[BUSY],
    }
    return {name: round(value, 3) for name, value in figures.items()}


def _dollars(
    engine: EngineName, *, slots: int, every: float, seconds: float, seed: int, unknowns: Unknowns
) -> float:
    raw = {"consumer": {"reserved_concurrency": slots, "function_timeout": "30s"}}
    lanes = deployed(raw, pattern=PATTERNS[engine], unknowns=unknowns, seed=seed, plain_batch=1)
    chance, moment, number = Random(seed), WARM, 0  # noqa: S311 - a load, no secret
    while moment < WARM + seconds:
        lane, group = LANES[number % len(LANES)], f"g{number}"
        lanes.scheduler.after(moment, partial(lanes.send, lane, group=group, seconds=WORK))
        moment, number = moment + chance.expovariate(1 / every), number + 1
    whole = WARM + seconds + REST
    lanes.run(seconds=whole)
    dollars = cost_of(times(use_of(lanes), MONTH / whole), read_prices()).dollars
    # Where Lambda drops throttled batches, the mapped engine's come back when their visibility ends.
    if not lanes.settle(within=SETTLED):
        raise RuntimeError(f"{lanes.sent - lanes.done} of {lanes.sent} single messages were not handled")
    return dollars
