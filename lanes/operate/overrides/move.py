"""
Change waiting messages: one change for the entries of an outbox and the messages in queues.

Entries change at once; messages in queues change when they are next received, by an override. The override is written
first, so it also applies to the entries that a relay publishes in the meantime.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Protocol

from lanes.errors import AwsError
from lanes.operate.history.audit import audited
from lanes.operate.overrides.change import override_for, waiting
from lanes.operate.runs import check_waiting
from lanes.outbox.entry import WAITING
from lanes.outbox.filter import EVERY_STATE, EntryFilter
from lanes.outbox.operations import cancelled_by
from lanes.overrides import KNOWN_AFTER, OVERRIDES_AGE, Action

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lanes.config import LanesConfig
    from lanes.operate.history.audit import AuditTrail
    from lanes.operate.lanes.status import Depths
    from lanes.operate.overrides.change import Change, Overrides
    from lanes.outbox.operations import Operator, Preview
    from lanes.overrides import Override
    from lanes.runs import RunTable


TRIES = 3


class Queues(Protocol):
    """The queues of the lanes, with the overrides of their messages."""

    @property
    def depths(self) -> Depths:
        """The counts of the queues."""

    @property
    def overrides(self) -> Overrides:
        """The active overrides."""

    @property
    def audit(self) -> AuditTrail:
        """The audit trail."""

    @property
    def runs(self) -> RunTable:
        """The runs of messages."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """
    The messages that a move may change.

    Attributes:
        entries: the filter of entries.
        preview: the matching entries; None without an outbox.
        queued: waiting messages by lane, of all kinds, since a queue can't be searched; None without queues.
    """

    entries: EntryFilter
    preview: Preview | None
    queued: Mapping[str, int] | None

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing to change."""
        return not (self.preview and self.preview.count) and self.queued is None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """
    The result of a move.

    Attributes:
        entries: number of entries that changed.
        override: the override for messages in queues; None without queues.
    """

    entries: int
    override: Override | None

    @property
    def applies_from(self) -> float | None:
        """When every consumer knows the override, in epoch seconds."""
        return None if self.override is None else self.override.created_at + KNOWN_AFTER


class Move:
    """
    A change of waiting messages.

    Args:
        change: the change.
        config: the lanes.
        outbox: changes entries; None leaves the outbox alone.
        queues: the queues; None leaves them alone, and the outbox keeps the only audit.
    """

    def __init__(
        self,
        change: Change,
        *,
        config: LanesConfig,
        outbox: Operator | None,
        queues: Queues | None,
    ) -> None:
        self._change = change
        every = EntryFilter.of(change.wanted, EVERY_STATE)
        self._entries = cancelled_by(every) if change.action is Action.CANCEL else every.only(WAITING)
        self._config = config
        # No entry belongs to a run, and its filter has none.
        self._outbox = None if change.wanted.run is not None else outbox
        self._queues = queues

    def find(self) -> Found:
        """
        Count the messages that may change, and change nothing.

        Raises:
            ConfigurationError: the run that the filter names does not exist, or it has ended.
            LanesError: the outbox or a queue could not be read.
        """
        queues, run = self._queues, self._change.wanted.run
        if queues is not None and run is not None:
            check_waiting(queues.runs, run)
        return Found(
            entries=self._entries,
            preview=None if self._outbox is None else self._outbox.preview(self._entries),
            queued=None if queues is None else waiting(self._config, queues.depths, self._change),
        )

    def make(self, found: Found, *, progress: Callable[[int], None]) -> Moved:
        """
        Make the change, and write it to the audit trail.

        Args:
            found: the result of `find`; the outbox is left alone if it has no matching entry.
            progress: receives the number of entries changed so far.

        Raises:
            LanesError: a call failed; the audit trail says how far the change came.
        """
        queues, change = self._queues, self._change
        if queues is None:
            return Moved(entries=self._change_entries(found, progress), override=None)
        asked: dict[str, Any] = {"filter": change.wanted.to_dict(), "why": change.why}
        if change.action is Action.PRIORITIZE:
            asked["to_priority"] = change.priority
        with audited(queues.audit, change.action, change.wanted.describe(), details=asked) as details:
            override = self._add_override(queues)
            details["override"] = override.id
            details["entries"] = changed = self._change_entries(found, progress)
        return Moved(entries=changed, override=override)

    def _add_override(self, queues: Queues) -> Override:
        who = queues.audit.who()
        for _ in range(TRIES):
            # The clock of AWS, not of this machine: `sent_at` of the messages is compared with it.
            override = override_for(self._change, who=who, now=queues.overrides.now())
            queues.overrides.add(override)
            # A cancelled message is in no other lane, so no environment has to wait for the others.
            if self._change.action is Action.CANCEL:
                return override
            # A repeated call may land seconds later than its first try, and every environment has to know the override
            # before one of them moves a message.
            if queues.overrides.now() <= override.created_at + KNOWN_AFTER - OVERRIDES_AGE:
                return override
            queues.overrides.withdraw(override.id)
        raise AwsError(
            operation="UpdateItem",
            code="OverrideTooSlow",
            message=f"{TRIES} writes took over a second each, so the override was withdrawn; try again later",
            retryable=True,
        )

    def _change_entries(self, found: Found, progress: Callable[[int], None]) -> int:
        if self._outbox is None or found.preview is None or not found.preview.count:
            return 0
        if self._change.action is Action.CANCEL:
            return self._outbox.cancel(self._entries, progress=progress)
        return self._outbox.prioritize(self._entries, self._change.priority, progress=progress)
