"""
The register of slots: which invocations run at this moment, told by themselves.

AWS tells nobody how many environments of a function are busy, and with which queue's records. With one slot there
is nothing to tell: whoever asks runs alone. With several, each invocation enters itself and leaves when it has
decided to, so that counts in flight can be told from records that wait for a slot.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Occupation:
    """
    One environment's line in the register.

    Attributes:
        records: how many records of the lane it has in flight.
        busy: whether it holds a slot; after an invocation its done records stay in flight until deleted.
        until: epoch seconds after which the line means nothing (the invocation's deadline, or the deletion).
        kept: how many records went back with it; the ledger may not say yet until when.
        waiting_since: since when it waits for a slot in the waiting room, in epoch seconds; 0 if it doesn't. A moment
            to come keeps a place for a batch of its lane that is expected by then: whoever is in line comes before.
        rank: place of its lane in the order of lanes; -1 for overdue records that go before all.
        tenant: whose records it has, in a lane with a `tenant_share`.
        slot: the slot that it has taken from the waiting room.
        ends_about: when it is likely to give that back, in epoch seconds; 0 where it can't tell.

    """

    environment: str
    lane: str
    records: int
    busy: bool
    until: float
    kept: int = 0
    waiting_since: float = 0.0
    rank: int = 0
    tenant: str = ""
    slot: int | None = None
    ends_about: float = 0.0

    def waits(self, now: float) -> bool:
        """Whether it waits for a slot at this moment."""
        return self.waiting_since > 0 and self.until > now

    def goes_before(self, other: Occupation) -> bool:
        """Whether this one is to have a slot before another that waits: by lane, then by age."""
        mine = self.rank, self.waiting_since, self.environment
        return mine < (other.rank, other.waiting_since, other.environment)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SlotsSnapshot:
    """
    What an environment knows of the others at one moment.

    Attributes:
        others: their lines.
        parked_until: until when lanes have parked records.
        taken: until when each slot belongs to somebody, where slots are taken from the waiting room.

    """

    others: tuple[Occupation, ...] = ()
    parked_until: Mapping[str, float] = dataclasses.field(default_factory=dict)
    taken: Mapping[int, float] = dataclasses.field(default_factory=dict)

    def without(self, slot: int) -> SlotsSnapshot:
        """Return the same with one slot free."""
        return dataclasses.replace(
            self, taken={key: until for key, until in self.taken.items() if key != slot}
        )

    def busy(self, now: float, lane: str | None = None) -> int:
        """Return how many slots the others hold, for all lanes or for one."""
        return sum(1 for line in self.others if line.busy and line.until > now and lane in (None, line.lane))

    def busy_with(self, lane: str, tenant: str, now: float) -> int:
        """Return how many slots the others hold for one tenant's records of a lane."""
        return sum(
            1
            for line in self.others
            if line.busy and line.until > now and (line.lane, line.tenant) == (lane, tenant)
        )

    def records_of(self, lane: str, now: float) -> int:
        """Return how many in-flight records of a lane the others account for."""
        return sum(line.records for line in self.others if line.lane == lane and line.until > now)

    def waiting(self, now: float, lane: str) -> int:
        """Return how many invocations of a lane wait for a slot in the waiting room; one that is expected does not."""
        return sum(
            1 for line in self.others if line.lane == lane and line.waits(now) and line.waiting_since <= now
        )

    def kept_some(self, lane: str, now: float) -> bool:
        """Whether records of a lane went back a moment ago."""
        return any(line.kept for line in self.others if line.lane == lane and line.until > now)


class SlotRegister(Protocol):
    """Where the environments of one function tell each other what they do."""

    def write(
        self, line: Occupation, *, now: float, parked_until: Mapping[str, float], frees: int | None = None
    ) -> SlotsSnapshot:
        """
        Replace this environment's line and tell until when lanes are parked; return what the others say.

        Args:
            line: what this environment does.
            now: epoch seconds.
            parked_until: by lane, where that is new.
            frees: the slot that this environment had taken and gives back.

        """

    def take(
        self, line: Occupation, slot: int, *, now: float, parked_until: Mapping[str, float]
    ) -> SlotsSnapshot | None:
        """
        Take a slot until the line ends and replace the line; return None, with nothing changed, if somebody has it.

        What an environment holds already it may take again: an answer may have been lost.
        """

    def read(self, environment: str) -> SlotsSnapshot:
        """Return what the others say."""


class SingleSlot:
    """The register of a function with one slot: no other environment runs, so nothing is asked or told."""

    def write(
        self,
        line: Occupation,  # noqa: ARG002
        *,
        now: float,  # noqa: ARG002
        parked_until: Mapping[str, float],  # noqa: ARG002
        frees: int | None = None,  # noqa: ARG002
    ) -> SlotsSnapshot:
        """Return that nobody else runs."""
        return SlotsSnapshot()

    def take(
        self,
        line: Occupation,  # noqa: ARG002
        slot: int,  # noqa: ARG002
        *,
        now: float,  # noqa: ARG002
        parked_until: Mapping[str, float],  # noqa: ARG002
    ) -> SlotsSnapshot:
        """Return that nobody else runs: whoever runs has the slot."""
        return SlotsSnapshot()

    def read(self, environment: str) -> SlotsSnapshot:  # noqa: ARG002
        """Return that nobody else runs."""
        return SlotsSnapshot()


def snapshot_without(
    environment: str,
    lines: Iterable[Occupation],
    parked_until: Mapping[str, float],
    taken: Mapping[int, float] | None = None,
) -> SlotsSnapshot:
    """Build the snapshot that one environment sees from all lines."""
    return SlotsSnapshot(
        others=tuple(line for line in lines if line.environment != environment),
        parked_until=parked_until,
        taken=taken or {},
    )
