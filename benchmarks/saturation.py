"""Whether the load of a benchmark fills the slots: where it does not, nothing waits and nothing can be shown."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from benchmarks.report import NotSaturatedError

if TYPE_CHECKING:
    from simulator.world import SimulatedLanes

LEAST_BUSY = 0.9
"""Share of the slots' time that the run without priority must have used."""

LEAST_WAIT = 5.0
"""Handlers' times that half of the messages must have waited in the run without priority."""


def require_saturated(lanes: SimulatedLanes, *, seconds: float, work: float) -> None:
    """
    Check a run without priority: all slots at work nearly all the time, and messages that wait for them.

    Args:
        lanes: the run, at its end.
        seconds: how long it had work.
        work: seconds of one handler.

    Raises:
        NotSaturatedError: there was room.

    """
    slots = lanes.config.consumer.reserved_concurrency
    busy = sum(one.finished_at - one.started_at for one in lanes.handled) / (slots * seconds)
    if busy < LEAST_BUSY:
        raise NotSaturatedError(
            f"the {slots} slots were busy for {busy:.0%} of the time, not {LEAST_BUSY:.0%}"
        )
    waited = median(one.started_at - one.sent_at for one in lanes.handled)
    if waited < LEAST_WAIT * work:
        raise NotSaturatedError(
            f"half of the messages waited less than {waited:.2f} s, handlers take {work} s"
        )
