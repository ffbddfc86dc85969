"""Check that the load of a benchmark fills the slots: otherwise no message waits, and its figures show nothing."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from benchmarks.report import NotSaturatedError

if TYPE_CHECKING:
    from simulator.simulated_lanes import SimulatedLanes

MIN_BUSY = 0.9
"""Share of the slots' time that the run without priority must have used."""

MIN_WAIT = 5.0
"""Handlers' times that half of the messages must have waited in the run without priority."""


def require_saturated(lanes: SimulatedLanes, *, seconds: float, work: float) -> None:
    """
    Check a run without priority: all slots are busy nearly all the time, and messages wait for them.

    Args:
        lanes: the run, at its end.
        seconds: time with work.
        work: seconds of one handler.

    Raises:
        NotSaturatedError: slots were free.

    """
    slots = lanes.config.consumer.reserved_concurrency
    busy = sum(one.finished_at - one.started_at for one in lanes.handled) / (slots * seconds)
    if busy < MIN_BUSY:
        raise NotSaturatedError(f"the {slots} slots were busy for {busy:.0%} of the time, not {MIN_BUSY:.0%}")
    waited = median(one.first_started_at - one.sent_at for one in lanes.handled)
    if waited < MIN_WAIT * work:
        raise NotSaturatedError(
            f"half of the messages waited less than {waited:.2f} s, handlers take {work} s"
        )


def require_overtaken(lanes: SimulatedLanes) -> None:
    """
    Check a run with priority: a message of the top lane was handled before an older one of a lower lane.

    Raises:
        NotSaturatedError: none was, so the load shows nothing about priority.

    """
    top, youngest = lanes.config.lanes[0].name, float("-inf")
    for one in lanes.handled:
        if one.lane == top:
            youngest = max(youngest, one.sent_at)
        elif one.sent_at < youngest:
            return
    raise NotSaturatedError(f"no message of {top} overtook one of a lower lane")
