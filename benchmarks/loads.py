"""
The wait of the top lane under other loads than even bursts: `python -m benchmarks.loads --engine pull --json`.

Handlers with log-normal and Pareto times, of 5 and 20 ms, and of 0.1 s with one in 200 that takes 20 s; single
messages, a group for each message, a flood of the second lane, and twenty lanes with half as much again as the slots
can do. Each load runs at several numbers of slots over a constant backlog, and is compared with the ideal scheduler,
and where a target says so with no priority. `worked` is the share of the slots' time in handlers, over the ideal's.
Then the bill of thin traffic: single messages of 50 ms at random, and nothing else, at 1 to 200 slots.
"""

from __future__ import annotations

import dataclasses
import sys
from functools import cache, cached_property, partial
from random import Random
from typing import TYPE_CHECKING, Any

from benchmarks.patterns import PATTERNS, deployed
from benchmarks.report import Findings, Table, run_engine
from benchmarks.scenarios import Load, Shape, ideal, simulate
from benchmarks.wait import MIN_DEPTH, Waits, waits_of
from lanes.config import EngineName
from simulator.outcome import queue_requests, use_of
from simulator.parameters import Unknowns
from simulator.prices import read_prices
from simulator.simulated_lanes import Pattern

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from simulator.simulated_lanes import SimulatedLanes

SECONDS = {1: 400.0, 3: 200.0, 10: 100.0, 50: 40.0}
"""Virtual seconds by slots."""

SHORT = 0.1
"""Share of them for handlers of up to 20 ms, of which there are as many more."""

QUICK_SCALE = RANGE_SCALE = 0.2

MANY = 10**6
"""Groups, so that hardly two messages share one."""

TWENTY: list[Mapping[str, Any]] = [
    *({"name": f"LANE-{number}", "threshold": 100 - 10 * number} for number in range(19)),
    {"name": "LANE-19"},
]
COLUMNS = ("load", "ideal p99 s", "p99 s", "over ideal", "worked", "requests")
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
class Kind:
    """A load, and the numbers of slots at which it runs."""

    load: Load
    slots: Sequence[int]
    lanes: Sequence[Mapping[str, Any]] = ()
    share: float = 1.0


def _all_of(seconds: float, shape: Shape = Shape.EVEN, **others: Any) -> Load:
    """Return a load with handlers of one time and shape in all lanes."""
    both = {"work": seconds, "high_work": seconds, "shape": shape, "high_shape": shape}
    return Load(seconds=0.0, **{**both, **others})


KINDS: Mapping[str, Kind] = {
    "log-normal": Kind(load=_all_of(0.165, Shape.LOG_NORMAL, burst=5, high=0.4), slots=(1, 3, 10, 50)),
    "Pareto above 0.1 s": Kind(
        load=_all_of(0.2, work=0.1, shape=Shape.EVEN, high_shape=Shape.PARETO, burst=5, high=0.4, medium=0.0),
        slots=(1, 3, 10, 50),
    ),
    "1 s above Pareto": Kind(
        load=_all_of(0.2, Shape.PARETO, high_work=1.0, high_shape=Shape.EVEN, burst=1, high=0.4),
        slots=(3, 10),
    ),
    "bursts": Kind(load=_all_of(0.2), slots=(1, 3, 10, 50)),
    "a group for each message": Kind(
        load=_all_of(0.1, burst=10, medium=0.0, groups=MANY, high_groups=MANY), slots=(3, 10)
    ),
    "second lane floods": Kind(load=_all_of(0.1, burst=1, high=0.05, medium=0.0, deep=1), slots=(1, 3, 10)),
    "single messages": Kind(load=_all_of(0.2, burst=1, high=0.05, medium=0.0), slots=(3, 10, 50)),
    "5 ms": Kind(load=_all_of(0.005, depth=4_000), slots=(1, 3, 10), share=SHORT),
    "20 ms": Kind(load=_all_of(0.02, depth=2_000), slots=(1, 3, 10), share=2 * SHORT),
    "log-normal of 8 ms": Kind(
        load=_all_of(0.008, Shape.LOG_NORMAL, burst=5, high=0.4, depth=4_000), slots=(3,), share=SHORT
    ),
    "log-normal of 33 ms": Kind(
        load=_all_of(0.033, Shape.LOG_NORMAL, burst=5, high=0.4, depth=2_000), slots=(3, 10), share=2 * SHORT
    ),
    "rarely 20 s": Kind(
        load=_all_of(0.1, Shape.RARELY_LONG, high_shape=Shape.EVEN, burst=1, high=0.3, medium=0.0),
        slots=(3, 10, 50),
    ),
    "twenty lanes": Kind(load=_all_of(0.2, medium=1.02), slots=(3, 10), lanes=TWENTY),
}
"""Loads by name."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """One load at one number of slots; each pattern runs when its figures are asked for."""

    engine: EngineName
    seed: int
    name: str
    slots: int
    scale: float = 1.0
    unknowns: Unknowns = dataclasses.field(default_factory=Unknowns)

    @property
    def load(self) -> Load:
        """The messages."""
        kind = KINDS[self.name]
        usual, seconds = kind.load, SECONDS[self.slots] * kind.share * self.scale
        groups = 20 * self.slots if usual.groups < MANY else MANY
        depth = max(usual.depth, MIN_DEPTH * self.slots)
        return dataclasses.replace(usual, seconds=seconds, groups=groups, depth=depth)

    @cached_property
    def bound(self) -> Waits:
        """The ideal scheduler."""
        lanes = ideal(self.load, slots=self.slots, seed=self.seed, lanes=KINDS[self.name].lanes)
        return waits_of(lanes, seconds=self.load.seconds)

    @cached_property
    def _run(self) -> tuple[Waits, float]:
        lanes = self._simulated(PATTERNS[self.engine])
        requests = queue_requests(lanes).total() + lanes.function.times.invocations
        return waits_of(lanes, seconds=self.load.seconds), requests / max(1, len(lanes.handled))

    @property
    def ours(self) -> Waits:
        """This product."""
        return self._run[0]

    @property
    def requests(self) -> float:
        """Requests of this product for each message."""
        return self._run[1]

    @cached_property
    def none(self) -> Waits:
        """No priority."""
        return waits_of(self._simulated(Pattern.NONE), seconds=self.load.seconds)

    @property
    def over_ideal(self) -> float:
        """The top lane's p99 over that of the ideal scheduler."""
        return self.ours.p99 / self.bound.p99

    @property
    def beyond_ideal(self) -> float:
        """The top lane's p99 less that of the ideal scheduler, in seconds."""
        return self.ours.p99 - self.bound.p99

    @property
    def worked(self) -> float:
        """Time in handlers over that of the ideal scheduler."""
        return self.ours.worked / self.bound.worked

    @property
    def worked_over_none(self) -> float:
        """Time in handlers over that without priority."""
        return self.ours.worked / self.none.worked

    def row(self) -> tuple[Any, ...]:
        """Return it as a row of a table."""
        waits = (self.bound.p99, self.ours.p99, self.over_ideal)
        return (f"{self.name}, {self.slots} slots", *waits, self.worked, self.requests)

    def _simulated(self, pattern: Pattern) -> SimulatedLanes:
        return simulate(
            self.load,
            slots=self.slots,
            pattern=pattern,
            unknowns=self.unknowns,
            seed=self.seed,
            lanes=KINDS[self.name].lanes,
        )


def cases_of(
    *, engine: EngineName, quick: bool, seed: int, unknowns: Unknowns | None = None
) -> Sequence[Case]:
    """Return all cases: at full length, or under one behaviour in shorter runs."""
    scale = QUICK_SCALE if quick else 1.0 if unknowns is None else RANGE_SCALE
    return [
        Case(engine=engine, seed=seed, name=name, slots=slots, scale=scale, unknowns=unknowns or Unknowns())
        for name, kind in KINDS.items()
        for slots in (kind.slots[:1] if quick else kind.slots)
    ]


def _figures(cases: Sequence[Case]) -> dict[str, float]:
    """Return the worst of each figure with a target."""

    def of(*names: str) -> list[Case]:
        return [case for case in cases if case.name in names]

    figures = {
        "log_normal_over_ideal": max(case.over_ideal for case in of("log-normal")),
        "pareto_over_ideal": max(case.over_ideal for case in of("Pareto above 0.1 s")),
        "even_over_ideal": max(case.over_ideal for case in of("bursts")),
        "short_beyond_ideal_seconds": max(case.beyond_ideal for case in of("5 ms", "20 ms")),
        "short_over_none": min(case.worked_over_none for case in of("5 ms", "20 ms")),
        "rarely_long_over_none": min(case.worked_over_none for case in of("rarely 20 s")),
        "second_lane_floods_beyond_ideal_seconds": max(
            case.beyond_ideal for case in of("second lane floods")
        ),
        "twenty_lanes_over_ideal": max(case.over_ideal for case in of("twenty lanes")),
        "worked_over_ideal": min(case.worked for case in cases),
    }
    return {name: round(value, 3) for name, value in figures.items()}


def measure(*, engine: EngineName, quick: bool, seed: int) -> Findings:
    """Run all loads."""
    cases = cases_of(engine=engine, quick=quick, seed=seed)
    rows = {
        f"{case.name}, {case.slots} slots": {
            "over_ideal": round(case.over_ideal, 3),
            "worked": round(case.worked, 3),
            "requests": round(case.requests, 2),
        }
        for case in cases
    }
    table = Table(title="the top lane's wait", columns=COLUMNS, rows=[case.row() for case in cases])
    scale = QUICK_SCALE if quick else 1.0
    found = bills(engine=engine, seed=seed, scale=scale, unknowns=Unknowns())
    bill = Table(
        title="thin traffic",
        columns=("a message every s", "slots", "dollars a month"),
        rows=[dataclasses.astuple(one) for one in found],
    )
    loads = {name: dataclasses.asdict(kind.load) for name, kind in KINDS.items()}
    return Findings(
        figures=_figures(cases)
        | thin_figures(engine=engine, seed=seed, scale=scale, unknowns=Unknowns())
        | {"loads": rows, "thin": [dataclasses.asdict(one) for one in found]},
        tables=[table, bill],
        conditions={"seconds": SECONDS, "loads": loads},
    )


def judge(
    *, engine: EngineName, quick: bool, seed: int, unknowns: Unknowns | None = None
) -> dict[str, float]:
    """Return the figures with a target."""
    cases = cases_of(engine=engine, quick=quick, seed=seed, unknowns=unknowns)
    scale = QUICK_SCALE if quick else 1.0 if unknowns is None else RANGE_SCALE
    return _figures(cases) | thin_figures(
        engine=engine, seed=seed, scale=scale, unknowns=unknowns or Unknowns()
    )


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
    dollars = read_prices().cost(use_of(lanes), times=MONTH / whole)
    # Where Lambda drops throttled batches, the mapped engine's come back when their visibility ends.
    if not lanes.settle(within=SETTLED):
        raise RuntimeError(f"{lanes.sent - lanes.done} of {lanes.sent} single messages were not handled")
    return dollars


if __name__ == "__main__":
    sys.exit(
        run_engine("loads", measure, judge=judge, about="The wait of the top lane under irregular loads.")
    )
