"""The patterns that benchmarks compare: an engine of this product, the plain pattern, and no priority."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.config import EngineName, LanesConfig
from simulator.simulated_lanes import Pattern, SimulatedLanes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simulator.parameters import Unknowns


PLAIN_BATCHES = (1, 2, 5, 10)
"""Batch sizes of the plain pattern: as published, and larger ones. Each figure is compared with the best one."""

PATTERNS = {EngineName.MAPPINGS: Pattern.LANES, EngineName.PULL: Pattern.PULL}
"""The simulated consumer of each engine."""


def deployed(
    raw: Mapping[str, Any], *, pattern: Pattern, unknowns: Unknowns, seed: int, plain_batch: int = 1
) -> SimulatedLanes:
    """Return the lanes of a configuration, deployed for a pattern."""
    return SimulatedLanes(
        LanesConfig.from_dict(raw), pattern=pattern, unknowns=unknowns, seed=seed, plain_batch=plain_batch
    )
