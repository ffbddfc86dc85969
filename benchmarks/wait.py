"""
The wait of the top lane, and its price in slot time, calls and dollars: `python -m benchmarks.wait --json`.

Bursts at the top and a trickle below them, over a constant backlog of 1,000 messages, at 1, 3 and 10 slots, compared
with an ideal scheduler without latency or calls, the plain pattern with batches of 1, 2, 5 and 10, no priority, and the
same bursts over an empty backlog. A wait ends with the first start of the handler. Each figure is the worst case;
`p99_over_plain` is against the best batch size.

The first seed also runs over backlogs of 10 and 100,000: `deep_over_shallow_p50` compares these two, and
`p99_over_plain_any_depth` is the longest p99 of all depths over that of the plain pattern at 1,000.
`one_queue_deep_over_shallow_p50` is a control: all messages in one queue of the ideal scheduler, over 1,000 and 10.

Slot time: the share in handlers while messages wait, over that without priority, in mixes that leave slots idle
elsewhere: bursts at the top that make all lower lanes yield, hundreds of groups below, one strictly ordered group
below, and a message at the top that fails repeatedly with others behind it.

Price: calls and dollars of a million messages. Calls are those of the function; requests also count receives and
deletions of the mappings, rings of the bell, and invocations. Dollars cover all of these, the function's time and the
table's units, at the prices of `simulator/prices.toml`; the producers' other requests, empty polls of mappings and logs
are left out. `dollars_over_plain` is against the cheapest batch size.
"""

from __future__ import annotations

import dataclasses
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any

from benchmarks import calls, idle
from benchmarks.patterns import PATTERNS, PLAIN_BATCHES, Compared, require_saturated
from benchmarks.report import Findings, Table, run_engine
from benchmarks.scenarios import Load, ideal, simulate
from benchmarks.targets import TARGETS, label_of
from lanes.metrics import percentile
from simulator.parameters import Unknowns
from simulator.simulated_lanes import Pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.config import EngineName
    from simulator.ideal import IdealLanes
    from simulator.simulated_lanes import SimulatedLanes

DEPTH = 1_000
SHALLOW, DEEP = 10, 100_000
SECONDS = {1: 900.0, 3: 400.0, 10: 150.0}
"""Virtual seconds by slots, for a similar number of messages."""

RANGE_SCALE = 0.4
"""Share of that time for each undocumented behaviour."""

QUICK_SCALE = 0.1

MIN_DEPTH = 10
"""Messages per slot that a backlog, received ten at a time, needs to keep all slots busy."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Seconds that the top lane waited, and slot seconds of work done."""

    p50: float
    p99: float
    worked: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case(Compared[Waits]):
    """One load; each pattern runs when its figures are asked for."""

    slots: int
    depth: int = DEPTH
    scale: float = 1.0

    @property
    def load(self) -> Load:
        """The messages."""
        depth = max(self.depth, MIN_DEPTH * self.slots)
        return Load(seconds=SECONDS[self.slots] * self.scale, depth=depth, groups=20 * self.slots)

    @cached_property
    def alone(self) -> Waits:
        """The same above an empty backlog."""
        return self._waits(self.load.alone, PATTERNS[self.engine])

    def found(self, pattern: Pattern, *, plain_batch: int = 1) -> Waits:
        """Run the load with a pattern."""
        return self._waits(self.load, pattern, plain_batch=plain_batch)

    @cached_property
    def bound(self) -> Waits:
        """The ideal scheduler."""
        return waits_of(ideal(self.load, slots=self.slots, seed=self.seed), seconds=self.load.seconds)

    @cached_property
    def in_one_queue(self) -> Waits:
        """The same with one queue for all lanes."""
        lanes = ideal(self.load, slots=self.slots, seed=self.seed, one_queue=True)
        return waits_of(lanes, seconds=self.load.seconds)

    @property
    def over_ideal(self) -> float:
        """The top lane's p99 over that of the ideal scheduler."""
        return self.ours.p99 / self.bound.p99

    @property
    def over_plain(self) -> float:
        """The top lane's p99 over that of the plain pattern."""
        return self.ours.p99 / min(plain.p99 for plain in self.plains)

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
        return self.none.worked / max(plain.worked for plain in self.plains)

    @property
    def by_pattern(self) -> dict[str, Waits]:
        """The waits of each pattern by its name."""
        plains = {f"plain {size}": one for size, one in zip(PLAIN_BATCHES, self.plains, strict=True)}
        return {"ideal": self.bound, "ours": self.ours, **plains, "none": self.none, "alone": self.alone}

    def figures(self) -> dict[str, dict[str, float]]:
        """Return wait and share of slot time at work of each pattern."""
        whole = self.slots * self.load.seconds
        return {
            name: {"p50": round(one.p50, 3), "p99": round(one.p99, 3), "work": round(one.worked / whole, 4)}
            for name, one in self.by_pattern.items()
        }

    def row(self) -> tuple[Any, ...]:
        """Return it as a row of a table."""
        return (
            f"{self.slots} slots",
            *(figure for one in self.by_pattern.values() for figure in (one.p50, one.p99)),
            self.over_ideal,
            self.over_plain,
            self.over_alone,
            self.drain,
            self.plain_drain,
        )

    def _waits(self, load: Load, pattern: Pattern, *, plain_batch: int = 1) -> Waits:
        lanes = simulate(
            load,
            slots=self.slots,
            pattern=pattern,
            unknowns=self.unknowns,
            seed=self.seed,
            plain_batch=plain_batch,
        )
        # Some undocumented behaviours add pollers so late that slots stay empty under the same load.
        if pattern is Pattern.NONE and self.unknowns == Unknowns():
            require_saturated(lanes, seconds=load.seconds, work=load.work)
        return waits_of(lanes, seconds=load.seconds)


COLUMNS = (
    "case",
    *(
        f"{name} {figure}"
        for name in ("ideal", "ours", *(f"plain {size}" for size in PLAIN_BATCHES), "none", "alone")
        for figure in ("p50 s", "p99 s")
    ),
    "over ideal",
    "over plain",
    "over alone",
    "drain",
    "plain drain",
)


def waits_of(lanes: SimulatedLanes | IdealLanes, *, seconds: float) -> Waits:
    """Return the waits of the top lane; messages that were not handled count with the whole time."""
    top = lanes.config.lanes[0].name
    waits = lanes.handled.waits(top)
    waits += [seconds] * (lanes.sent_to[top] - len(waits))
    return Waits(
        p50=percentile(waits, 0.5),
        p99=percentile(waits, 0.99),
        worked=sum(one.finished_at - one.started_at for one in lanes.handled),
    )


def waits(*, engine: EngineName, quick: bool, seed: int) -> Findings:
    """Run all cases of waits."""
    scale = QUICK_SCALE if quick else 1.0
    cases = [Case(engine=engine, seed=seed, slots=slots, scale=scale) for slots in SECONDS]
    shallow = [dataclasses.replace(case, depth=SHALLOW) for case in cases]
    deep = [dataclasses.replace(case, depth=DEPTH if quick else DEEP) for case in cases]
    over_plain = [
        max(one.ours.p99 for one in depths) / min(plain.p99 for plain in depths[0].plains)
        for depths in zip(cases, shallow, deep, strict=True)
    ]
    figures = {
        "p99_over_ideal": round(max(case.over_ideal for case in cases), 3),
        "drain_over_none": round(max(case.drain for case in cases), 3),
        "deep_over_shallow_p50": round(_ratio([one.ours for one in deep], [one.ours for one in shallow]), 3),
        "p99_over_plain": round(max(case.over_plain for case in cases), 3),
        "p99_over_plain_any_depth": round(max(over_plain), 3),
        "p99_over_alone": round(max(case.over_alone for case in cases), 3),
        "plain_drain_over_none": round(max(case.plain_drain for case in cases), 3),
        "waits": {str(case.slots): case.figures() for case in cases},
        "one_queue_deep_over_shallow_p50": round(
            _ratio([case.in_one_queue for case in cases], [one.in_one_queue for one in shallow]), 3
        ),
    }
    title = "the top lane's wait, and time for the same work over that without priority"
    by_depth = [
        (f"{one[0].slots} slots", *(figure for case in one for figure in (case.ours.p50, case.ours.p99)))
        for one in zip(shallow, cases, deep, strict=True)
    ]
    heads = [
        f"{depth:,} {figure}" for depth in (SHALLOW, DEPTH, deep[0].depth) for figure in ("p50 s", "p99 s")
    ]
    return Findings(
        figures=figures,
        tables=[
            Table(title=title, columns=COLUMNS, rows=[case.row() for case in cases]),
            Table(title="ours by the depth of the backlog", columns=("slots", *heads), rows=by_depth),
        ],
        conditions={"seconds": SECONDS, "load": dataclasses.asdict(Load(seconds=0.0))},
    )


def judge_waits(
    *, engine: EngineName, quick: bool, seed: int, unknowns: Unknowns | None = None
) -> dict[str, float]:
    """Return the figures over the default backlog: at full length, or under one behaviour in shorter runs."""
    scale = QUICK_SCALE if quick else 1.0 if unknowns is None else RANGE_SCALE
    cases = [
        Case(engine=engine, seed=seed, slots=slots, scale=scale, unknowns=unknowns or Unknowns())
        for slots in (tuple(SECONDS)[:1] if quick else SECONDS)
    ]
    found = {
        "p99_over_ideal": round(max(case.over_ideal for case in cases), 3),
        "drain_over_none": round(max(case.drain for case in cases), 3),
    }
    if "p99_over_plain" in {target.figure for target in TARGETS[label_of("wait", engine)]}:
        found["p99_over_plain"] = round(max(case.over_plain for case in cases), 3)
    return found


def _ratio(found: Sequence[Waits], others: Sequence[Waits]) -> float:
    """Return the worst ratio of the medians."""
    return max(one.p50 / other.p50 for one, other in zip(found, others, strict=True))


def measure(*, engine: EngineName, quick: bool, seed: int) -> Findings:
    """Measure waits, slot time and prices."""
    parts = {
        name: part(engine=engine, quick=quick, seed=seed)
        for name, part in (("waits", waits), ("idle", idle.measure), ("calls", calls.measure))
    }
    return Findings(
        figures={name: value for part in parts.values() for name, value in part.figures.items()},
        tables=[table for part in parts.values() for table in part.tables],
        conditions={name: part.conditions for name, part in parts.items()},
    )


def judge(
    *, engine: EngineName, quick: bool, seed: int, unknowns: Unknowns | None = None
) -> dict[str, float]:
    """Return the figures with a target of all parts."""
    found: dict[str, float] = {}
    for part in (judge_waits, idle.judge, calls.judge):
        found |= part(engine=engine, quick=quick, seed=seed, unknowns=unknowns)
    return found


if __name__ == "__main__":
    sys.exit(
        run_engine(
            "wait",
            measure,
            judge=judge,
            about="The wait of the top lane over backlogs, and its price in slot time, calls and dollars.",
        )
    )
