"""What the time of the slots went into: handlers, calls of the consumer, Lambda's own share, and nothing."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.world import SimulatedLanes

SPENT = ("work %", "calls %", "invoking %", "unused %")
"""Titles of the shares, for tables."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """
    Shares of all slots' time in per cent.

    With a waiting room only `work` is told: the others would count what invocations without a slot do.

    Attributes:
        work: handlers that succeeded.
        calls: the consumer waited for its own calls, or a handler failed.
        invoking: starting an invocation and taking its answer.
        unused: nobody held the slot.

    """

    work: float
    calls: float | None = None
    invoking: float | None = None
    unused: float | None = None


def spent(lanes: SimulatedLanes, *, seconds: float) -> Spent:
    """Divide the slots' time of a run that lasted so many seconds."""
    whole = lanes.config.consumer.reserved_concurrency * seconds / 100
    work = sum(one.finished_at - one.started_at for one in lanes.handled) / whole
    if lanes.config.has_waiting_room:
        return Spent(work=work)
    held = lanes.function.times.invoked / whole
    invoking = lanes.function.times.invocations * 2 * lanes.unknowns.invoke / whole
    return Spent(work=work, calls=max(0.0, held - work - invoking), invoking=invoking, unused=100 - held)
