"""
The wait of the top lane, the work done below it, and the price: `python -m benchmarks.wait`.

The deployed consumer in virtual time under several loads, with each engine, beside the plain pattern with the best of
its batch sizes, no priority, and an ideal scheduler without latency and calls. A load is a constant backlog in one
lane, arrivals above it, and handlers of various times. Each handled message of the backlog is replaced, so the lower
lanes need every slot all the time. Rates are shares of the slots' time. A wait ends with the first start of the
handler; a message without one counts with the whole time. Each row is the worst of the seeds.

`work` is the time in handlers over that without priority, `$` the price of a million messages over that of the plain
pattern, as `simulator.outcome` counts it, `requests` those of function and mappings for each message.

    python -m benchmarks.wait --load fives,Pareto --arrivals 1,5 --slots 3,10 --engine pull --seeds 3
"""

from __future__ import annotations

import dataclasses
import math
import time
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.figures import ENGINES, Figure, Row, least, most, names, numbers, parser_of, show, worst
from lanes.config import LanesConfig
from lanes.metrics import percentile
from simulator.comparison import draw_spans, write
from simulator.outcome import queue_requests, read_prices, use_of
from simulator.parameters import Unknowns, all_variants
from simulator.patterns import IdealLanes
from simulator.simulated_lanes import Pattern, SimulatedLanes

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping, Sequence


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


PLAIN_BATCHES = (1, 2, 5, 10)
"""Batch sizes of the plain pattern, which was published with one; each figure is over that with the best p99."""

AS_GIVEN = "as given"
RANGE = (
    AS_GIVEN,
    "backoff up to 10 s",
    "throttled batches dropped",
    "returned groups at the back",
    "dropped, groups at the back",
    "throttles shrink concurrency",
    "short polls miss 1 in 10",
    "short polls miss 1 in 3",
    "receives of 25 ms",
)
"""The undocumented behaviour with the largest effects; the others of `simulator.parameters` change figures by less."""

SATURATED = 0.8
"""Share of the slots' time that the run without priority must have used, or nothing waited."""

MILLION = 1_000_000
TWICE, BETWEEN, AT_ENDS = 2, 1.2, 1.0
"""
Goal over the plain pattern: at one slot, and from twice as many slots as lanes on; and between them, where mappings
share too few slots to be without throttles.
"""
WORK = {"mappings": 0.85, "pull": 0.95}
DOLLARS = 1.1
LONGEST = 5.0
"""Goals: work over none, price over the plain pattern, and seconds of the longest wait beyond the ideal's."""


class Case(NamedTuple):
    """One run of a load, without its pattern."""

    load: str
    burst: int
    slots: int
    behaviour: str
    seed: int
    scale: float

    @property
    def seconds(self) -> float:
        """Virtual seconds: as many messages with more slots take less time."""
        return float(300 * self.scale / self.slots**0.7)


class Found(NamedTuple):
    """Waits of the top lane in seconds, share of slot time in handlers, dollars of a million, requests of a message."""

    p50: float
    p99: float
    longest: float
    work: float
    dollars: float = 0.0
    requests: float = 0.0


@cache
def found(case: Case, pattern: Pattern | None, plain_batch: int = 1) -> Found:
    """Run a case with a pattern, or with the ideal scheduler."""
    load = LOADS[case.load]
    raw: dict[str, Any] = {"consumer": {"reserved_concurrency": case.slots}}
    config = LanesConfig.from_dict(raw | ({"lanes": [*load.lanes]} if load.lanes else {}))
    if pattern is None:
        ideal = IdealLanes(config)
        put(load, ideal, burst=case.burst, seconds=case.seconds, seed=case.seed)
        ideal.run(seconds=case.seconds)
        return Found(*_waits(ideal, case), work=_work(ideal, case))
    unknowns = all_variants(Unknowns())[case.behaviour]
    lanes = SimulatedLanes(
        config, pattern=pattern, unknowns=unknowns, seed=case.seed, plain_batch=plain_batch
    )
    put(load, lanes, burst=case.burst, seconds=case.seconds, seed=case.seed)
    lanes.run(seconds=case.seconds)
    handled = max(1, len(lanes.handled))
    return Found(
        *_waits(lanes, case),
        work=_work(lanes, case),
        dollars=read_prices().cost(use_of(lanes), times=MILLION / handled),
        requests=(queue_requests(lanes).total() + lanes.function.times.invocations) / handled,
    )


def _waits(lanes: SimulatedLanes | IdealLanes, case: Case) -> tuple[float, float, float]:
    top = lanes.config.lanes[0].name
    waits = lanes.handled.waits(top)
    waits += [case.seconds] * (lanes.sent_to[top] - len(waits))
    return percentile(waits, 0.5), percentile(waits, 0.99), max(waits, default=0.0)


def _work(lanes: SimulatedLanes | IdealLanes, case: Case) -> float:
    return sum(one.finished_at - one.started_at for one in lanes.handled) / (case.slots * case.seconds)


def row_of(case: Case, engine: str) -> Row:
    """Return the figures of one case with one engine, each with its goal."""
    load, pull = LOADS[case.load], engine == "pull"
    ours, ideal, none = found(case, ENGINES[engine]), found(case, None), found(case, Pattern.NONE)
    plain = min((found(case, Pattern.PLAIN, size) for size in PLAIN_BATCHES), key=lambda one: one.p99)
    if load.depth and case.behaviour == AS_GIVEN and none.work < SATURATED:
        raise SystemExit(f"{case}: slots were busy for {none.work:.0%} of the time, so nothing is shown")
    lanes = len(load.lanes) or 3
    over_plain = BETWEEN if 1 < case.slots < TWICE * lanes else AT_ENDS
    waits: Row = {}
    if ours.p99:
        waits = {
            "p50 s": ours.p50,
            "p99 s": ours.p99,
            "ideal": ideal.p99,
            "plain": plain.p99,
            "none": none.p99,
            "over ideal": _judged(ours.p99 / ideal.p99, load.over_ideal, pull) if ideal.p99 else None,
            "beyond s": _judged(ours.p99 - ideal.p99, load.beyond_ideal, pull),
            "over plain": most(ours.p99 / plain.p99, over_plain),
            "longest s": most(max(0.0, ours.longest - ideal.longest), LONGEST),
        }
    return {
        "load": case.load,
        "bursts of": case.burst,
        "slots": case.slots,
        "AWS": case.behaviour,
        "engine": engine,
        **waits,
        "work": least(ours.work / none.work, WORK[engine]) if load.depth else None,
        "plain's": plain.work / none.work if load.depth else None,
        "$": most(ours.dollars / plain.dollars, DOLLARS),
        "requests": ours.requests,
    }


def _judged(value: float, goal: float | None, is_judged: bool) -> Figure | float:  # noqa: FBT001 - one question
    return value if goal is None or not is_judged else most(value, goal)


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """Yield the chosen cases."""
    for name in options.load:
        load: Load = LOADS[name]
        for burst in options.arrivals or load.bursts:
            for slots in options.slots or load.slots:
                for behaviour in options.aws:
                    for seed in range(options.seed, options.seed + options.seeds):
                        yield Case(name, burst, slots, behaviour, seed, options.scale)


def chart(options: argparse.Namespace, engines: list[str]) -> str:
    """Draw the waits under bursts at 1, 3 and 10 slots, of the first seed."""
    groups = {}
    for slots in (1, 3, 10):
        case = Case("bursts", 20, slots, AS_GIVEN, options.seed, options.scale)
        rows: dict[str, Pattern | None] = {"ideal": None} | {one: ENGINES[one] for one in reversed(engines)}
        spans = {name: found(case, pattern) for name, pattern in rows.items()}
        plains = (found(case, Pattern.PLAIN, size) for size in PLAIN_BATCHES)
        spans["plain pattern"] = min(plains, key=lambda one: one.p99)
        spans["no priority"] = found(case, Pattern.NONE)
        groups[f"{slots} slot{'s' * (slots > 1)}"] = {name: (one.p50, one.p99) for name, one in spans.items()}
    return draw_spans("HIGH's wait under bursts", groups)


def main(arguments: list[str] | None = None) -> None:
    """Run the chosen cases and print the worst of the seeds."""
    parser = parser_of("wait", "The wait of the top lane, the work below it, and the price.")
    parser.add_argument("--load", type=names(LOADS), default=[*LOADS], help=f"of {', '.join(LOADS)}")
    parser.add_argument(
        "--arrivals", type=numbers, help="messages that arrive at once in the top lane: 1,5,20"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="times the usual virtual time")
    parser.add_argument(
        "--aws",
        type=lambda text: list(RANGE) if text == "all" else text.split("; "),
        default=[AS_GIVEN],
        help="undocumented behaviour: all, or names of `simulator.parameters` with '; ' between them",
    )
    parser.add_argument(
        "--worst", action="store_true", help="one row for each load and engine: the worst of its cases"
    )
    parser.add_argument("--chart", type=Path, help="draw the waits under bursts into this SVG file")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    rows = [row_of(case, engine) for case in cases(options) for engine in options.engine]
    by = ["load", "engine"] if options.worst else ["load", "bursts of", "slots", "AWS", "engine"]
    if options.aws == [AS_GIVEN]:
        rows = [{column: value for column, value in row.items() if column != "AWS"} for row in rows]
    elif options.worst:
        by = [*by, "AWS"]
    if options.worst:
        # Seconds of different cases say nothing beside each other.
        rows = [{k: v for k, v in row.items() if k in by or isinstance(v, Figure)} for row in rows]
    rows = worst(rows, by=by)
    if options.chart:
        write(chart(options, options.engine), options.chart)
    took = round(time.monotonic() - began, 1)
    show("wait", rows, only_json=options.json, seed=options.seed, seeds=options.seeds, took_s=took)


if __name__ == "__main__":
    main()
