"""
The wait of the top lane, the work done below it, and the price: `python -m benchmarks.wait`.

The deployed consumer in virtual time under the loads of `benchmarks.loads`, with each engine, beside the plain pattern
with the best of its batch sizes, no priority, and an ideal scheduler without latency and calls. A wait ends with the
first start of the handler; a message without one counts with the whole time. Each row is the worst of the seeds.

`work` is the time in handlers over that without priority, `$` the price of a million messages over that of the plain
pattern, as `simulator.outcome` counts it, `requests` those of function and mappings for each message.

    python -m benchmarks.wait --load fives,Pareto --arrivals 1,5 --slots 3,10 --engine pull --seeds 3
"""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.figures import ENGINES, Figure, Row, least, most, names, numbers, parser_of, show, worst
from benchmarks.loads import LOADS, Load, put
from lanes.config import LanesConfig
from lanes.metrics import percentile
from simulator.comparison import draw_spans, write
from simulator.ideal import IdealLanes
from simulator.outcome import queue_requests, read_prices, use_of
from simulator.parameters import Unknowns, all_variants
from simulator.simulated_lanes import Pattern, SimulatedLanes

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

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
