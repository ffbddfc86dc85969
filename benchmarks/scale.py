"""
Whether a message costs the same in a small and in a large system: `python -m benchmarks.scale --json`.

A backlog of MAIN from a thousand to a million messages, and in one to ten thousand groups: first alone, then under a
trickle of HIGH, to which it yields. The price is the function's number of calls to AWS, so the figures do not depend on
the machine. Alone, they measure the price of a delivery; under the trickle also the number of deliveries.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from random import Random
from typing import TYPE_CHECKING

from benchmarks.report import Findings, NotSaturatedError, Table, run
from lanes.config import LanesConfig
from simulator.simulated_lanes import Pattern, SimulatedLanes

if TYPE_CHECKING:
    from collections.abc import Iterable

SLOTS = 1
WORK = 0.2
TRICKLES = {"calm": 0.0, "trickle": 0.1}
"""Share of the slots' time that HIGH asks for, by load."""

USUAL_GROUPS = 100
SIZES = {
    "calm": (1_000, 10_000, 100_000, 1_000_000),
    "trickle": (1_000, 10_000, 50_000),
}
QUICK_SIZES = (200, 400)
MANY = 10_000
"""Messages where the number of groups varies."""

GROUPS = (1, 10, 100, 1_000, 10_000)
SEEDS = 5
"""Runs of a small size that are added up, so that chance weighs no more there than at a large one."""


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


def price(*, messages: int, groups: int, load: str, seed: int) -> Price:
    """Drain a backlog, a small one several times; return the mean price."""
    began = time.process_time()
    runs = SEEDS if max(QUICK_SIZES) < messages < MANY else 1
    calls = invocations = handled = 0
    for number in range(runs):
        lanes = drained(messages=messages, groups=groups, load=load, seed=seed + number)
        calls += sum(lanes.calls.counts.values())
        invocations += lanes.function.times.invocations
        handled += len(lanes.handled)
    micros = (time.process_time() - began) / handled * 1e6
    return Price(calls=calls / handled, invocations=invocations / handled, micros=micros)


def drained(*, messages: int, groups: int, load: str, seed: int) -> SimulatedLanes:
    """Return lanes that have handled the backlog and the trickle above it."""
    trickle = TRICKLES[load]
    raw = {"consumer": {"reserved_concurrency": SLOTS}}
    lanes = SimulatedLanes(LanesConfig.from_dict(raw), pattern=Pattern.LANES, seed=seed)
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
    if not lanes.run(seconds=messages * WORK * 10, until=lambda: len(lanes.handled) >= messages):
        raise RuntimeError(f"{messages - len(lanes.handled)} of {messages} messages were not handled")
    _require_saturated(lanes, contended=bool(urgent))
    return lanes


def _require_saturated(lanes: SimulatedLanes, *, contended: bool) -> None:
    # The backlog is there from the start, so the slots were busy all the time.
    if contended and not lanes.tally.counts["YieldedMessages"]:
        raise NotSaturatedError("no message of MAIN yielded to HIGH")
    last = lanes.handled[len(lanes.handled) - 1]
    if last.started_at - last.sent_at < WORK and not contended and last.lane == "MAIN":
        raise NotSaturatedError("the last message of the backlog did not wait")


def measure(*, quick: bool, seed: int) -> Findings:
    """Vary the number of messages, then that of groups, under both loads."""
    groups_varied = GROUPS[:2] if quick else GROUPS
    figures, rows = {}, []
    for load in TRICKLES:
        sizes = QUICK_SIZES if quick else SIZES[load]
        by_size = {size: price(messages=size, groups=USUAL_GROUPS, load=load, seed=seed) for size in sizes}
        many = sizes[-1] if quick else MANY
        by_groups = {
            groups: price(messages=many, groups=groups, load=load, seed=seed) for groups in groups_varied
        }
        figures[f"flatness_messages_{load}"] = flatness(by_size.values())
        figures[f"flatness_groups_{load}"] = flatness(by_groups.values())
        prices = [(size, USUAL_GROUPS, one) for size, one in by_size.items()]
        prices += [(many, groups, one) for groups, one in by_groups.items()]
        rows += [(load, size, groups, one.calls, one.invocations, one.micros) for size, groups, one in prices]
    figures["flatness"] = max(figures["flatness_messages_calm"], figures["flatness_groups_calm"])
    figures["flatness_under_trickle"] = max(
        figures["flatness_messages_trickle"], figures["flatness_groups_trickle"]
    )
    columns = ("above it", "messages", "groups", "calls a message", "invocations", "us of CPU")
    conditions = {"slots": SLOTS, "work_s": WORK, "trickles": TRICKLES}
    return Findings(
        figures=figures,
        tables=[Table(title="price of a message", columns=columns, rows=rows)],
        conditions=conditions,
    )


def flatness(prices: Iterable[Price]) -> float:
    """Return the worst over the best."""
    calls = [one.calls for one in prices]
    return round(max(calls) / min(calls), 3)


if __name__ == "__main__":
    sys.exit(run("scale", measure, about="Whether a message costs the same at any size."))
