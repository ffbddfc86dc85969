"""The use of slot time: handlers, calls of the consumer, Lambda's own share, and idle."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.simulated_lanes import SimulatedLanes

SPENT = ("work %", "calls %", "invoking %", "unused %")
"""Titles of the shares, for tables."""


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
