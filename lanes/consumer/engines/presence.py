"""
Presence: what the environments of one function tell each other about their slots.

AWS does not publish how many environments of a function are busy, or with which queue's records. With one slot there
are no peers. With several, each environment publishes a presence record when it acquires its slot and when it
releases it, so that counts in flight can be told apart from records that wait for a slot.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol

from lanes.consumer.engines.backlog import UNDELETED
from lanes.consumer.records import BEYOND, Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from lanes.config import Lane


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """
    One environment's presence record.

    Attributes:
        records: records of the lane that it has in flight.
        busy: whether it has a slot; after an invocation its finished records stay in flight until deleted.
        until: epoch seconds after which the slot is free (the invocation's deadline), or the deletion.
        tenant: the tenant of its records, in a lane with a `tenant_share`.

    """

    environment: str
    lane: str
    records: int
    busy: bool
    until: float
    tenant: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PresenceSnapshot:
    """The peers' presence records at one moment, and until when lanes have parked records."""

    peers: tuple[Presence, ...] = ()
    parked_until: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @classmethod
    def for_environment(
        cls, environment: str, records: Iterable[Presence], parked_until: Mapping[str, float]
    ) -> PresenceSnapshot:
        """Return the snapshot of one environment, without its own record."""
        peers = tuple(record for record in records if record.environment != environment)
        return cls(peers=peers, parked_until=parked_until)


class PresenceTable(Protocol):
    """The slot table: where the environments of one function publish. Every method raises `AwsError`."""

    def publish(self, record: Presence, *, now: float, parked_until: Mapping[str, float]) -> PresenceSnapshot:
        """Replace this environment's record and the given times of parked lanes; return the peers' state."""

    def read(self, environment: str) -> PresenceSnapshot:
        """Return the peers' state."""


@dataclasses.dataclass(slots=True, eq=False, kw_only=True)
class Peers:
    """The other environments of the function, as `seen` when this one last wrote or read the table; none if `alone`."""

    slots: int
    table: PresenceTable | None
    environment: str
    clock: Callable[[], float]
    seen: PresenceSnapshot = dataclasses.field(default_factory=PresenceSnapshot)
    alone: bool = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        # With one slot there are none, and nothing is published or read.
        self.alone = self.table is None

    def acquire(self, batch: Batch) -> None:
        """Publish that this environment has a slot for a batch; raises `AwsError`."""
        # The deadline: after a crash the record misleads its peers no longer than that.
        self._publish(batch, records=len(batch.records), busy=True, lasts=batch.seconds_left)

    def release(self, batch: Batch, *, finished: int, parked_for: float = 0.0) -> None:
        """
        Publish that the slot is free, and how many records are finished but not deleted; raises `AwsError`.

        The other records are about to be parked for `parked_for` seconds at most.
        """
        self._publish(batch, records=finished, busy=False, lasts=UNDELETED, parked_for=parked_for)

    def _publish(
        self, batch: Batch, *, records: int, busy: bool, lasts: float, parked_for: float = 0.0
    ) -> None:
        if self.table is None:
            return
        lane, now = batch.lane, self.clock()
        # The first record's tenant is published for all.
        tenant = lane.tenant_of(batch.records[0].group) if lane.tenant_share is not None else ""
        record = Presence(
            environment=self.environment,
            lane=lane.name,
            records=records,
            busy=busy,
            until=now + lasts,
            tenant=tenant,
        )
        # In the same write, before they are parked: the invocation that ends next may be the last that can wake them.
        # Published in the next write, 15 messages took up to 31 s instead of 3 s at two slots
        # (docs/decisions.md#a-slot-table).
        is_news = now + parked_for > max(now, self.seen.parked_until.get(lane.name, 0.0))
        parked_until = {lane.name: now + parked_for} if is_news else {}
        self.seen = self.table.publish(record, now=now, parked_until=parked_until)

    def refresh(self) -> None:
        """Read the peers' state; raises `AwsError`."""
        if self.table is not None:
            self.seen = self.table.read(self.environment)

    def free_slots(self) -> int:
        """Return the slots without an environment, the asking one's left out."""
        return max(0, self.slots - 1 - sum(record.busy for record in self._now()))

    def busy(self, lane: Lane, *, tenant: str | None = None) -> int:
        """Return how many slots the peers have for a lane, or for one tenant's records of it."""
        return sum(record.busy and tenant in (None, record.tenant) for record in self._now(lane))

    def in_flight(self, lane: Lane) -> int:
        """Return how many in-flight records of a lane the peers have, just finished, or orphaned by a crash."""
        return sum(record.records for record in self._now(lane, dying=BEYOND))

    def _now(self, lane: Lane | None = None, *, dying: float = 0.0) -> Iterator[Presence]:
        """Yield the records that hold now, those of busy slots for some seconds more; of one lane if it is given."""
        now = self.clock()
        for record in self.seen.peers:
            is_of_lane = lane is None or record.lane == lane.name
            if is_of_lane and record.until + (dying if record.busy else 0.0) > now:
                yield record
