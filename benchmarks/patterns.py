"""
The patterns that benchmarks compare: an engine of this product, the plain pattern, and no priority.

Their load must fill the slots: otherwise no message waits, and the figures show nothing.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from benchmarks.report import NotSaturatedError
from lanes.config import EngineName, LanesConfig
from simulator.parameters import Unknowns
from simulator.simulated_lanes import Pattern, SimulatedLanes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Found = TypeVar("Found")

PLAIN_BATCHES = (1, 2, 5, 10)
"""Batch sizes of the plain pattern: as published, and larger ones. Each figure is compared with the best one."""

PATTERNS = {EngineName.MAPPINGS: Pattern.LANES, EngineName.PULL: Pattern.PULL}
"""The simulated consumer of each engine."""

MIN_BUSY = 0.9
"""Share of the slots' time that the run without priority must have used."""

MIN_WAIT = 5.0
"""Handlers' times that half of the messages must have waited in the run without priority."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compared(Generic[Found]):
    """One load of an engine, of the plain pattern and without priority; each runs when its figures are asked for."""

    engine: EngineName
    seed: int
    unknowns: Unknowns = dataclasses.field(default_factory=Unknowns)

    @cached_property
    def ours(self) -> Found:
        """This product."""
        return self.found(PATTERNS[self.engine])

    @cached_property
    def plains(self) -> Sequence[Found]:
        """The plain pattern, by batch size."""
        return [self.found(Pattern.PLAIN, plain_batch=size) for size in PLAIN_BATCHES]

    @cached_property
    def none(self) -> Found:
        """No priority; raises `NotSaturatedError` if the load left slots unused."""
        return self.found(Pattern.NONE)

    def found(self, pattern: Pattern, *, plain_batch: int = 1) -> Found:
        """Run the load with a pattern."""
        raise NotImplementedError


def deployed(
    raw: Mapping[str, Any], *, pattern: Pattern, unknowns: Unknowns, seed: int, plain_batch: int = 1
) -> SimulatedLanes:
    """Return the lanes of a configuration, deployed for a pattern."""
    return SimulatedLanes(
        LanesConfig.from_dict(raw), pattern=pattern, unknowns=unknowns, seed=seed, plain_batch=plain_batch
    )


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
