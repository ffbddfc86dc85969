"""
Fairness within a lane: how many slots one tenant may hold while messages of others may wait behind its own.

A mapping hands out the oldest messages first, so a tenant that sends a thousand at once is in front of everybody who
sends later, and nobody can look past it. Beyond its share its records are therefore parked as they come, once each,
which brings the others to the front. What was parked is woken a batch for each slot that is free, so that it stands in
nobody's way any more; then the tenant may use more than its share.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from lanes.config import Lane
    from lanes.consumer.others import Others
    from lanes.consumer.records import RawRecord

FRESH = 2.0
"""Seconds since its sending within which a message proves that nothing older waits to be looked at."""

PARKED = 60, 90
"""Seconds for which such records are parked, drawn: they are woken much sooner, and must not come all at once."""


class Fairness:
    """One environment's judgement, from what the register of slots tells of the others."""

    def __init__(self, *, slots: int, others: Others, clock: Callable[[], float]) -> None:
        self._slots = slots
        self._others = others
        self._clock = clock

    def concerns(self, lane: Lane) -> bool:
        """Whether a lane has a cap at all; alone, there is nothing to share."""
        return lane.tenant_share is not None and self._slots > 1

    def makes_way(self, lane: Lane, tenant: str, records: Sequence[RawRecord]) -> bool:
        """Whether a tenant's records of one batch make way."""
        if self._others.busy_with(lane, tenant) < self.most(lane):
            return False
        now = self._clock()
        return any(record.receive_count == 1 and now - record.sent_at > FRESH for record in records)

    def parked_for(self, random: Random) -> int:
        """Return for how many seconds records are parked that make way."""
        return random.randint(*PARKED)

    def most(self, lane: Lane) -> int:
        """Return how many slots one tenant may hold while others may wait: at least one."""
        slots = min(self._slots, lane.maximum_concurrency)
        return max(1, math.floor((lane.tenant_share or 1.0) * slots))
