"""
The share of slot time in handlers while messages wait, a part of `benchmarks.wait`.

Compared with the same load without priority, over mixes that leave slots idle elsewhere: bursts at the top that make
all lower lanes yield, hundreds of groups below, one strictly ordered group below, and a message at the top that fails
repeatedly with others behind it. The last lane has a constant backlog, so messages always wait.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from benchmarks.patterns import Compared, require_saturated
from benchmarks.report import Findings, Table
from benchmarks.scenarios import Load, simulate
from simulator.parameters import Unknowns
from simulator.simulated_lanes import Pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lanes.config import EngineName

SLOTS = (1, 3, 10)
SECONDS = {1: 600.0, 3: 300.0, 10: 120.0}

QUICK_SCALE = RANGE_SCALE = 0.2
"""Share of that time for small sizes, and for each undocumented behaviour."""

MIXES: Mapping[str, Load] = {
    "bursts": Load(seconds=0.0),
    "bursts, 1,000 groups below": Load(seconds=0.0, groups=1_000),
    "one ordered group below": Load(seconds=0.0, groups=1, high=0.1, medium=0.0, high_work=0.05, burst=1),
    "a failing message": Load(seconds=0.0, high=0.0, medium=0.0, failing=True),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """Shares of slot time: in handlers, and in invocations that only yielded."""

    work: float
    only_yielded: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case(Compared[Busy]):
    """One mix; each pattern runs when its figures are asked for."""

    name: str
    slots: int
    scale: float = 1.0

    @property
    def load(self) -> Load:
        """The messages."""
        usual = MIXES[self.name]
        groups = 20 * self.slots if usual.groups == Load(seconds=0.0).groups else usual.groups
        return dataclasses.replace(usual, seconds=SECONDS[self.slots] * self.scale, groups=groups)

    @property
    def plain(self) -> Busy:
        """The plain pattern with the best batch size."""
        return max(self.plains, key=lambda one: one.work)

    @property
    def busy(self) -> float:
        """Share at work over that without priority."""
        return self.ours.work / self.none.work

    def row(self) -> tuple[Any, ...]:
        """Return it as a row of a table."""
        return (
            f"{self.name}, {self.slots} slots",
            self.busy,
            self.plain.work / self.none.work,
            self.ours.only_yielded,
        )

    def found(self, pattern: Pattern, *, plain_batch: int = 1) -> Busy:
        """Run the mix with a pattern."""
        load = self.load
        lanes = simulate(
            load,
            slots=self.slots,
            pattern=pattern,
            unknowns=self.unknowns,
            seed=self.seed,
            plain_batch=plain_batch,
        )
        # Some undocumented behaviours add pollers so late that slots stay empty under the same load.
        if pattern is Pattern.NONE and load.groups >= self.slots and self.unknowns == Unknowns():
            require_saturated(lanes, seconds=load.seconds, work=load.work)
        whole = self.slots * load.seconds
        return Busy(
            work=lanes.meter.worked / whole,
            only_yielded=lanes.function.times.only_yielded / whole,
        )


COLUMNS = (
    "mix",
    "busy over none",
    "plain",
    "only yields",
)


def measure(*, engine: EngineName, quick: bool, seed: int) -> Findings:
    """Run all mixes."""
    scale = QUICK_SCALE if quick else 1.0
    cases = [
        Case(engine=engine, seed=seed, name=name, slots=slots, scale=scale)
        for slots in SLOTS
        for name in MIXES
    ]
    figures = {
        "busy_over_none": round(min(case.busy for case in cases), 3),
        "yield_time_share": round(max(case.ours.only_yielded for case in cases), 4),
        "plain_busy_over_none": round(min(case.plain.work / case.none.work for case in cases), 3),
        "busy": {
            f"{case.name}, {case.slots} slots": {
                "ours": round(case.busy, 3),
                "plain": round(case.plain.work / case.none.work, 3),
            }
            for case in cases
        },
    }
    return Findings(
        figures=figures,
        tables=[
            Table(
                title="work while messages wait, over that without priority",
                columns=COLUMNS,
                rows=[case.row() for case in cases],
            )
        ],
        conditions={
            "seconds": SECONDS,
            "mixes": {name: dataclasses.asdict(one) for name, one in MIXES.items()},
        },
    )


def judge(
    *, engine: EngineName, quick: bool, seed: int, unknowns: Unknowns | None = None
) -> dict[str, float]:
    """Return the figures with a target: at full size, or under one behaviour in shorter runs."""
    scale = QUICK_SCALE if quick else 1.0 if unknowns is None else RANGE_SCALE
    cases = [
        Case(engine=engine, seed=seed, name=name, slots=slots, scale=scale, unknowns=unknowns or Unknowns())
        for slots in (SLOTS[:1] if quick else SLOTS)
        for name in MIXES
    ]
    return {
        "busy_over_none": round(min(case.busy for case in cases), 3),
        "yield_time_share": round(max(case.ours.only_yielded for case in cases), 4),
    }
