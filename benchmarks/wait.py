"""
How long the top lane waits, and what that costs: `python -m benchmarks.wait --json`.

Bursts at the top and a trickle below them, over a standing backlog of 10, 1,000 and 100,000 messages, at 1, 3 and 10
slots. The plain pattern, no priority, and the same bursts with nothing below them run beside it. The worst case of all
is the figure; how far it moves over what AWS leaves open stands in a table of its own. All of that is with a waiting
room; the same loads without one stand beside it.
"""

from __future__ import annotations

import dataclasses
import sys
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.report import Findings, Table, run
from benchmarks.saturation import require_saturated
from benchmarks.scenarios import ROOM, THROTTLED, Load, meet, quantile
from simulator.parameters import Unknowns, variants
from simulator.world import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from simulator.world import SimulatedLanes

DEPTHS = (10, 1_000, 100_000)
SECONDS = {1: 900.0, 3: 400.0, 10: 150.0}
"""Virtual seconds by slots: about as many messages at any number of them."""

RANGE_DEPTH = 1_000

RANGE_SCALE = 0.4
"""Share of that time for each of what AWS leaves open."""

LEAST_DEPTH = 10
"""Messages for each slot without which a backlog, taken out ten at a time, can't keep all slots busy."""


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
        """The top lane's p99 over that with nothing below it."""
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
    """Runs cases under one configuration and seed; `scale` shortens them."""

    def __init__(self, raw: Mapping[str, Any], *, seed: int, scale: float = 1.0) -> None:
        self._raw = raw
        self._seed = seed
        self._scale = scale

    def case(self, *, slots: int, depth: int, unknowns: Unknowns) -> Case:
        """
        Run one load under every pattern.

        Raises:
            NotSaturatedError: the backlog left slots unused without priority.

        """
        load = Load(
            seconds=SECONDS[slots] * self._scale, depth=max(depth, LEAST_DEPTH * slots), groups=20 * slots
        )

        def waits(one: Load, pattern: Pattern) -> Waits:
            lanes = meet(one, slots=slots, pattern=pattern, raw=self._raw, unknowns=unknowns, seed=self._seed)
            # Under what AWS leaves open it is the same load, also where pollers come so late that slots stand empty.
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
    """Return the waits of the top lane, shortest first; what was never begun is taken to have waited all the time."""
    top = lanes.config.lanes[0].name
    left = lanes.queues.live[top].counts()
    return [*lanes.handled.waits(top), *[seconds] * (left.visible + left.not_visible)]


def measure(*, quick: bool, seed: int) -> Findings:
    """Run all cases, and at one depth the range of what AWS leaves open."""
    bench = Bench(ROOM, seed=seed, scale=0.1 if quick else 1.0)
    shorter = Bench(ROOM, seed=seed, scale=0.1 if quick else RANGE_SCALE)
    throttled = Bench(THROTTLED, seed=seed, scale=0.1 if quick else 1.0)
    depths = DEPTHS[:2] if quick else DEPTHS
    cases = [
        bench.case(slots=slots, depth=depth, unknowns=Unknowns()) for slots in SECONDS for depth in depths
    ]
    without = [throttled.case(slots=slots, depth=RANGE_DEPTH, unknowns=Unknowns()) for slots in SECONDS]
    ranges = list(_ranges(shorter, quick=quick))
    deep_over_shallow = {
        slots: _p50(cases, slots, depths[-1]) / _p50(cases, slots, depths[0]) for slots in SECONDS
    }
    everywhere = [*cases, *(case for _, case in ranges)]
    figures = {
        "deep_over_shallow_p50": round(max(deep_over_shallow.values()), 3),
        "p99_over_plain": round(max(case.over_plain for case in cases), 3),
        "drain_over_none": round(max(case.drain for case in cases), 3),
        "p99_over_alone": round(max(case.over_alone for case in cases), 3),
        "plain_drain_over_none": round(max(case.plain_drain for case in cases), 3),
        "throttled": {
            "p99_over_plain": round(max(case.over_plain for case in without), 3),
            "drain_over_none": round(max(case.drain for case in without), 3),
        },
        "worst_of_range": {
            "p99_over_plain": round(max(case.over_plain for case in everywhere), 3),
            "drain_over_none": round(max(case.drain for case in everywhere), 3),
        },
    }
    return Findings(
        figures=figures,
        tables=[
            Table(
                title="with a waiting room: the top lane's wait, and time for the same work over that without priority",
                columns=COLUMNS,
                rows=[case.row() for case in cases],
            ),
            Table(
                title=f"without a waiting room, at a backlog of {RANGE_DEPTH:,}",
                columns=COLUMNS,
                rows=[case.row() for case in without],
            ),
            Table(
                title=f"with one, at a backlog of {RANGE_DEPTH:,} over what AWS leaves open",
                columns=("what", *COLUMNS),
                rows=[(name, *case.row()) for name, case in ranges],
            ),
        ],
        conditions={"seconds": SECONDS, "lanes": ROOM, "load": dataclasses.asdict(Load(seconds=0.0))},
    )


def _ranges(bench: Bench, *, quick: bool) -> Iterator[tuple[str, Case]]:
    for slots in (1,) if quick else tuple(SECONDS):
        for name, unknowns in variants(Unknowns()).items():
            yield name, bench.case(slots=slots, depth=RANGE_DEPTH, unknowns=unknowns)


def _p50(cases: list[Case], slots: int, depth: int) -> float:
    return next(case.ours.p50 for case in cases if (case.slots, case.depth) == (slots, depth))


if __name__ == "__main__":
    sys.exit(run("wait", measure, about="How long the top lane waits over backlogs, and what that costs."))
