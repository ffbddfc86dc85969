"""Waking: parked records return as soon as the lanes above have no backlog, instead of when their parking ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.consumer.interceptors.tenant_share import leaves_share
from lanes.consumer.records import SETTLING
from lanes.consumer.settlement import oldest_batches

if TYPE_CHECKING:
    from lanes.config import Lane, LanesConfig
    from lanes.consumer.engines.mapped.check import BacklogCheck
    from lanes.consumer.engines.presence import Peers
    from lanes.consumer.ledger import Entry
    from lanes.consumer.outcome import Outcomes
    from lanes.consumer.records import Batch
    from lanes.consumer.settlement import Settlement

# Waking comes before the answer: if Lambda kills the function in it, finished records return. A fifth of the default
# timeout is 6 s; a call that times out and its repeat take 4 s (`consumer_config`).
WAKING_SHARE = 0.2
"""Share of the function timeout that must be left to wake others."""

MOST_BATCHES = 100 // 10
"""AWS: a transaction has at most 100 items (TransactWriteItems) and a batch 10 records; beyond, it would be two."""


class Waker:
    """
    Wakes parked batches at the end of an invocation.

    Safe in every order: records are first recorded as no longer parked, all or none and only if no other environment
    did so before; then they become visible. If that second step fails, they return when their parking ends.
    """

    def __init__(
        self,
        *,
        config: LanesConfig,
        check: BacklogCheck,
        peers: Peers,
        settlement: Settlement,
    ) -> None:
        timeout = config.consumer.function_timeout.total_seconds()
        self._needed = max(2 * SETTLING, WAKING_SHARE * timeout)
        self._slots = config.consumer.reserved_concurrency
        self._last_lane = config.last_lane
        # Nothing has priority over the highest lane, but its tenants may yield to each other.
        self._lanes = config.lanes if config.lanes[0].tenant_share is not None else config.lanes[1:]
        self._check = check
        self._peers = peers
        self._ledger = settlement.ledger
        self._settlement = settlement

    def wake(self, batch: Batch, outcomes: Outcomes) -> None:
        """
        Wake the oldest parked batches of the highest lane that has any, if no lane above it has a backlog.

        Left out after a yield, and if it might delay the answer. After an `AwsError` the records return by themselves.
        """
        self._check.finish(batch, outcomes.finished)
        if outcomes.has_yielded or batch.milliseconds_left() / 1000 <= self._needed:
            return
        self._check.look_back(batch.lane)
        parked = self._ledger.lanes_with_parked(self._peers.seen.parked_until)
        for lane in self._lanes:
            if lane.name in parked and self._wakeable(lane):
                if not self._check.has_backlog_above(lane):
                    self._wake_lane(lane, batch)
                return

    def has_time(self, batch: Batch, *, after: float) -> bool:
        """Whether there is time to wake the parked records after so many seconds, or none is parked."""
        enough = batch.seconds_left - after > self._needed
        parked = self._ledger.lanes_with_parked(self._peers.seen.parked_until)
        return enough or parked.isdisjoint(lane.name for lane in self._lanes)

    def _wakeable(self, lane: Lane) -> list[Entry]:
        """
        Return parked records of a lane that may be woken, at least those of as many batches as are woken.

        Alone, this environment parked all that can be woken. No lane yields to the last one, so only the first of its
        parked records are read.
        """
        if not self._peers.alone:
            if not self._settlement.wakeable(lane):
                # A peer may have parked some after the last reading, and may be the last to end before this one.
                self._ledger.expire_parked(lane.name)
            limit = lane.batch_size * (self._batches + 1) if lane == self._last_lane else None
            self._ledger.read_parked(lane.name, limit=limit)
        return self._settlement.wakeable(lane)

    @property
    def _batches(self) -> int:
        """One for each free slot, and one for the slot of the invocation that ends."""
        # More would be throttled, and a throttled mapping backs off (docs/decisions/0004-concurrency.md).
        return min(self._peers.free_slots() + 1, MOST_BATCHES)

    def _wake_lane(self, lane: Lane, batch: Batch) -> None:
        batches = self._batches
        if lane.tenant_share is not None and self._check.has_visible(lane):
            # A tenant's parked records are older, and would come in front of those that others wait for.
            batches = int(lane == batch.lane and leaves_share(batch, self._peers, self._slots))
        # Again, if another environment was faster with one of them.
        for _ in range(2 if batches else 0):
            entries = oldest_batches(self._wakeable(lane), count=batches)
            if not entries or self._settlement.wake(lane, entries, by=batch.lane):
                return
