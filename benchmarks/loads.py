"""
The loads of `benchmarks.wait`: a constant backlog in one lane, arrivals above it, and handlers of various times.

Each handled message of the backlog is replaced, so the lower lanes need every slot all the time. Rates are shares of
the slots' time.
"""

from __future__ import annotations

import dataclasses
import math
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from simulator.ideal import IdealLanes
    from simulator.simulated_lanes import SimulatedLanes

TOP_UP = 0.1
"""Seconds between two refills of the backlog."""

QUIET = 0.1
"""Share of the time, at its end, without arrivals, so that all earlier messages start."""

FEW, MANY = 20, 500
"""Groups of the backlog for each slot, and of the other lanes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Times:
    """Seconds of handlers: the mean, and how to draw one."""

    mean: float
    draw: Callable[[Random], float]


def even(seconds: float) -> Times:
    """Return the same time for each handler."""
    return Times(seconds, lambda _chance: seconds)


def log_normal(median: float, sigma: float, longest: float) -> Times:
    """Return times of which one in a hundred is ten times the median, with a sigma of 1."""
    mean = median * math.exp(sigma**2 / 2)
    return Times(mean, lambda chance: min(longest, median * chance.lognormvariate(0.0, sigma)))


def pareto(shortest: float, alpha: float, longest: float) -> Times:
    """Return times of which a few take most of the whole."""
    mean = shortest * alpha / (alpha - 1)
    return Times(mean, lambda chance: min(longest, shortest * chance.paretovariate(alpha)))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """
    The messages of one load, and what is expected of HIGH's p99 with slots that receive.

    Attributes:
        work: times of the handlers below the top lane.
        high_work: those of the top lane.
        high, medium: share of slot time that arrives in the top lane and in the second one.
        bursts: numbers of messages that arrive in the top lane at once; each is a case of its own.
        medium_burst: the same of the second lane, for each slot if it is a flood.
        depth: constant backlog; 0 for none.
        lanes: the lanes; by default HIGH, MEDIUM and MAIN.
        slots: numbers of slots.
        over_ideal, beyond_ideal: goals: times of the ideal scheduler's p99, and seconds beyond it.

    """

    work: Times
    high_work: Times
    high: float = 0.0
    medium: float = 0.0
    bursts: Sequence[int] = (1,)
    medium_burst: int = 1
    depth: int = 1_000
    lanes: Sequence[Mapping[str, Any]] = ()
    slots: Sequence[int] = (1, 3, 10, 50)
    over_ideal: float | None = None
    beyond_ideal: float | None = None


def _same(work: Times, **others: Any) -> Load:
    return Load(work=work, high_work=work, **others)


TWENTY: Sequence[Mapping[str, Any]] = [
    *({"name": f"LANE-{number}", "threshold": 100 - 10 * number} for number in range(19)),
    {"name": "LANE-19"},
]
ARRIVALS = (1, 5, 20)

LOADS: Mapping[str, Load] = {
    "bursts": _same(even(0.2), high=0.48, medium=0.12, bursts=(20,), over_ideal=1.1),
    "fives": _same(even(0.1), high=0.4, medium=0.12, bursts=(5,), over_ideal=1.1),
    "singles": _same(even(0.2), high=0.1, over_ideal=1.1),
    "log-normal": _same(log_normal(0.1, 1.0, 8.0), high=0.3, medium=0.15, bursts=ARRIVALS, over_ideal=1.3),
    "Pareto": Load(
        work=even(0.1), high_work=pareto(0.04, 1.3, 20.0), high=0.4, bursts=ARRIVALS, over_ideal=1.5
    ),
    "MEDIUM floods": _same(even(0.1), high=0.1, medium=0.7, medium_burst=100, beyond_ideal=0.1),
    "20 ms": _same(
        even(0.02), high=0.3, medium=0.1, bursts=(20,), depth=2_000, slots=(1, 3, 10), beyond_ideal=0.15
    ),
    "twenty lanes": _same(
        even(0.2), high=0.48, medium=1.02, bursts=(20,), lanes=TWENTY, slots=(3, 10), over_ideal=1.15
    ),
    "MAIN alone": _same(even(0.1), slots=(1, 3, 6, 10, 50)),
    "one a second": Load(work=even(0.05), high_work=even(0.05), depth=0, slots=(1, 10)),
}
"""By name. In the last one a message a second arrives in the lanes in turn, and nothing else."""


def put(load: Load, lanes: SimulatedLanes | IdealLanes, *, burst: int, seconds: float, seed: int) -> None:
    """Send a load's backlog and let the rest arrive, in bursts of this size in the top lane."""
    slots = lanes.config.consumer.reserved_concurrency
    names = [lane.name for lane in lanes.config.lanes]
    until = lanes.scheduler.now + seconds * (1 - QUIET)

    def arrivals(lane: str, times: Times, *, rate: float, burst: int) -> None:
        chance = Random(f"{lane} {seed}")  # noqa: S311 - a load, no secret

        def arrive() -> None:
            if lanes.scheduler.now < until:
                for _ in range(burst):
                    lanes.send(lane, group=f"g{chance.randrange(MANY)}", seconds=times.draw(chance))
                lanes.scheduler.after(chance.expovariate(rate / burst), arrive)

        if rate:
            lanes.scheduler.after(chance.expovariate(rate / burst), arrive)

    if not load.depth:
        for lane in names:
            arrivals(lane, load.work, rate=1 / len(names), burst=1)
        return
    Backlog(lanes, load, seed=seed).top_up()
    arrivals(names[0], load.high_work, rate=slots * load.high / load.high_work.mean, burst=burst)
    many = load.medium_burst if load.medium_burst == 1 else load.medium_burst * slots
    arrivals(names[1], load.work, rate=slots * load.medium / load.work.mean, burst=many)


class Backlog:
    """A backlog of the last lane with a constant number of messages."""

    def __init__(self, lanes: SimulatedLanes | IdealLanes, load: Load, *, seed: int) -> None:
        slots = lanes.config.consumer.reserved_concurrency
        self._lanes = lanes
        self._work = load.work
        self._depth = max(load.depth, FEW * slots)
        self._groups = FEW * slots
        self._chance = Random(f"backlog {seed}")  # noqa: S311 - a load, no secret
        self._name = lanes.config.last_lane.name
        self._sent = self._seen = self._handled = 0

    def top_up(self) -> None:
        """Replace the messages handled since the last call."""
        for place in range(self._seen, len(self._lanes.handled)):
            self._handled += self._lanes.handled[place].lane == self._name
        self._seen = len(self._lanes.handled)
        while self._sent - self._handled < self._depth:
            seconds = self._work.draw(self._chance)
            self._lanes.send(self._name, group=f"b{self._sent % self._groups}", seconds=seconds)
            self._sent += 1
        self._lanes.scheduler.after(TOP_UP, self.top_up)
