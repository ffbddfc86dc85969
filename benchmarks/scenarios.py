"""
Loads that several benchmarks share: a constant backlog in the last lane, bursts at the top, a trickle between.

Each handled message of the backlog is replaced, so the lower lanes need every slot all the time, at any depth.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from benchmarks.patterns import deployed
from lanes.config import LanesConfig
from simulator.ideal import IdealLanes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.config import Lane
    from simulator.history import HandledLog
    from simulator.parameters import Unknowns
    from simulator.scheduler import Scheduler
    from simulator.simulated_lanes import Pattern, SimulatedLanes

TOP_UP = 0.1
"""Seconds between two refills of a constant backlog."""


SIGMA = 1.0
"""Of log-normal times: one in a hundred takes ten times the median."""

ALPHA = 1.3
"""Of Pareto times: a tenth of the records take half of the time."""

LONG, RARELY = 20.0, 200
"""Seconds of a long record, and how many others come between two of them."""


class Shape(enum.StrEnum):
    """How the times of handlers vary around a given one."""

    EVEN = "even"
    LOG_NORMAL = "log-normal"  # the given one is the mean
    PARETO = "Pareto"  # the given one is the mean, but for times over `LONG`
    RARELY_LONG = "rarely long"  # the given one, but `LONG` for one record in `RARELY`

    def drawn(self, seconds: float, chance: Random) -> float:
        """Return the time of one handler."""
        if self is Shape.LOG_NORMAL:
            return chance.lognormvariate(math.log(seconds) - SIGMA**2 / 2, SIGMA)
        if self is Shape.PARETO:
            return min(LONG, seconds * (ALPHA - 1) / ALPHA * chance.paretovariate(ALPHA))
        if self is Shape.RARELY_LONG and chance.randrange(RARELY) == 0:
            return LONG
        return seconds


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """
    The messages of a benchmark.

    Attributes:
        seconds: virtual seconds measured.
        last: share of them, at the end, without new messages in the upper lanes, so that all earlier ones start.
        depth: constant backlog of a lane; 0 for none.
        deep: place of that lane, by default the last.
        groups: its groups, in turn.
        work: seconds of a handler.
        shape: how the times of handlers below the top lane vary.
        high, medium: share of slot time needed by the top lane and the one below it.
        burst: messages that arrive in the top lane at once.
        high_groups: groups of the top lane, at random.
        high_work: seconds of a handler in the top lane.
        high_shape: how those vary.
        failing: whether a message of the top lane fails from the first second on, with others behind it in its group.

    """

    seconds: float
    last: float = 0.1
    depth: int = 1_000
    deep: int = -1
    groups: int = 60
    work: float = 0.2
    shape: Shape = Shape.EVEN
    high: float = 0.48
    medium: float = 0.12
    burst: int = 20
    high_groups: int = 500
    high_work: float = 0.2
    high_shape: Shape = Shape.EVEN
    failing: bool = False

    @property
    def alone(self) -> Load:
        """The same arrivals at the top, over empty lanes."""
        return dataclasses.replace(self, depth=0, medium=0.0)


class Lanes(Protocol):
    """Simulated or ideal lanes, as far as a load needs them."""

    @property
    def config(self) -> LanesConfig:
        """The lanes."""

    @property
    def scheduler(self) -> Scheduler:
        """Virtual time."""

    @property
    def handled(self) -> HandledLog:
        """The handled messages."""

    def send(self, lane: str, *, group: str, seconds: float, fault: str = "") -> None:
        """Send a message with this handler time."""


def simulate(
    load: Load,
    *,
    slots: int,
    pattern: Pattern,
    unknowns: Unknowns,
    seed: int,
    idempotency: bool = False,
    plain_batch: int = 1,
    lanes: Sequence[Mapping[str, Any]] = (),
) -> SimulatedLanes:
    """
    Run lanes with the default settings under a load for its time.

    Args:
        load: the messages.
        slots: the reserved concurrency.
        pattern: the consumer to run.
        unknowns: undocumented behaviour of AWS.
        seed: of arrivals and of the run.
        idempotency: the setting of that name.
        plain_batch: batch size of the plain pattern.
        lanes: their settings; by default the three of the default configuration.

    """
    raw = {"consumer": {"reserved_concurrency": slots, "idempotency": idempotency}, **_configured(lanes)}
    found = deployed(raw, pattern=pattern, unknowns=unknowns, seed=seed, plain_batch=plain_batch)
    put(load, found, seed=seed)
    found.run(seconds=load.seconds)
    return found


def ideal(
    load: Load,
    *,
    slots: int,
    seed: int,
    one_queue: bool = False,
    lanes: Sequence[Mapping[str, Any]] = (),
) -> IdealLanes:
    """Run the ideal scheduler under the same load, with a queue for each lane or one for all."""
    config = LanesConfig.from_dict({"consumer": {"reserved_concurrency": slots}, **_configured(lanes)})
    found = IdealLanes(config, one_queue=one_queue)
    put(load, found, seed=seed)
    found.run(seconds=load.seconds)
    return found


def _configured(lanes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"lanes": list(lanes)} if lanes else {}


def put(load: Load, lanes: Lanes, *, seed: int) -> None:
    """Send a load's first messages and schedule the others."""
    slots = lanes.config.consumer.reserved_concurrency
    if load.depth:
        Backlog(lanes, load, seed=seed).top_up()
    top, middle = lanes.config.lanes[:2]
    rate = slots * load.high / load.high_work / load.burst
    drawn = partial(load.high_shape.drawn, load.high_work)
    _arrivals(lanes, load, top, rate=rate, burst=load.burst, drawn=drawn, seed=f"{seed} top")
    rate, drawn = slots * load.medium / load.work, partial(load.shape.drawn, load.work)
    _arrivals(lanes, load, middle, rate=rate, burst=1, drawn=drawn, seed=f"{seed} middle")
    if load.failing:
        lanes.scheduler.after(1.0, lambda: _fail(lanes, top))


class Backlog:
    """A backlog of one lane with a constant number of messages."""

    def __init__(self, lanes: Lanes, load: Load, *, seed: int) -> None:
        self._lanes = lanes
        self._load = load
        self._chance = Random(f"{seed} backlog")  # noqa: S311 - a simulation
        self._sent = 0
        self._seen = 0
        self._handled = 0

    def top_up(self) -> None:
        """Replace the messages handled since the last call."""
        lanes, load = self._lanes, self._load
        name = lanes.config.lanes[load.deep].name
        for place in range(self._seen, len(lanes.handled)):
            self._handled += lanes.handled[place].lane == name
        self._seen = len(lanes.handled)
        while self._sent - self._handled < load.depth:
            seconds = load.shape.drawn(load.work, self._chance)
            lanes.send(name, group=f"b{self._sent % load.groups}", seconds=seconds)
            self._sent += 1
        lanes.scheduler.after(TOP_UP, self.top_up)


def _arrivals(
    lanes: Lanes,
    load: Load,
    lane: Lane,
    *,
    rate: float,
    burst: int,
    drawn: Callable[[Random], float],
    seed: str,
) -> None:
    """Let bursts arrive at random times, in random groups, at this rate per second."""
    chance = Random(seed)  # noqa: S311 - a simulation
    if not rate:
        return

    def arrive() -> None:
        for _ in range(burst):
            lanes.send(lane.name, group=f"g{chance.randrange(load.high_groups)}", seconds=drawn(chance))
        lanes.scheduler.after(chance.expovariate(rate), arrive_unless_over)

    def arrive_unless_over() -> None:
        if lanes.scheduler.now < ends_at:
            arrive()

    ends_at = lanes.scheduler.now + load.seconds * (1 - load.last)
    lanes.scheduler.after(1.0, arrive_unless_over)


def _fail(lanes: Lanes, top: Lane) -> None:
    lanes.send(top.name, group="failing", seconds=0.01, fault="always")
    for _ in range(40):
        lanes.send(top.name, group="failing", seconds=0.01)
