"""
Tenant shares: the number of slots that one tenant may hold while messages of others may wait behind its own.

A mapping delivers the oldest messages first, so a tenant that sends a thousand at once is in front of everybody who
sends later, and SQS offers no look past it. Beyond its share a tenant's records are therefore parked on their first
receive, which brings the others to the front. They are woken one batch for each free slot, so a tenant may use more
than its share while the others have nothing to do.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from lanes.config.settings import MAX_RECEIVES
from lanes.consumer import telemetry as report
from lanes.consumer.interceptors import Interception
from lanes.consumer.settlement import Settlement, oldest_batches
from lanes.events import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.config import Lane
    from lanes.consumer.engines.presence import Peers
    from lanes.consumer.ledger import Entry
    from lanes.consumer.outcome import Outcome
    from lanes.consumer.records import Batch, RawRecord

# With 0 s the others' median wait is 1.0 s instead of 0.6 s, with 10 s the worst 12.8 s instead of 5.7 s.
FRESH = 2.0
"""Seconds since its sending within which a message proves that the mapping has no older ones to look past."""

# Returned after an ordinary yield's 15 to 30 s, they are in front of the others again: those waited 5.5 s in the median
# instead of 0.6 s, and 30 s at worst instead of 5.7 s (the load of `tests/simulation/test_tenants.py`).
PARKED = 60.0
"""Seconds for which such records are parked at least: they are woken much sooner."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TenantShare:
    """Parks records of tenants that hold their share of slots already."""

    peers: Peers
    settlement: Settlement

    def begin(self, batch: Batch) -> Sequence[Interception]:
        """Decide for each tenant of a batch whether its records yield."""
        lane = batch.lane
        if lane.tenant_share is None:
            return ()
        tenants: dict[str, list[RawRecord]] = {}
        for record in batch.records:
            tenants.setdefault(lane.tenant_of(record.group), []).append(record)
        yielded: dict[str, Outcome] = {}
        for tenant, records in tenants.items():
            if self._is_over_share(lane, tenant, records):
                outcome = self.settlement.delays.after_yield(lane, records, at_least=PARKED)
                yielded |= dict.fromkeys((record.message_id for record in records), outcome)
                fields = {"tenant": tenant, "delay": outcome.delay}
                report.together(self.settlement.telemetry, Event.TENANT_YIELDED, lane, records, **fields)
        return [_Yields(yielded)] if yielded else ()

    def _is_over_share(self, lane: Lane, tenant: str, records: Sequence[RawRecord]) -> bool:
        if max(record.receive_count for record in records) >= MAX_RECEIVES:
            return False
        if self.peers.busy(lane, tenant=tenant) < _most_slots(lane, self.peers):
            return False
        now = self.settlement.clock()
        return any(record.receive_count == 1 and now - record.sent_at > FRESH for record in records)


@dataclasses.dataclass(frozen=True, slots=True)
class _Yields(Interception):
    _yielded: dict[str, Outcome]

    def admit(self, record: RawRecord, entry: Entry) -> Outcome | None:
        outcome = self._yielded.get(record.message_id)
        return outcome and dataclasses.replace(outcome, entry=entry)


def _most_slots(lane: Lane, peers: Peers) -> int:
    """Return the number of slots that one tenant may hold while others may wait: at least one."""
    return max(1, math.floor((lane.tenant_share or 1.0) * min(peers.slots, lane.maximum_concurrency)))


def leaves_share(batch: Batch, peers: Peers) -> bool:
    """Whether a batch leaves a slot to a tenant that holds less than its share and may have records parked."""
    lane = batch.lane
    if lane.tenant_share is None or peers.slots == 1:
        return False
    elsewhere = peers.busy(lane, tenant=lane.tenant_of(batch.records[0].group))
    again = any(record.receive_count > 1 for record in batch.records)
    return (again or elsewhere > 0) and elsewhere < _most_slots(lane, peers)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tenants:
    """In the pull engine: the tenants of one environment's batches; used only if a lane has a `tenant_share`."""

    peers: Peers
    settlement: Settlement

    def begin(self, batch: Batch) -> None:
        """Publish that a slot serves a batch."""
        self._try(Event.SLOT_NOT_ENTERED, batch.lane, lambda: self.peers.acquire(batch))

    def end(self, batch: Batch, *, finished: int) -> None:
        """Publish that the slot is free, and wake a parked batch if its tenant has a share left."""
        self._try(Event.SLOT_NOT_LEFT, batch.lane, lambda: self.peers.release(batch, finished=finished))
        if leaves_share(batch, self.peers):
            self.wake(batch.lane)

    def wake(self, lane: Lane) -> None:
        """Wake the batch of a lane that was parked first."""
        if lane.tenant_share is not None:
            self._try(Event.WAKE_FAILED, lane, lambda: self._wake(lane))

    def _wake(self, lane: Lane) -> None:
        self.settlement.ledger.read_parked(lane.name)
        if entries := oldest_batches(self.settlement.wakeable(lane), count=1):
            self.settlement.wake(lane, entries, by=lane)

    def _try(self, problem: Event, lane: Lane, call: Callable[[], object]) -> None:
        report.tried(self.settlement.telemetry, problem, call, lane=lane.name)
