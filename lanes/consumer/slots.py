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

    """

    environment: str
    lane: str
    records: int
    busy: bool
    until: float
    kept: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SlotsSnapshot:
    """What an environment knows of the others at one moment: their lines, and until when lanes have parked records."""

    others: tuple[Occupation, ...] = ()
    parked_until: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def busy(self, now: float, lane: str | None = None) -> int:
        """Return how many slots the others hold, for all lanes or for one."""
        return sum(1 for line in self.others if line.busy and line.until > now and lane in (None, line.lane))

    def records_of(self, lane: str, now: float) -> int:
        """Return how many in-flight records of a lane the others account for."""
        return sum(line.records for line in self.others if line.lane == lane and line.until > now)

    def kept_some(self, lane: str, now: float) -> bool:
        """Whether records of a lane went back a moment ago."""
        return any(line.kept for line in self.others if line.lane == lane and line.until > now)


class SlotRegister(Protocol):
    """Where the environments of one function tell each other what they do."""

    def write(self, line: Occupation, *, now: float, parked_until: Mapping[str, float]) -> SlotsSnapshot:
        """Replace this environment's line and tell until when lanes are parked; return what the others say."""

    def read(self, environment: str) -> SlotsSnapshot:
        """Return what the others say."""


class SingleSlot:
    """The register of a function with one slot: no other environment runs, so nothing is asked or told."""

    def write(self, line: Occupation, *, now: float, parked_until: Mapping[str, float]) -> SlotsSnapshot:  # noqa: ARG002
        """Return that nobody else runs."""
        return SlotsSnapshot()

    def read(self, environment: str) -> SlotsSnapshot:  # noqa: ARG002
        """Return that nobody else runs."""
        return SlotsSnapshot()


def snapshot_without(
    environment: str, lines: Iterable[Occupation], parked_until: Mapping[str, float]
) -> SlotsSnapshot:
    """Build the snapshot that one environment sees from all lines."""
    return SlotsSnapshot(
        others=tuple(line for line in lines if line.environment != environment), parked_until=parked_until
    )
