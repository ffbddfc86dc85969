"""
The protocols of an outbox's database, for a relay and for operators.

Every store keeps three indexes:

- ready: the candidates in claim order: priority descending, then age, then id;
- timers: entries with a due time: the next attempt, the end of a lock, the time of a scheduled entry;
- chains: the unfinished entries of each group and lane, by age, without the scheduled ones.

A claim first makes due entries ready. Then it reads candidates from the top of `ready`, compares those with a group to
their chain, locks the first entries of each chain and parks the others. So an entry that is blocked by an earlier one
of its group leaves the top of `ready` until that one is finished. How a store does that is in
docs/decisions.md#the-outbox.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from lanes.outbox.entry import Entry, EntryState
    from lanes.outbox.rules import LaneShare, Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """
    The result of one claim.

    Attributes:
        entries: the locked entries, in the order to send them.
        ripened: number of due entries that became candidates again.
        parked: number of candidates that wait for an earlier entry of their group, and of groups with a timer that was
            due.
        taken_over: number of ripened entries with an expired lock.
        missed: number of candidates that another relay locked first.
    """

    entries: tuple[Entry, ...] = ()
    ripened: int = 0
    parked: int = 0
    taken_over: int = 0
    missed: int = 0

    @property
    def is_idle(self) -> bool:
        """Whether an immediate next claim would find nothing either."""
        return not (self.entries or self.ripened or self.parked or self.missed)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxStatus:
    """
    The status of an outbox.

    Attributes:
        counts: number of entries by state.
        lanes: number of waiting and claimed entries by lane.
        held_groups: number of abandoned entries that hold their group until an operator decides.
        scheduled: number of pending entries that wait for the time before which they may not be sent.
        oldest_at: time since which an unfinished entry could be sent, the earliest; None if there is none.
        is_complete: False if counting stopped at its limit, so that the counts are lower bounds.
    """

    counts: Mapping[EntryState, int]
    lanes: Mapping[str, int] = field(default_factory=dict)
    held_groups: int = 0
    scheduled: int = 0
    oldest_at: float | None = None
    is_complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """
    The record of one bulk change.

    Attributes:
        action: `prioritize`, `cancel` or `retry`.
        who: name of the operator.
        at: epoch seconds.
        filter: description of the filter.
        before: lowest and highest priority of the entries before the change.
        after: description of their new state.
        changed: number of changed entries.
    """

    action: str
    who: str
    at: float
    filter: str
    before: str
    after: str
    changed: int


class RelayStore(Protocol):
    """
    A store, as a relay uses it.

    Attributes:
        expires_by_itself: whether the database removes expired entries without `remove_expired`.
    """

    expires_by_itself: bool

    def claim(
        self, shares: Sequence[LaneShare], *, owner: str, now: float, locked_until: float, limit: int
    ) -> Claim:
        """
        Lock the next entries for one relay.

        Args:
            shares: priorities to claim from, the most urgent first.
            owner: unique name of this claim.
            now: the current time.
            locked_until: end of the locks.
            limit: maximum number of entries.
        """

    def settle(self, marks: Sequence[Mark], *, owner: str, now: float) -> frozenset[str]:
        """
        Write marks on the entries that this owner still holds; return the ids of these entries.

        An unsent entry has its unique key again, unless another one has it by now or its message may have been sent.
        A repeat of a call that failed has the same result.

        Raises:
            UnwrittenMarksError: some marks were not written.
        """

    def release(self, *, owner: str, locked_until: float, now: float) -> None:
        """Make the entries of a claim due that may have been written without an answer."""

    def remove_expired(self, *, now: float, limit: int) -> int:
        """Remove expired entries, up to a limit; return their number."""

    def status(self, *, limit: int | None = None) -> OutboxStatus:
        """Count the entries; stop near the limit if each counted entry has a cost."""


class OperatorStore(Protocol):
    """A store, as operators use it."""

    def entries(self, states: Collection[EntryState]) -> Iterator[Entry]:
        """Read the entries in these states page by page, without bodies, oldest first if the store has this order."""

    def entry(self, entry_id: str) -> Entry | None:
        """Return one entry with its body."""

    def prioritize(self, entries: Iterable[Entry], *, priority: int, lane: str, now: float) -> int:
        """Change the priority of waiting entries, unless they changed meanwhile; return their number."""

    def cancel(self, entries: Iterable[Entry], *, reason: str, now: float, expires_at: float) -> int:
        """Cancel waiting or abandoned entries, unless they changed meanwhile; return their number."""

    def retry(self, entries: Iterable[Entry], *, now: float) -> int:
        """Reset abandoned, cancelled or failed entries to pending, with all their attempts; return their number."""

    def add_audit(self, audit: AuditEntry) -> None:
        """Write an audit entry."""

    def audits(self) -> list[AuditEntry]:
        """Return the audit entries, latest first."""
