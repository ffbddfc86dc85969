"""
What operators do with an outbox: find, give another priority, cancel, retry, reconcile.

Each change of many is previewed first, works in batches, and leaves one audit
entry.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lanes.errors import ConfigurationError
from lanes.outbox.entry import LARGEST_PRIORITY, WAITING, Entry, EntryState
from lanes.outbox.store import AuditEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lanes.config import LanesConfig
    from lanes.outbox.filter import EntryFilter
    from lanes.outbox.store import OperatorStore

CHANGED_AT_ONCE = 100
SAMPLE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """
    What a change would touch.

    Attributes:
        count: entries.
        kinds: entries by kind.
        lanes: entries by lane.
        lowest: lowest priority among them.
        highest: highest one.
        sample: the first of them.
    """

    count: int
    kinds: dict[str, int]
    lanes: dict[str, int]
    lowest: int | None
    highest: int | None
    sample: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """
    What does not add up.

    Attributes:
        unacknowledged: marked published without the number that SQS gives each message.
        unseen: marked published some time ago, and no consumer has finished them; None where no consumer tells.
        dead_locks: locked by a relay whose lock ended long ago, and no other one has taken them over.
    """

    unacknowledged: tuple[Entry, ...]
    unseen: tuple[Entry, ...] | None
    dead_locks: tuple[Entry, ...]


class Operator:
    """
    Changes entries of one outbox.

    Args:
        store: the outbox.
        config: lanes and outbox settings.
        who: name of the operator, for the audit.
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
        """Give the entries that are meant, read bit by bit."""
        return (entry for entry in self._store.entries(wanted.states) if wanted.meets(entry))

    def preview(self, wanted: EntryFilter) -> Preview:
        """Count what is meant, with a sample."""
        kinds: Counter[str] = Counter()
        lanes: Counter[str] = Counter()
        lowest: int | None = None
        highest: int | None = None
        sample: list[Entry] = []
        for entry in self.find(wanted):
            kinds[entry.kind] += 1
            lanes[entry.lane] += 1
            lowest = entry.priority if lowest is None else min(lowest, entry.priority)
            highest = entry.priority if highest is None else max(highest, entry.priority)
            if len(sample) < SAMPLE:
                sample.append(entry)
        return Preview(
            count=kinds.total(),
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
        Give the waiting entries that are meant another priority, higher or lower, and with it another lane.

        An entry that a relay holds at this moment is left as it is.

        Args:
            wanted: which; of their states only PENDING and FAILED count.
            priority: the new one.
            progress: gets the number changed so far, after each batch.

        Returns:
            How many were changed.

        Raises:
            ConfigurationError: an outbox takes no such priority; nothing was changed.
        """
        if abs(priority) > LARGEST_PRIORITY:
            problem = f"priority is {priority}; an outbox takes up to {LARGEST_PRIORITY:,}"
            raise ConfigurationError([problem], source="outbox")
        lane = self._config.lane_for(priority).name
        others = (entry for entry in self.find(wanted.only(WAITING)) if entry.priority != priority)

        def change(entries: Iterable[Entry]) -> int:
            return self._store.prioritize(entries, priority=priority, lane=lane, now=self._clock())

        return self._change(
            "prioritize", others, change, wanted, after=f"priority {priority}", progress=progress
        )

    def cancel(self, wanted: EntryFilter, *, progress: Callable[[int], None] = lambda _: None) -> int:
        """Abandon the waiting entries that are meant; give how many."""
        keep = self._config.outbox.abandoned_retention.total_seconds()
        reason = f"cancelled by {self._who}"

        def change(entries: Iterable[Entry]) -> int:
            now = self._clock()
            return self._store.cancel(entries, reason=reason, now=now, expires_at=now + keep)

        found = self.find(wanted.only(WAITING))
        return self._change("cancel", found, change, wanted, after="cancelled", progress=progress)

    def retry(self, wanted: EntryFilter, *, progress: Callable[[int], None] = lambda _: None) -> int:
        """
        Make abandoned and failed entries that are meant pending again at once, with all their attempts.

        Published ones only where the filter names that state: they are sent a second time.
        """
        default = frozenset({EntryState.ABANDONED, EntryState.FAILED})
        meant = wanted if EntryState.PUBLISHED in wanted.states and len(wanted.states) == 1 else None
        wanted = meant or wanted.only(default)

        def change(entries: Iterable[Entry]) -> int:
            return self._store.retry(entries, now=self._clock())

        return self._change("retry", self.find(wanted), change, wanted, after="pending", progress=progress)

    def reconcile(
        self,
        *,
        settled_for: float,
        seen: Callable[[Iterable[Entry]], frozenset[str]] | None = None,
    ) -> Reconciliation:
        """
        Look for entries whose state can't be what happened.

        Args:
            settled_for: seconds since publishing, or since the end of a lock, after which something is wrong.
            seen: gives the ids of those entries that a consumer has finished; None where no consumer tells.
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
            before = f"priority {min(priorities)} to {max(priorities)}" if priorities else "nothing"
            self._store.add_audit(
                AuditEntry(
                    action=action,
                    who=self._who,
                    at=self._clock(),
                    filter=wanted.words(),
                    before=before,
                    after=after,
                    changed=changed,
                )
            )
        return changed


def _unseen(entries: Iterable[Entry], seen: Callable[[Iterable[Entry]], frozenset[str]]) -> tuple[Entry, ...]:
    missing: list[Entry] = []
    rest = iter(entries)
    while batch := list(itertools.islice(rest, CHANGED_AT_ONCE)):
        found = seen(batch)
        missing += [entry for entry in batch if entry.id not in found]
    return tuple(missing)
