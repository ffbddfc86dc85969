"""
Loads that several benchmarks share: a standing backlog in the last lane, bursts at the top, a trickle between.

A backlog stands: what is handled is sent again, so that the lower lanes want every slot all the time, at any depth.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping  # noqa: TC003 - the types of what stands in the module
from random import Random
from typing import TYPE_CHECKING, Any

from benchmarks.held_slots import WatchedRegister
from lanes.config import LanesConfig
from simulator.world import Pattern, SimulatedLanes

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.config import Lane
    from simulator.parameters import Unknowns

ROOM: Mapping[str, Any] = {
    "consumer": {"waiting_room": True},
    "lanes": [
        {"name": "HIGH", "threshold": 50, "batch_size": 5},
        {"name": "MEDIUM", "threshold": 0},
        {"name": "MAIN"},
    ],
}
"""Batches wait for a slot in the function, and the top lane's are short (`docs/how-to/tune.md`)."""

THROTTLED: Mapping[str, Any] = {}
"""All defaults: Lambda throttles the batches for which there is no slot."""

TOP_UP = 0.1
"""Seconds between two looks at what is left of a standing backlog."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """
    What is sent while a benchmark looks.

    Attributes:
        seconds: virtual seconds looked at.
        last: share of them, at the end, in which nothing is sent to the lanes above any more: what was, is begun.
        depth: messages that the last lane always has; 0 for none.
        groups: groups among them, in turn.
        work: seconds of a handler.
        high, medium: share of all slots' time that the top lane and the one below it ask for.
        burst: messages that arrive in the top lane at once.
        high_groups: groups of the top lane, by chance.
        high_work: seconds of a handler in the top lane.
        failing: whether a message of the top lane fails from the first second on, with others behind it in its group.

    """

    seconds: float
    last: float = 0.1
    depth: int = 1_000
    groups: int = 60
    work: float = 0.2
    high: float = 0.48
    medium: float = 0.12
    burst: int = 20
    high_groups: int = 500
    high_work: float = 0.2
    failing: bool = False

    @property
    def alone(self) -> Load:
        """The same arrivals at the top, with nothing below."""
        return dataclasses.replace(self, depth=0, medium=0.0)


def meet(
    load: Load,
    *,
    slots: int,
    pattern: Pattern,
    raw: Mapping[str, Any],
    unknowns: Unknowns,
    seed: int,
    make: Callable[..., SimulatedLanes] = SimulatedLanes,
) -> SimulatedLanes:
    """
    Run lanes under a load for its time.

    Args:
        load: what is sent.
        slots: the reserved concurrency.
        pattern: whose consumer runs.
        raw: what `lanes.toml` says beside it.
        unknowns: what AWS leaves open.
        seed: of arrivals and of the run.
        make: makes the lanes.

    """
    consumer = {**raw.get("consumer", {}), "reserved_concurrency": slots}
    lanes = make(
        LanesConfig.from_dict({**raw, "consumer": consumer}), pattern=pattern, unknowns=unknowns, seed=seed
    )
    lanes.register = WatchedRegister(lanes.calls, lanes.kernel.clock)
    if load.depth:
        Backlog(lanes, load).top_up()
    top, middle = lanes.config.lanes[:2]
    rate = slots * load.high / load.high_work / load.burst
    _arrivals(lanes, load, top, rate=rate, burst=load.burst, work=load.high_work, seed=f"{seed} top")
    rate = slots * load.medium / load.work
    _arrivals(lanes, load, middle, rate=rate, burst=1, work=load.work, seed=f"{seed} middle")
    if load.failing:
        lanes.kernel.after(1.0, lambda: _fail(lanes, top))
    lanes.run(seconds=load.seconds)
    return lanes


def in_vain(lanes: SimulatedLanes) -> float:
    """Return the seconds for which slots were held by invocations that handled nothing."""
    register = lanes.register
    if lanes.config.has_waiting_room and isinstance(register, WatchedRegister):
        return register.in_vain
    return lanes.function.times.only_yielded


class Backlog:
    """Messages of the last lane that never become fewer."""

    def __init__(self, lanes: SimulatedLanes, load: Load) -> None:
        self._lanes = lanes
        self._load = load
        self._sent = 0
        self._seen = 0
        self._handled = 0

    def top_up(self) -> None:
        """Send as many as were handled since the last look."""
        lanes, name = self._lanes, self._lanes.config.last_lane.name
        for place in range(self._seen, len(lanes.handled)):
            self._handled += lanes.handled[place].lane == name
        self._seen = len(lanes.handled)
        while self._sent - self._handled < self._load.depth:
            lanes.send(name, group=f"b{self._sent % self._load.groups}", seconds=self._load.work)
            self._sent += 1
        lanes.kernel.after(TOP_UP, self.top_up)


def _arrivals(
    lanes: SimulatedLanes, load: Load, lane: Lane, *, rate: float, burst: int, work: float, seed: str
) -> None:
    """Let bursts arrive by chance, so many a second, in groups by chance."""
    chance = Random(seed)  # noqa: S311 - a simulation
    if not rate:
        return

    def arrive() -> None:
        for _ in range(burst):
            lanes.send(lane.name, group=f"g{chance.randrange(load.high_groups)}", seconds=work)
        lanes.kernel.after(chance.expovariate(rate), arrive_unless_over)

    def arrive_unless_over() -> None:
        if lanes.kernel.now < ends_at:
            arrive()

    ends_at = lanes.kernel.now + load.seconds * (1 - load.last)
    lanes.kernel.after(1.0, arrive_unless_over)


def _fail(lanes: SimulatedLanes, top: Lane) -> None:
    lanes.send(top.name, group="failing", seconds=0.01, fault="always")
    for _ in range(40):
        lanes.send(top.name, group="failing", seconds=0.01)


def quantile(ordered: list[float], share: float) -> float:
    """Return the figure below which that share of an ordered list lies."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
