"""
The time to finish the urgent messages of a backlog: `python -m benchmarks.finish --json`.

A backlog of many groups, a fiftieth of it urgent, is sent at once: first with one urgent group, then with a fifth of
five groups each. Without priority one queue takes all messages in the order of sending. The ideal is a scheduler
without latency or calls: one slot handles one group, five slots five groups.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any

from benchmarks.patterns import PLAIN_BATCHES, Compared, deployed, require_saturated
from benchmarks.report import Findings, Table, run_engine
from lanes.config import LanesConfig
from simulator.ideal import IdealLanes
from simulator.parameters import Unknowns
from simulator.simulated_lanes import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lanes.config import EngineName
    from simulator.simulated_lanes import SimulatedLanes

SLOTS = 5
GROUPS = 50
WORK = 0.2
SPREADS = {1: "one_group", 5: "five_groups"}
EACH = 500
QUICK_EACH = 50
"""Messages of a group at small sizes, where cold starts of 0.4 s are a fifth of the time of five urgent groups."""

LIMIT = 1_000_000.0
"""Virtual seconds after which a run is stopped."""
SPENT = ("work %", "calls %", "invoking %", "unused %")
"""Titles of the shares, for tables."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """
    The result of a run.

    Attributes:
        urgent: seconds until the urgent messages were finished.
        everything: seconds until all messages were.
        spent: shares of slot time by use; None of the ideal.

    """

    urgent: float
    everything: float
    spent: Spent | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case(Compared[Finished]):
    """One backlog; each pattern runs when its figures are asked for."""

    each: int
    spread: int

    @cached_property
    def bound(self) -> Finished:
        """The ideal scheduler."""
        config = LanesConfig.from_dict({"consumer": {"reserved_concurrency": SLOTS}})
        return finish(IdealLanes(config), each=self.each, spread=self.spread)

    def speedup(self, one: Finished) -> float:
        """Return how much earlier the urgent messages were finished than without priority."""
        return self.none.urgent / one.urgent

    @property
    def of_ideal(self) -> float:
        """The speedup over that of the ideal scheduler."""
        return self.bound.urgent / self.ours.urgent

    @property
    def plain_of_ideal(self) -> float:
        """The same of the plain pattern with the best batch size."""
        return self.bound.urgent / min(one.urgent for one in self.plains)

    @property
    def drain(self) -> float:
        """Time for all messages over that without priority."""
        return self.ours.everything / self.none.everything

    @property
    def plain_drain(self) -> float:
        """The same of the plain pattern with the best batch size."""
        return min(one.everything for one in self.plains) / self.none.everything

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield a row of a table for each pattern."""
        plains = {f"plain {size}": one for size, one in zip(PLAIN_BATCHES, self.plains, strict=True)}
        found = {"ideal": self.bound, self.engine.value: self.ours, **plains, "none": self.none}
        for name, one in found.items():
            shares = dataclasses.astuple(one.spent) if one.spent else (None,) * len(SPENT)
            yield f"urgent in {self.spread}", name, one.urgent, self.speedup(one), one.everything, *shares

    def found(self, pattern: Pattern, *, plain_batch: int = 1) -> Finished:
        """Send the backlog to the lanes of a pattern."""
        # No priority is one queue for all: with a queue for each lane, a mapping of its own would still favour a
        # short one.
        raw = {"consumer": {"reserved_concurrency": SLOTS}, "enabled": pattern is not Pattern.NONE}
        lanes = deployed(
            raw, pattern=pattern, unknowns=self.unknowns, seed=self.seed, plain_batch=plain_batch
        )
        urgent_lane = "MAIN" if pattern is Pattern.NONE else "HIGH"
        found = finish(lanes, each=self.each, spread=self.spread, urgent_lane=urgent_lane)
        if pattern is Pattern.NONE and self.unknowns == Unknowns():
            require_saturated(lanes, seconds=found.everything, work=WORK)
        return dataclasses.replace(found, spent=spent(lanes, seconds=found.everything))


def messages(each: int, spread: int) -> Iterator[tuple[str, bool]]:
    """Yield each message's group and whether it is urgent, in the order sent: `each` are, in `spread` groups."""
    for number in range(each):
        for group in range(GROUPS):
            yield f"g{group}", group < spread and number % spread == spread - 1


def finish(
    lanes: SimulatedLanes | IdealLanes, *, each: int, spread: int, urgent_lane: str = "HIGH"
) -> Finished:
    """Send everything at once and run until all of it is handled."""
    numbers: Counter[tuple[str, str]] = Counter()
    urgent_ones = set()
    for group, urgent in messages(each, spread):
        lane = urgent_lane if urgent else "MAIN"
        lanes.send(lane, group=group, seconds=WORK)
        numbers[lane, group] += 1
        if urgent:
            urgent_ones.add((lane, group, numbers[lane, group]))
    began = lanes.scheduler.now
    if not lanes.run(seconds=LIMIT, until=lambda: len(lanes.handled) >= lanes.sent):
        raise RuntimeError(f"{lanes.sent - len(lanes.handled)} messages were not handled in {LIMIT:.0f} s")
    everything = max(one.finished_at for one in lanes.handled) - began
    last = max(one.finished_at for one in lanes.handled if (one.lane, one.group, one.number) in urgent_ones)
    return Finished(urgent=last - began, everything=everything)


def measure(*, engine: EngineName, quick: bool, seed: int) -> Findings:
    """Run both spreads with all patterns."""
    each = QUICK_EACH if quick else EACH
    cases = {
        name: Case(engine=engine, seed=seed, each=each, spread=spread) for spread, name in SPREADS.items()
    }
    figures = _judged(cases)
    for name, case in cases.items():
        figures |= {
            f"speedup_{name}": round(case.speedup(case.ours), 2),
            f"speedup_of_ideal_{name}_plain": round(case.plain_of_ideal, 3),
        }
    figures["drain_ratio_plain"] = round(max(case.plain_drain for case in cases.values()), 4)
    columns = ("groups", "priority", "urgent done s", "speedup", "all done s", *SPENT)
    rows = [row for case in cases.values() for row in case.rows()]
    title = "until the urgent messages and all are finished"
    return Findings(
        figures=figures,
        tables=[Table(title=title, columns=columns, rows=rows)],
        conditions={
            "slots": SLOTS,
            "groups": GROUPS,
            "messages": GROUPS * each,
            "urgent": each,
            "work_s": WORK,
        },
    )


def judge(
    *, engine: EngineName, quick: bool, seed: int, unknowns: Unknowns | None = None
) -> dict[str, float]:
    """Return the figures with a target, as given or under one behaviour."""
    each = QUICK_EACH if quick else EACH
    return _judged(
        {
            name: Case(engine=engine, seed=seed, each=each, spread=spread, unknowns=unknowns or Unknowns())
            for spread, name in SPREADS.items()
        }
    )


def _judged(cases: Mapping[str, Case]) -> dict[str, float]:
    figures = {f"speedup_of_ideal_{name}": round(case.of_ideal, 3) for name, case in cases.items()}
    return figures | {"drain_ratio": round(max(case.drain for case in cases.values()), 4)}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """
    Shares of all slots' time in per cent.

    Attributes:
        work: handlers that succeeded.
        calls: the consumer's own calls, and failed handlers.
        invoking: starts and answers of invocations.
        unused: free slots.

    """

    work: float
    calls: float
    invoking: float
    unused: float


def spent(lanes: SimulatedLanes, *, seconds: float) -> Spent:
    """Divide the slot time of a run of this many seconds."""
    whole = lanes.config.consumer.reserved_concurrency * seconds / 100
    work = sum(one.finished_at - one.started_at for one in lanes.handled) / whole
    held = lanes.function.times.invoked / whole
    invoking = lanes.function.times.invocations * 2 * lanes.unknowns.invoke / whole
    return Spent(work=work, calls=max(0.0, held - work - invoking), invoking=invoking, unused=100 - held)


if __name__ == "__main__":
    sys.exit(
        run_engine("finish", measure, judge=judge, about="Time to finish the urgent messages of a backlog.")
    )
