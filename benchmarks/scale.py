"""
Whether a message costs the same in a small and in a large system: `python -m benchmarks.scale --json`.

A backlog of MAIN from a thousand to a hundred thousand messages, and in one to ten thousand groups: first alone, then
under a trickle of HIGH, to which it yields. The price is the function's number of calls to AWS, so the figures do not
depend on the machine. Alone, they measure the price of a delivery; under the trickle also the number of deliveries.
Seeds after the first, and the range, have backlogs of 500 and 2,000. A small backlog is drained five times, in the
range twice.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from random import Random
from typing import TYPE_CHECKING

from benchmarks.patterns import PATTERNS, deployed, require_overtaken
from benchmarks.report import Findings, NotSaturatedError, Table, run_engine
from simulator.parameters import Unknowns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lanes.config import EngineName
    from simulator.simulated_lanes import Pattern, SimulatedLanes

SLOTS = 1
WORK = 0.2
DROPPED = 36_000.0
"""Virtual seconds more than any drain needs, but where a throttled batch is dropped for its visibility timeout."""
TRICKLES = {"calm": 0.0, "trickle": 0.1}
"""Share of the slots' time that HIGH asks for, by load."""

USUAL_GROUPS = 100
SIZES = {
    "calm": (1_000, 10_000, 100_000),
    "trickle": (1_000, 10_000, 50_000),
}
QUICK_SIZES = (200, 400)
RANGE_SIZES = (500, 2_000)
MANY = 10_000
"""Messages where the number of groups varies."""

GROUPS = (1, 10, 100, 1_000, 10_000)
RANGE_GROUPS = (1, 100, 500)
SEEDS, RANGE_SEEDS = 5, 2
"""Runs of a small size that are added up, so that chance weighs no more than at a large one; fewer in the range."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """
    Price of a message.

    Attributes:
        calls: to AWS by the function, a message.
        invocations: a message.
        micros: microseconds of CPU, the simulator's own included: for the reader, not judged.

    """

    calls: float
    invocations: float
    micros: float


def price(
    *,
    messages: int,
    groups: int,
    load: str,
    pattern: Pattern,
    seed: int,
    unknowns: Unknowns | None = None,
) -> Price:
    """Drain a backlog, a small one several times; return the mean price."""
    began = time.process_time()
    several = SEEDS if unknowns is None else RANGE_SEEDS
    runs = several if max(QUICK_SIZES) < messages < MANY else 1
    calls = invocations = handled = 0
    for number in range(runs):
        lanes = drained(
            messages=messages,
            groups=groups,
            load=load,
            pattern=pattern,
            seed=seed + number,
            unknowns=unknowns or Unknowns(),
        )
        calls += sum(lanes.calls.counts.values())
        invocations += lanes.function.times.invocations
        handled += len(lanes.handled)
    micros = (time.process_time() - began) / handled * 1e6
    return Price(calls=calls / handled, invocations=invocations / handled, micros=micros)


def drained(
    *, messages: int, groups: int, load: str, pattern: Pattern, seed: int, unknowns: Unknowns
) -> SimulatedLanes:
    """Return lanes that have handled the backlog and the trickle above it."""
    trickle = TRICKLES[load]
    raw = {"consumer": {"reserved_concurrency": SLOTS}}
    lanes = deployed(raw, pattern=pattern, unknowns=unknowns, seed=seed)
    backlog = round(messages * (1 - trickle))
    urgent = messages - backlog
    for number in range(backlog):
        lanes.send("MAIN", group=f"m{number % groups}", seconds=WORK)
    chance = Random(seed)  # noqa: S311 - a simulation

    def send_urgent(left: int) -> None:
        lanes.send("HIGH", group=f"h{left % 100}", seconds=WORK)
        if left > 1:
            wait = chance.expovariate(trickle * SLOTS / WORK)
            lanes.scheduler.after(wait, lambda: send_urgent(left - 1))

    if urgent:
        lanes.scheduler.after(WORK, lambda: send_urgent(urgent))
    if not lanes.run(seconds=messages * WORK * 10 + DROPPED, until=lambda: len(lanes.handled) >= messages):
        raise RuntimeError(f"{messages - len(lanes.handled)} of {messages} messages were not handled")
    _require_saturated(lanes, contended=bool(urgent))
    return lanes


def _require_saturated(lanes: SimulatedLanes, *, contended: bool) -> None:
    # The backlog is there from the start, so the slots were busy all the time.
    if contended:
        require_overtaken(lanes)
    last = lanes.handled[len(lanes.handled) - 1]
    if last.started_at - last.sent_at < WORK and not contended and last.lane == "MAIN":
        raise NotSaturatedError("the last message of the backlog did not wait")


def measure(*, engine: EngineName, quick: bool, seed: int) -> Findings:
    """Vary the number of messages, then that of groups, under both loads."""
    groups_varied = GROUPS[:2] if quick else GROUPS
    prices: dict[tuple[str, int, int], Price] = {}
    for load in TRICKLES:
        sizes = QUICK_SIZES if quick else SIZES[load]
        cases = [(size, USUAL_GROUPS) for size in sizes]
        cases += [(sizes[-1] if quick else MANY, groups) for groups in groups_varied]
        for messages, groups in dict.fromkeys(cases):
            prices[load, messages, groups] = price(
                messages=messages, groups=groups, load=load, pattern=PATTERNS[engine], seed=seed
            )
    rows = [(*case, one.calls, one.invocations, one.micros) for case, one in prices.items()]
    columns = ("above it", "messages", "groups", "calls a message", "invocations", "us of CPU")
    return Findings(
        figures=_flatnesses(prices, many=QUICK_SIZES[-1] if quick else MANY),
        tables=[Table(title="price of a message", columns=columns, rows=rows)],
        conditions={"slots": SLOTS, "work_s": WORK, "trickles": TRICKLES},
    )


def judge(
    *, engine: EngineName, quick: bool, seed: int, unknowns: Unknowns | None = None
) -> dict[str, float]:
    """Return the figures at smaller sizes, as given or under one behaviour."""
    sizes = QUICK_SIZES if quick else RANGE_SIZES
    cases = {(size, USUAL_GROUPS) for size in sizes} | {(sizes[-1], groups) for groups in RANGE_GROUPS}
    prices = {
        (load, messages, groups): price(
            messages=messages,
            groups=groups,
            load=load,
            pattern=PATTERNS[engine],
            seed=seed,
            unknowns=unknowns,
        )
        for load in TRICKLES
        for messages, groups in cases
    }
    return _flatnesses(prices, many=sizes[-1])


def _flatnesses(prices: Mapping[tuple[str, int, int], Price], *, many: int) -> dict[str, float]:
    """Return the figures: over the numbers of messages, over those of groups at `many` messages, and the worst."""
    figures = {}
    for load, name in (("calm", "flatness"), ("trickle", "flatness_under_trickle")):
        mine = {case[1:]: one for case, one in prices.items() if case[0] == load}
        by_size = flatness(one for (_, groups), one in mine.items() if groups == USUAL_GROUPS)
        by_groups = flatness(one for (messages, _), one in mine.items() if messages == many)
        figures |= {name: max(by_size, by_groups)}
        figures |= {f"flatness_messages_{load}": by_size, f"flatness_groups_{load}": by_groups}
    return figures


def flatness(prices: Iterable[Price]) -> float:
    """Return the worst over the best."""
    calls = [one.calls for one in prices]
    return round(max(calls) / min(calls), 3)


if __name__ == "__main__":
    sys.exit(run_engine("scale", measure, judge=judge, about="Whether a message costs the same at any size."))
