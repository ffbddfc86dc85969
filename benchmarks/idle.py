"""
The share of slot time in handlers while messages wait: `python -m benchmarks.idle --json`.

Compared with the same load without priority, over mixes that leave slots idle elsewhere: bursts at the top that make
all lower lanes yield, hundreds of groups below, one strictly ordered group below, and a message at the top that fails
repeatedly with others behind it. The last lane has a constant backlog, so messages always wait.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any

from benchmarks.report import Findings, Table, run
from benchmarks.saturation import require_saturated
from benchmarks.scenarios import Load, simulate
from simulator.parameters import Unknowns, variants
from simulator.simulated_lanes import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SLOTS = (1, 3, 10)
SECONDS = {1: 600.0, 3: 300.0, 10: 120.0}

RANGE_SCALE = 0.4
"""Share of that time for each undocumented behaviour."""

BURSTS = "bursts"
MIXES: Mapping[str, Load] = {
    BURSTS: Load(seconds=0.0),
    "bursts, 1,000 groups below": Load(seconds=0.0, groups=1_000),
    "one ordered group below": Load(seconds=0.0, groups=1, high=0.1, medium=0.0, high_work=0.05, burst=1),
    "a failing message": Load(seconds=0.0, high=0.0, medium=0.0, failing=True),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """Shares of slot time: in handlers, and in invocations that only yielded; and billed time over handler time."""

    work: float
    only_yielded: float
    billed: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One mix under every pattern."""

    name: str
    slots: int
    ours: Busy
    plain: Busy
    none: Busy

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
            self.ours.billed,
        )


COLUMNS = (
    "mix",
    "busy over none",
    "plain",
    "only yields",
    "billed over work",
)


class Bench:
    """Runs mixes under one seed; `scale` shortens them."""

    def __init__(self, *, seed: int, scale: float) -> None:
        self._seed = seed
        self._scale = scale

    def case(self, name: str, *, slots: int, unknowns: Unknowns) -> Case:
        """
        Run one mix under every pattern.

        Raises:
            NotSaturatedError: the backlog left slots unused without priority, though its groups could fill them.

        """
        usual = MIXES[name]
        groups = 20 * slots if usual.groups == Load(seconds=0.0).groups else usual.groups
        load = dataclasses.replace(usual, seconds=SECONDS[slots] * self._scale, groups=groups)

        def busy(pattern: Pattern) -> Busy:
            lanes = simulate(load, slots=slots, pattern=pattern, unknowns=unknowns, seed=self._seed)
            # Some undocumented behaviours add pollers so late that slots stay empty under the same load.
            if pattern is Pattern.NONE and groups >= slots and unknowns == Unknowns():
                require_saturated(lanes, seconds=load.seconds, work=load.work)
            whole = slots * load.seconds
            return Busy(
                work=lanes.meter.worked / whole,
                only_yielded=lanes.function.times.only_yielded / whole,
                billed=lanes.function.times.invoked / lanes.meter.worked,
            )

        return Case(
            name=name,
            slots=slots,
            ours=busy(Pattern.LANES),
            plain=busy(Pattern.PLAIN),
            none=busy(Pattern.NONE),
        )


def measure(*, quick: bool, seed: int) -> Findings:
    """Run all mixes, and the bursts over undocumented AWS behaviour."""
    bench = Bench(seed=seed, scale=0.2 if quick else 1.0)
    shorter = Bench(seed=seed, scale=0.2 if quick else RANGE_SCALE)
    cases = [bench.case(name, slots=slots, unknowns=Unknowns()) for slots in SLOTS for name in MIXES]
    ranges = list(_ranges(shorter, quick=quick))
    figures = {
        "busy_over_none": round(min(case.busy for case in cases), 3),
        "yield_time_share": round(max(case.ours.only_yielded for case in cases), 4),
        "billed_over_work": round(max(case.ours.billed for case in cases), 2),
        "plain_busy_over_none": round(min(case.plain.work / case.none.work for case in cases), 3),
        "worst_of_range": {"busy_over_none": round(min(case.busy for _, case in ranges), 3)},
    }
    return Findings(
        figures=figures,
        tables=[
            Table(
                title="work while messages wait, over that without priority",
                columns=COLUMNS,
                rows=[case.row() for case in cases],
            ),
            Table(
                title="bursts over undocumented AWS behaviour",
                columns=("behaviour", *COLUMNS),
                rows=[(name, *case.row()) for name, case in ranges],
            ),
        ],
        conditions={
            "seconds": SECONDS,
            "mixes": {name: dataclasses.asdict(one) for name, one in MIXES.items()},
        },
    )


def _ranges(bench: Bench, *, quick: bool) -> Iterator[tuple[str, Case]]:
    for slots in SLOTS[:1] if quick else SLOTS:
        for name, unknowns in variants(Unknowns()).items():
            yield name, bench.case(BURSTS, slots=slots, unknowns=unknowns)


if __name__ == "__main__":
    sys.exit(run("idle", measure, about="The share of slot time in handlers while messages wait."))
