"""
The wait of the top lane, and its price: `python -m benchmarks.wait --json`.

Bursts at the top and a trickle below them, over a constant backlog of 10, 1,000 and 100,000 messages, at 1, 3 and 10
slots, compared with the plain pattern, no priority, and the same bursts over an empty backlog. Each figure is the worst
case; `p99_over_plain` is that at a backlog of 1,000. A table shows its range over undocumented AWS behaviour.
"""

from __future__ import annotations

import dataclasses
import sys
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.report import Findings, Table, run
from benchmarks.saturation import require_saturated
from benchmarks.scenarios import Load, quantile, simulate
from simulator.parameters import Unknowns, variants
from simulator.simulated_lanes import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.simulated_lanes import SimulatedLanes

DEPTHS = (10, 1_000, 100_000)
SECONDS = {1: 900.0, 3: 400.0, 10: 150.0}
"""Virtual seconds by slots, for a similar number of messages."""

RANGE_DEPTH = 1_000

RANGE_SCALE = 0.4
"""Share of that time for each undocumented behaviour."""

MIN_DEPTH = 10
"""Messages per slot that a backlog, received ten at a time, needs to keep all slots busy."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Seconds that the top lane waited, slot seconds of work done, and messages that the top lane had."""

    p50: float
    p99: float
    worked: float
    count: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One load under every pattern."""

    slots: int
    depth: int
    ours: Waits
    plain: Waits
    none: Waits
    alone: Waits

    @property
    def over_plain(self) -> float:
        """The top lane's p99 over that of the plain pattern."""
        return self.ours.p99 / self.plain.p99

    @property
    def over_alone(self) -> float:
        """The top lane's p99 over that above an empty backlog."""
        return self.ours.p99 / self.alone.p99

    @property
    def drain(self) -> float:
        """Time for the same work over that without priority."""
        return self.none.worked / self.ours.worked

    @property
    def plain_drain(self) -> float:
        """The same of the plain pattern."""
        return self.none.worked / self.plain.worked

    def row(self) -> tuple[Any, ...]:
        """Return it as a row of a table."""
        waits = (self.ours, self.plain, self.none, self.alone)
        return (
            f"{self.slots} slots, {self.depth:,}",
            *(figure for one in waits for figure in (one.p50, one.p99)),
            self.over_plain,
            self.over_alone,
            self.drain,
            self.plain_drain,
        )


COLUMNS = (
    "case",
    *(f"{name} {figure}" for name in ("ours", "plain", "none", "alone") for figure in ("p50 s", "p99 s")),
    "over plain",
    "over alone",
    "drain",
    "plain drain",
)


class Bench:
    """Runs cases under one seed; `scale` shortens them."""

    def __init__(self, *, seed: int, scale: float = 1.0) -> None:
        self._seed = seed
        self._scale = scale

    def case(self, *, slots: int, depth: int, unknowns: Unknowns) -> Case:
        """
        Run one load under every pattern.

        Raises:
            NotSaturatedError: the backlog left slots unused without priority.

        """
        load = Load(
            seconds=SECONDS[slots] * self._scale, depth=max(depth, MIN_DEPTH * slots), groups=20 * slots
        )

        def waits(one: Load, pattern: Pattern) -> Waits:
            lanes = simulate(one, slots=slots, pattern=pattern, unknowns=unknowns, seed=self._seed)
            # Some undocumented behaviours add pollers so late that slots stay empty under the same load.
            if pattern is Pattern.NONE and unknowns == Unknowns():
                require_saturated(lanes, seconds=one.seconds, work=one.work)
            found = begun_or_not(lanes, seconds=one.seconds)
            return Waits(
                p50=median(found), p99=quantile(found, 0.99), worked=lanes.meter.worked, count=len(found)
            )

        return Case(
            slots=slots,
            depth=depth,
            ours=waits(load, Pattern.LANES),
            plain=waits(load, Pattern.PLAIN),
            none=waits(load, Pattern.NONE),
            alone=waits(load.alone, Pattern.LANES),
        )


def begun_or_not(lanes: SimulatedLanes, *, seconds: float) -> list[float]:
    """Return the waits of the top lane, shortest first; messages without a start count with the whole time."""
    top = lanes.config.lanes[0].name
    left = lanes.queues.live[top].counts()
    return [*lanes.handled.waits(top), *[seconds] * (left.visible + left.not_visible)]


def measure(*, quick: bool, seed: int) -> Findings:
    """Run all cases, and at one depth the range of undocumented AWS behaviour."""
    bench = Bench(seed=seed, scale=0.1 if quick else 1.0)
    shorter = Bench(seed=seed, scale=0.1 if quick else RANGE_SCALE)
    depths = DEPTHS[:2] if quick else DEPTHS
    cases = [
        bench.case(slots=slots, depth=depth, unknowns=Unknowns()) for slots in SECONDS for depth in depths
    ]
    ranges = list(_ranges(shorter, quick=quick))
    deep_over_shallow = {
        slots: _p50(cases, slots, depths[-1]) / _p50(cases, slots, depths[0]) for slots in SECONDS
    }
    everywhere = [*cases, *(case for _, case in ranges)]
    figures = {
        "deep_over_shallow_p50": round(max(deep_over_shallow.values()), 3),
        "p99_over_plain": round(max(case.over_plain for case in cases if case.depth == RANGE_DEPTH), 3),
        "p99_over_plain_any_depth": round(max(case.over_plain for case in cases), 3),
        "drain_over_none": round(max(case.drain for case in cases), 3),
        "p99_over_alone": round(max(case.over_alone for case in cases), 3),
        "plain_drain_over_none": round(max(case.plain_drain for case in cases), 3),
        "worst_of_range": {
            "p99_over_plain": round(max(case.over_plain for case in everywhere), 3),
            "drain_over_none": round(max(case.drain for case in everywhere), 3),
        },
    }
    return Findings(
        figures=figures,
        tables=[
            Table(
                title="the top lane's wait, and time for the same work over that without priority",
                columns=COLUMNS,
                rows=[case.row() for case in cases],
            ),
            Table(
                title=f"at a backlog of {RANGE_DEPTH:,}, over undocumented AWS behaviour",
                columns=("behaviour", *COLUMNS),
                rows=[(name, *case.row()) for name, case in ranges],
            ),
        ],
        conditions={"seconds": SECONDS, "load": dataclasses.asdict(Load(seconds=0.0))},
    )


def _ranges(bench: Bench, *, quick: bool) -> Iterator[tuple[str, Case]]:
    for slots in (1,) if quick else tuple(SECONDS):
        for name, unknowns in variants(Unknowns()).items():
            yield name, bench.case(slots=slots, depth=RANGE_DEPTH, unknowns=unknowns)


def _p50(cases: list[Case], slots: int, depth: int) -> float:
    return next(case.ours.p50 for case in cases if (case.slots, case.depth) == (slots, depth))


if __name__ == "__main__":
    sys.exit(run("wait", measure, about="The wait of the top lane over backlogs, and its price."))
