"""The patterns that benchmarks compare: an engine of this product, the plain pattern, and no priority."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lanes.config import EngineName, LanesConfig
from simulator.simulated_lanes import Pattern, SimulatedLanes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simulator.parameters import Unknowns


PLAIN_BATCHES = (1, 10)
"""Batch sizes of the plain pattern: as published, and the largest. Each figure is compared with the better one."""

PLAIN_VISIBILITY = timedelta(seconds=30)
"""Of its queues: that of SQS by default, for which a yielded record is away."""


PATTERNS = {EngineName.MAPPINGS: Pattern.LANES, EngineName.PULL: Pattern.PULL}
"""The simulated consumer of each engine."""


def deployed(
    raw: Mapping[str, Any], *, pattern: Pattern, unknowns: Unknowns, seed: int, plain_batch: int = 1
) -> SimulatedLanes:
    """Return the lanes of a configuration, deployed for a pattern."""
    config = LanesConfig.from_dict(raw)
    if pattern is Pattern.PLAIN:
        lanes = [dataclasses.replace(lane, visibility_timeout=PLAIN_VISIBILITY) for lane in config.lanes]
        config = dataclasses.replace(config, lanes=tuple(lanes))
    return SimulatedLanes(config, pattern=pattern, unknowns=unknowns, seed=seed, plain_batch=plain_batch)
