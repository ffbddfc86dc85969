"""Play a scenario to its end: its messages arrive at simulated lanes."""

from __future__ import annotations

import math
from random import Random
from typing import TYPE_CHECKING

from .simulated_lanes import Pattern, SimulatedLanes

if TYPE_CHECKING:
    from lanes.config import LanesConfig

    from .parameters import Unknowns
    from .scenario import Arrivals, Scenario

SETTLED_EVERY = 1.0
"""Seconds between two checks for the end, after the last arrival."""


def play(
    scenario: Scenario,
    config: LanesConfig,
    *,
    pattern: Pattern = Pattern.LANES,
    unknowns: Unknowns | None = None,
) -> SimulatedLanes:
    """
    Return the lanes when no message is left, or when the time is over.

    Arrivals are the same for all patterns and unknowns, so you can compare runs message by message.
    """
    lanes = SimulatedLanes(
        config,
        pattern=pattern,
        unknowns=unknowns or scenario.unknowns,
        faults=scenario.faults,
        seed=scenario.seed,
    )
    lanes.away = scenario.is_away
    ends_at = lanes.scheduler.now + scenario.duration.total_seconds()
    for lane, arrivals in scenario.arrivals.items():
        Source(lanes, lane, arrivals, chance=Random(f"{lane} {scenario.seed}"), ends_at=ends_at).start()  # noqa: S311
    lanes.run(seconds=scenario.duration.total_seconds())
    for _ in range(math.ceil(scenario.drain.total_seconds() / SETTLED_EVERY)):
        if lanes.done + lanes.dead >= lanes.sent and not lanes.left:
            break
        lanes.run(seconds=SETTLED_EVERY)
    return lanes


class Source:
    """The producers of one lane."""

    def __init__(
        self, lanes: SimulatedLanes, lane: str, arrivals: Arrivals, *, chance: Random, ends_at: float
    ) -> None:
        self._lanes = lanes
        self._lane = lane
        self._arrivals = arrivals
        self._chance = chance
        self._ends_at = ends_at
        self._sent = 0

    def start(self) -> None:
        """Send the backlog and let the rest arrive."""
        for _ in range(self._arrivals.backlog):
            self._send()
        self._next()

    def _next(self) -> None:
        """One event at a time, so that a million arrivals need no memory before they happen."""
        if not self._arrivals.rate:
            return
        wait = self._chance.expovariate(self._arrivals.rate / self._arrivals.burst)
        if self._lanes.scheduler.now + wait <= self._ends_at:
            self._lanes.scheduler.after(wait, self._arrive)

    def _arrive(self) -> None:
        for _ in range(self._arrivals.burst):
            self._send()
        self._next()

    def _send(self) -> None:
        arrivals, chance = self._arrivals, self._chance
        self._sent += 1
        group = chance.randrange(arrivals.groups) if arrivals.groups else self._sent
        seconds = arrivals.service.total_seconds()
        if arrivals.spread:
            seconds *= chance.lognormvariate(0.0, arrivals.spread)
        fate = chance.random()
        fault = ""
        if fate < arrivals.failing + arrivals.flaky:
            fault = "always" if fate < arrivals.failing else "once"
        self._lanes.send(self._lane, group=f"{self._lane}-{group}", seconds=seconds, fault=fault)
