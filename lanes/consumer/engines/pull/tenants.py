"""Tenant shares in the pull engine: slots publish the tenants that they serve, and wake those that were parked."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from lanes.consumer.interceptors.tenant_share import leaves_share
from lanes.consumer.settlement import oldest_batches
from lanes.errors import AwsError
from lanes.events import Event

if TYPE_CHECKING:
    from lanes.config import Lane
    from lanes.consumer.engines.presence import Peers
    from lanes.consumer.records import Batch
    from lanes.consumer.settlement import Settlement


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tenants:
    """The tenants of one environment's batches; used only if a lane has a `tenant_share`."""

    peers: Peers
    settlement: Settlement
    slots: int

    def begin(self, batch: Batch) -> None:
        """Publish that a slot serves a batch."""
        try:
            self.peers.acquire(batch)
        except AwsError:
            self.settlement.telemetry.problem(Event.SLOT_NOT_ENTERED, lane=batch.lane.name)

    def end(self, batch: Batch, *, finished: int) -> None:
        """Publish that the slot is free, and wake a parked batch if its tenant has a share left."""
        try:
            self.peers.release(batch, finished=finished)
        except AwsError:
            self.settlement.telemetry.problem(Event.SLOT_NOT_LEFT, lane=batch.lane.name)
        if leaves_share(batch, self.peers, self.slots):
            self.wake(batch.lane)

    def wake(self, lane: Lane) -> None:
        """Wake the batch of a lane that was parked first."""
        if lane.tenant_share is None:
            return
        try:
            self.settlement.ledger.read_parked(lane.name)
            entries = oldest_batches(self.settlement.wakeable(lane), count=1)
            if entries:
                self.settlement.wake(lane, entries, by=lane)
        except AwsError:
            self.settlement.telemetry.problem(Event.WAKE_FAILED, lane=lane.name)
