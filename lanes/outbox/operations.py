"""
The operations on an outbox: find, prioritise, cancel, retry and reconcile entries.

You can preview each bulk change; it works in batches and writes one audit entry.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lanes.errors import ConfigurationError
from lanes.message_filter import MessageFilter
from lanes.outbox.entry import LARGEST_PRIORITY, RETRYABLE, WAITING, Entry, EntryState
from lanes.outbox.store import AuditEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lanes.config import LanesConfig
    from lanes.message_filter import Filterable
    from lanes.outbox.entry import Entry
    from lanes.outbox.store import OperatorStore

EVERY_STATE = frozenset(EntryState)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFilter(MessageFilter):
    """
    Select the entries that meet all the conditions you set.

    Attributes:
        states: states of the entries; by default all.
        unfinished: whether abandoned entries must hold their group.

    Example:
        >>> EntryFilter(kind="order.*", highest=-50).describe()
        'kind like order.*, priority <= -50'
    """

    states: frozenset[EntryState] = EVERY_STATE
    unfinished: bool = False

    @classmethod
    def of(cls, wanted: MessageFilter, states: frozenset[EntryState]) -> EntryFilter:
        """Limit a filter of messages to entries in some states."""
        return cls(
            ids=wanted.ids,
            kind=wanted.kind,
            group=wanted.group,
            source=wanted.source,
            exact=wanted.exact,
            lowest=wanted.lowest,
            highest=wanted.highest,
            states=states,
        )

    def meets(self, entry: Entry) -> bool:
        """Check whether the filter selects an entry."""
        described: Filterable = entry
        is_selected = entry.state in self.states
        if self.unfinished and entry.state is EntryState.ABANDONED:
            is_selected = is_selected and entry.holds_group
        return is_selected and self.matches(described)

    def describe(self) -> str:
        """Describe the filter for people."""
        texts = self._texts()
        if self.states != EVERY_STATE:
            texts.append(f"state in {', '.join(sorted(self.states))}")
        if self.unfinished and EntryState.ABANDONED in self.states:
            texts.append("ABANDONED only if it holds its group")
        return ", ".join(texts) or "everything"

    def only(self, states: frozenset[EntryState]) -> EntryFilter:
        """Return the same filter, limited to these states."""
        # The intersection: a verb may narrow your choice of states and never widen it.
        return replace(self, states=self.states & states)


# One BatchGetItem of `seen`, and a short transaction in SQL.
CHANGED_AT_ONCE = 100
SAMPLE = 10
# Without a state or an id.
RETRIED = RETRYABLE - {EntryState.CANCELLED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """
    The entries that a change would affect.

    Attributes:
        count: number of entries.
        states: number of entries by state.
        kinds: number of entries by kind.
        lanes: number of entries by lane.
        lowest: their lowest priority.
        highest: their highest priority.
        sample: the first entries.
    """

    count: int
    states: dict[str, int]
    kinds: dict[str, int]
    lanes: dict[str, int]
    lowest: int | None
    highest: int | None
    sample: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """
    The entries with an inconsistent state.

    Attributes:
        unacknowledged: published entries without a sequence number of SQS.
        unseen: entries published some time ago that no consumer has finished; None if no consumer records it.
        dead_locks: entries with a lock that expired long ago, which no other relay has taken over.
    """

    unacknowledged: tuple[Entry, ...]
    unseen: tuple[Entry, ...] | None
    dead_locks: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayHold:
    """
    The entries that a relay has claimed now.

    Attributes:
        relay: name of the relay.
        entries: number of entries.
        lanes: number of entries by lane.
        locked_until: end of its last lock.
    """

    relay: str
    entries: int
    lanes: dict[str, int]
    locked_until: float


class Operator:
    """
    Changes entries of one outbox.

    Args:
        store: the outbox.
        config: lanes and outbox settings.
        who: name of the operator, for the audit entries.
        clock: epoch seconds.
    """

    def __init__(
        self,
        *,
        store: OperatorStore,
        config: LanesConfig,
        who: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._config = config
        self._who = who
        self._clock = clock

    def find(self, wanted: EntryFilter) -> Iterator[Entry]:
        """Return the selected entries, read page by page."""
        return (entry for entry in self._store.entries(wanted.states) if wanted.meets(entry))

    def preview(self, wanted: EntryFilter) -> Preview:
        """Count the selected entries and return a sample."""
        states: Counter[str] = Counter()
        kinds: Counter[str] = Counter()
        lanes: Counter[str] = Counter()
        lowest: int | None = None
        highest: int | None = None
        sample: list[Entry] = []
        for entry in self.find(wanted):
            states[entry.state.value] += 1
            kinds[entry.kind] += 1
            lanes[entry.lane] += 1
            lowest = entry.priority if lowest is None else min(lowest, entry.priority)
            highest = entry.priority if highest is None else max(highest, entry.priority)
            if len(sample) < SAMPLE:
                sample.append(entry)
        return Preview(
            count=kinds.total(),
            states=dict(states.most_common()),
            kinds=dict(kinds.most_common()),
            lanes=dict(lanes.most_common()),
            lowest=lowest,
            highest=highest,
            sample=tuple(sample),
        )

    def prioritize(
        self, wanted: EntryFilter, priority: int, *, progress: Callable[[int], None] = lambda _: None
    ) -> int:
        """
        Change the priority of the selected waiting entries, and with it their lane.

        Entries that a relay has locked are not changed.

        Args:
            wanted: selects the entries; of its states only PENDING and FAILED apply.
            priority: the new priority, higher or lower.
            progress: receives the number of changed entries after each batch.

        Returns:
            The number of changed entries.

        Raises:
            ConfigurationError: the priority is out of range; nothing was changed.
        """
        if abs(priority) > LARGEST_PRIORITY:
            problem = (
                f"priority is {priority}; must be between -{LARGEST_PRIORITY:,} and {LARGEST_PRIORITY:,}"
            )
            raise ConfigurationError([problem], source="outbox")
        lane = self._config.lane_for(priority).name
        found = (entry for entry in self.find(wanted.only(WAITING)) if entry.priority != priority)

        def change(entries: Iterable[Entry]) -> int:
            return self._store.prioritize(entries, priority=priority, lane=lane, now=self._clock())

        return self._change(
            "prioritize", found, change, wanted, after=f"priority {priority}", progress=progress
        )

    def cancel(self, wanted: EntryFilter, *, progress: Callable[[int], None] = lambda _: None) -> int:
        """
        Cancel the selected entries that wait, or are abandoned and hold their group; return their number.

        Nothing sends a cancelled entry, except a retry that names its id.
        """
        keep = self._config.outbox.abandoned_retention.total_seconds()
        reason = f"cancelled by {self._who}"

        def change(entries: Iterable[Entry]) -> int:
            now = self._clock()
            return self._store.cancel(entries, reason=reason, now=now, expires_at=now + keep)

        wanted = cancelled_by(wanted)
        found = self.find(wanted)
        return self._change("cancel", found, change, wanted, after="cancelled", progress=progress)

    def retry(self, wanted: EntryFilter, *, progress: Callable[[int], None] = lambda _: None) -> int:
        """
        Reset the selected entries to pending, with all their attempts; the states are those of `retried_by`.

        Raises:
            ConfigurationError: the filter selects cancelled entries and names no ids; nothing was changed.
        """
        wanted = retried_by(wanted)

        def change(entries: Iterable[Entry]) -> int:
            return self._store.retry(entries, now=self._clock())

        return self._change("retry", self.find(wanted), change, wanted, after="pending", progress=progress)

    def relays(self) -> list[RelayHold]:
        """Return the relays that hold entries, with what they hold; an idle relay holds nothing."""
        held: dict[str, list[Entry]] = {}
        for entry in self._store.entries({EntryState.PROCESSING}):
            # The owner of a claim is its relay's name and a number of the claim.
            held.setdefault((entry.locked_by or "").rpartition("/")[0], []).append(entry)
        return [
            RelayHold(
                relay=relay,
                entries=len(entries),
                lanes=dict(Counter(entry.lane for entry in entries)),
                locked_until=max(entry.locked_until or 0.0 for entry in entries),
            )
            for relay, entries in sorted(held.items())
        ]

    def reconcile(
        self,
        *,
        settled_for: float,
        seen: Callable[[Iterable[Entry]], frozenset[str]] | None = None,
    ) -> Reconciliation:
        """
        Find entries with an inconsistent state.

        Args:
            settled_for: seconds since publishing, or since the end of a lock, after which a state is inconsistent.
            seen: returns the identities of the entries that a consumer has finished; None if no consumer records it.
        """
        now = self._clock()
        published = [
            entry
            for entry in self._store.entries({EntryState.PUBLISHED})
            if (entry.published_at or 0.0) <= now - settled_for
        ]
        return Reconciliation(
            unacknowledged=tuple(entry for entry in published if not entry.sequence_number),
            unseen=None if seen is None else _unseen(published, seen),
            dead_locks=tuple(
                entry
                for entry in self._store.entries({EntryState.PROCESSING})
                if (entry.locked_until or 0.0) <= now - settled_for
            ),
        )

    def _change(
        self,
        action: str,
        found: Iterator[Entry],
        change: Callable[[Iterable[Entry]], int],
        wanted: EntryFilter,
        *,
        after: str,
        progress: Callable[[int], None],
    ) -> int:
        changed = 0
        priorities: set[int] = set()
        try:
            while batch := list(itertools.islice(found, CHANGED_AT_ONCE)):
                changed += change(batch)
                priorities.update(entry.priority for entry in batch)
                progress(changed)
        finally:
            # Also after an error or an interrupt: the batches before it stay changed.
            before = f"priority {min(priorities)} to {max(priorities)}" if priorities else "nothing"
            self._store.add_audit(
                AuditEntry(
                    action=action,
                    who=self._who,
                    at=self._clock(),
                    filter=wanted.describe(),
                    before=before,
                    after=after,
                    changed=changed,
                )
            )
        return changed


def cancelled_by(wanted: EntryFilter) -> EntryFilter:
    """Limit a filter to the entries that can be cancelled."""
    return replace(wanted.only(WAITING | {EntryState.ABANDONED}), unfinished=True)


def retried_by(wanted: EntryFilter) -> EntryFilter:
    """
    Limit a filter to the entries that a retry sends.

    These are abandoned and failed entries, and cancelled ones only if the filter names ids.

    Raises:
        ConfigurationError: the filter selects cancelled entries and names no ids.
    """
    if wanted.ids:
        return wanted.only(RETRYABLE)
    if EntryState.CANCELLED in wanted.states and wanted.states != EVERY_STATE:
        problem = (
            "a retry sends cancelled entries only by their ids; give --id for each, or leave out CANCELLED"
        )
        raise ConfigurationError([problem], source="outbox")
    return wanted.only(RETRIED)


def _unseen(entries: Iterable[Entry], seen: Callable[[Iterable[Entry]], frozenset[str]]) -> tuple[Entry, ...]:
    missing: list[Entry] = []
    rest = iter(entries)
    while batch := list(itertools.islice(rest, CHANGED_AT_ONCE)):
        found = seen(batch)
        missing += [entry for entry in batch if entry.identity not in found]
    return tuple(missing)
