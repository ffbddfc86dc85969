"""
Ours beside other policies under one load: `python -m benchmarks.policies --json`.

Throttled as by default, with the waiting room, the plain pattern and no priority at all; and in the same waiting room,
at the same costs, the order in line without making way, a lottery, a head start by age, and one slot kept for the top
lane. The loads: bursts at the top, single messages, long records below, and short ones everywhere. What is judged is
that no other policy has both a shorter wait at the top and more work done; where one is better in a single figure is
told.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from random import Random
from typing import TYPE_CHECKING, Any

from benchmarks.report import Findings, Table, run
from benchmarks.saturation import require_saturated
from benchmarks.scenarios import ROOM, THROTTLED, Load, meet
from benchmarks.turns import HeadStart, InLineAlone, KeptForTop, Lottery, PolicyLanes, Strict
from lanes.operate.cost import cost_of, times
from lanes.operate.prices import read_prices
from simulator.outcome import percentile, use_of, waits_by_lane
from simulator.parameters import Unknowns
from simulator.world import Pattern, SimulatedLanes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

SLOTS = (1, 3, 10)
SECONDS = {1: 600.0, 3: 300.0, 10: 120.0}

TICKETS = 12, 5, 3
"""Of each lane in the lottery, highest first: about what the loads ask for."""

AHEAD = 120.0, 90.0, 0.0
"""Seconds by which each lane's messages count as older than they are, highest first."""

MILLION = 1_000_000

MARGIN = 0.02
"""Share by which a figure has to be better, so that chance alone makes nobody better."""

LOADS: Mapping[str, Load] = {
    "bursts": Load(seconds=1.0),
    "single messages": Load(seconds=1.0, burst=1),
    "long records below": Load(seconds=1.0, work=4.0, high=0.3),
    "short records": Load(seconds=0.5, work=0.05, high_work=0.05),
}
"""Each for its `seconds` times those of `SECONDS`: of short records there are so many more."""

OURS, THROTTLED_OURS, PLAIN, NONE = "ours", "ours, throttled", "plain", "none"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Whose consumer runs with which lanes; `turns` gives the policy in its waiting room, from a seed."""

    pattern: Pattern = Pattern.LANES
    raw: Mapping[str, Any] = dataclasses.field(default_factory=lambda: ROOM)
    turns: Callable[[int], Strict] | None = None

    def make(self, seed: int) -> Callable[..., SimulatedLanes]:
        """Return what makes the lanes."""
        if self.turns is None:
            return SimulatedLanes
        return functools.partial(PolicyLanes, policy=self.turns(seed))


POLICIES: Mapping[str, Policy] = {
    NONE: Policy(pattern=Pattern.NONE, raw=THROTTLED),
    PLAIN: Policy(pattern=Pattern.PLAIN, raw=THROTTLED),
    THROTTLED_OURS: Policy(raw=THROTTLED),
    OURS: Policy(),
    "order in line alone": Policy(turns=lambda _seed: InLineAlone()),
    "lottery": Policy(turns=lambda seed: Lottery(TICKETS, chance=Random(f"lots {seed}"))),  # noqa: S311
    "head start by age": Policy(turns=lambda _seed: HeadStart(AHEAD)),
    "a slot kept for HIGH": Policy(turns=lambda _seed: KeptForTop()),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """
    One policy under one load.

    Attributes:
        high_p50, high_p99, medium_p99: seconds of waiting; what was not begun counts with what it has waited so far.
        main_longest: the longest wait of the last lane.
        work: seconds of handlers over those without priority.
        yields: a message.
        calls: of the function, a message.
        dollars: of a million messages, reckoned as `benchmarks.calls` does.

    """

    high_p50: float
    high_p99: float
    medium_p99: float
    main_longest: float
    work: float
    yields: float
    calls: float
    dollars: float


WAITS = {
    "high_p50": "HIGH p50 s",
    "high_p99": "HIGH p99 s",
    "medium_p99": "MEDIUM p99 s",
    "main_longest": "MAIN longest s",
}
COSTS = {
    "work": "work over none",
    "yields": "yields a message",
    "calls": "calls a message",
    "dollars": "$ a million",
}
COMPARED = "high_p50", "high_p99", "medium_p99", "main_longest", "work", "dollars"


def played(lanes: SimulatedLanes, *, worked: float) -> Played:
    """Sum a run up, against the seconds of work that were done without priority."""
    waits = waits_by_lane(lanes)
    high, medium, main = (waits[lane.name] for lane in lanes.config.lanes)
    handled = len(lanes.handled)
    return Played(
        high_p50=percentile(high, 0.5),
        high_p99=percentile(high, 0.99),
        medium_p99=percentile(medium, 0.99),
        main_longest=main[-1],
        work=lanes.meter.worked / worked,
        yields=lanes.tally.counts["YieldedMessages"] / handled,
        calls=sum(lanes.calls.counts.values()) / handled,
        dollars=cost_of(times(use_of(lanes), MILLION / handled), read_prices()).dollars,
    )


def over(one: Played, other: Played, figure: str) -> float:
    """Return one figure over the other's."""
    return float(getattr(one, figure) / getattr(other, figure))


def better_in_both(by_policy: Mapping[str, Played]) -> list[str]:
    """Return the policies with a shorter p99 at the top and more work done than ours."""
    ours = by_policy[OURS]
    return [
        name
        for name, one in by_policy.items()
        if over(one, ours, "high_p99") < 1 - MARGIN and over(one, ours, "work") > 1 + MARGIN
    ]


class Case:
    """One load at so many slots under every policy; the one without priority is the first."""

    def __init__(self, name: str, *, slots: int, scale: float, seed: int) -> None:
        self.name = name
        self.slots = slots
        load = LOADS[name]
        self._load = dataclasses.replace(
            load, seconds=load.seconds * SECONDS[slots] * scale, groups=20 * slots
        )
        self._seed = seed
        self.by_policy = dict(self._play())

    def _play(self) -> Iterator[tuple[str, Played]]:
        """
        Play it under one policy after the other.

        Raises:
            NotSaturatedError: the load left slots unused without priority.

        """
        load, worked = self._load, 0.0
        for name, policy in POLICIES.items():
            lanes = meet(
                load,
                slots=self.slots,
                pattern=policy.pattern,
                raw=policy.raw,
                unknowns=Unknowns(),
                seed=self._seed,
                make=policy.make(self._seed),
            )
            if name == NONE:
                require_saturated(lanes, seconds=load.seconds, work=load.work)
                worked = lanes.meter.worked
            yield name, played(lanes, worked=worked)

    def over_ours(self, policy: str, figure: str) -> float:
        """Return a policy's figure over ours."""
        return over(self.by_policy[policy], self.by_policy[OURS], figure)


def measure(*, quick: bool, seed: int) -> Findings:
    """Play every load under every policy."""
    scale = 0.1 if quick else 1.0
    names = tuple(LOADS)[:1] if quick else tuple(LOADS)
    all_slots = SLOTS[:2] if quick else SLOTS
    cases = {
        (name, slots): Case(name, slots=slots, scale=scale, seed=seed)
        for name in names
        for slots in all_slots
    }
    ranges = {name: _ranges(list(cases.values()), name) for name in POLICIES if name != OURS}
    over = Table(
        title="over ours: the least and the most in all cases",
        columns=("policy", *(figure.replace("_", " ") for figure in COMPARED)),
        rows=[
            (name, *(f"{least:.4g} to {most:.4g}" for least, most in found.values()))
            for name, found in ranges.items()
        ],
    )
    return Findings(
        figures={
            "better_in_both": sum(len(better_in_both(case.by_policy)) for case in cases.values()),
            "over_ours": ranges,
        },
        tables=[
            _table(cases, WAITS, title="waits at so many slots"),
            _table(cases, COSTS, title="work and costs at so many slots"),
            over,
        ],
        conditions={
            "seconds": SECONDS,
            "lanes": ROOM,
            "tickets": TICKETS,
            "head_start_s": AHEAD,
            "loads": {name: dataclasses.asdict(LOADS[name]) for name in names},
        },
    )


def _table(cases: Mapping[tuple[str, int], Case], figures: Mapping[str, str], *, title: str) -> Table:
    """Return a row for each load and policy, with a column for each figure at each number of slots."""
    all_slots = sorted({slots for _, slots in cases})
    return Table(
        title=title,
        columns=("load: policy", *(f"{words}, {slots}" for words in figures.values() for slots in all_slots)),
        rows=[
            (
                f"{load}: {policy}",
                *(
                    getattr(cases[load, slots].by_policy[policy], figure)
                    for figure in figures
                    for slots in all_slots
                ),
            )
            for load in dict.fromkeys(load for load, _ in cases)
            for policy in POLICIES
        ],
    )


def _ranges(cases: list[Case], policy: str) -> dict[str, list[float]]:
    """Return the least and the most of a policy's figures over ours."""
    found = {figure: [case.over_ours(policy, figure) for case in cases] for figure in COMPARED}
    return {name: [round(min(values), 3), round(max(values), 3)] for name, values in found.items()}


if __name__ == "__main__":
    sys.exit(run("policies", measure, about="Ours beside other policies under one load."))
