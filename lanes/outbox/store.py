"""
What a relay and operators need of a database.

Every store keeps three orders, each as an index that holds nothing else:

- ready: candidates in claim order, priority descending, then age, then id;
- timers: entries that are looked at again at a time, be it the next attempt, the end of a lock or of parking;
- chains: unfinished entries of each group and lane by age.

A claim first makes what is due ready, then reads candidates from the top of `ready`, holds those with a group
against their chain, locks the ones that may go and parks the others. So an entry that can't go, since an earlier one
of its group waits for its retry, costs one look and is off the top of `ready` until that one is finished.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from lanes.outbox.entry import Entry, EntryState
    from lanes.outbox.rules import LaneShare, Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """
    What one claim brought.

    Attributes:
        entries: locked now, in the order in which they are to be sent.
        ripened: how many entries were due and became candidates again.
        parked: how many candidates wait for an earlier one of their group.
        taken_over: how many of the ripened had been locked by a relay that did not finish them.
        missed: how many candidates another relay took first.
    """

    entries: tuple[Entry, ...] = ()
    ripened: int = 0
    parked: int = 0
    taken_over: int = 0
    missed: int = 0

    @property
    def is_idle(self) -> bool:
        """Whether another claim right now would find nothing either."""
        return not (self.entries or self.ripened or self.parked or self.missed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """
    How an outbox stands.

    Attributes:
        counts: entries by state.
        oldest_at: when the oldest unfinished entry was written; None where there is none.
        is_complete: False where counting stopped at its limit, so that the counts are at least these.
    """

    counts: Mapping[EntryState, int]
    oldest_at: float | None = None
    is_complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """
    Who changed what and when.

    Attributes:
        action: `prioritize`, `cancel` or `retry`.
        who: name of the operator.
        at: epoch seconds.
        filter: what was asked for, in words.
        before: priorities of the changed entries before, lowest and highest, in words.
        after: what they became.
        changed: how many.
    """

    action: str
    who: str
    at: float
    filter: str
    before: str
    after: str
    changed: int


class RelayStore(Protocol):
    """The relay's side of a store."""

    def claim(
        self, shares: Sequence[LaneShare], *, owner: str, now: float, locked_until: float, limit: int
    ) -> Claim:
        """
        Lock the next entries for one relay.

        Args:
            shares: priorities to claim from, the most urgent first.
            owner: name of this claim, never used before.
            now: the time.
            locked_until: when the lock ends.
            limit: most entries.
        """

    def settle(self, marks: Sequence[Mark], *, owner: str, now: float) -> frozenset[str]:
        """Note outcomes on entries that this owner still holds; give the ids of those, the others are untouched."""

    def remove_expired(self, *, now: float, limit: int) -> int:
        """Remove finished entries whose retention is over, up to a limit; give how many."""

    def standing(self, *, limit: int | None = None) -> Standing:
        """Count the entries, roughly up to a limit where counting costs by the entry."""


class OperatorStore(Protocol):
    """The operators' side of a store."""

    def entries(self, states: Collection[EntryState]) -> Iterator[Entry]:
        """Give the entries in these states, oldest first where the store has that order; read bit by bit."""

    def entry(self, entry_id: str) -> Entry | None:
        """Give one entry."""

    def prioritize(self, entries: Iterable[Entry], *, priority: int, lane: str, now: float) -> int:
        """Give waiting entries another priority, unless they have changed since they were read; give how many."""

    def cancel(self, entries: Iterable[Entry], *, reason: str, now: float, expires_at: float) -> int:
        """Abandon waiting entries, unless they have changed since they were read; give how many."""

    def retry(self, entries: Iterable[Entry], *, now: float) -> int:
        """Make finished or failed entries pending again, with all their attempts; give how many."""

    def add_audit(self, audit: AuditEntry) -> None:
        """Keep an audit entry."""

    def audits(self) -> list[AuditEntry]:
        """Give the audit entries, latest first."""
