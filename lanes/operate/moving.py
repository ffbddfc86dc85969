"""
Moving what waits: one change over entries of an outbox and messages in queues alike.

Entries are changed at once, messages when they are next received, by an override. The override is put up first: what a
relay publishes meanwhile is met by it.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Protocol

from lanes.consumer.overrides import KNOWN_AFTER, Action
from lanes.operate.audit import audited
from lanes.operate.overrides import override_for, waiting
from lanes.outbox.entry import WAITING, EntryState
from lanes.outbox.filter import EntryFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lanes.config import LanesConfig
    from lanes.consumer.overrides import Override
    from lanes.operate.audit import AuditTrail
    from lanes.operate.overrides import Change, LaneDepths, OverrideBoard
    from lanes.outbox.operate import Operator, Preview

QUEUED = "QUEUED"
STATES = frozenset({*(state.value for state in WAITING), QUEUED})
"""Where something can wait: the states of entries in which they do, and in a queue."""


class Surroundings(Protocol):
    """What a move works with."""

    @property
    def depths(self) -> LaneDepths:
        """Counts of queues."""

    @property
    def overrides(self) -> OverrideBoard:
        """The board."""

    @property
    def audit(self) -> AuditTrail:
        """The audit trail."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """
    What a move may concern; None is not looked at.

    Attributes:
        entries: the filter of entries.
        preview: of entries, where there is an outbox.
        queued: messages waiting, by lane: of all kinds, since nobody can look into a queue.
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
    What a move did.

    Attributes:
        entries: how many entries were changed.
        override: what was put up for messages in queues, None where those were not meant.
    """

    entries: int
    override: Override | None

    @property
    def takes_effect(self) -> float | None:
        """When every consumer knows of the override, epoch seconds."""
        return None if self.override is None else self.override.created_at + KNOWN_AFTER


class Move:
    """
    A change of what waits.

    Args:
        change: what is asked for.
        states: where to look: some of `STATES`.
        config: the lanes.
        operator: changes entries, None where there is no outbox.
        surroundings: queues, board and audit trail.
    """

    def __init__(
        self,
        change: Change,
        *,
        states: frozenset[str] = STATES,
        config: LanesConfig,
        operator: Operator | None,
        surroundings: Surroundings,
    ) -> None:
        entry_states = frozenset(EntryState(state) for state in states - {QUEUED})
        self._change = change
        self._states = states
        self._entries = EntryFilter.of(change.wanted, entry_states)
        self._config = config
        self._operator = operator if entry_states else None
        self._surroundings = surroundings

    def look(self) -> Found:
        """
        Find out what is meant; changes nothing.

        Raises:
            LanesError: the outbox or a queue can't be read.
        """
        depths, is_queued = self._surroundings.depths, QUEUED in self._states
        return Found(
            entries=self._entries,
            preview=None if self._operator is None else self._operator.preview(self._entries),
            queued=waiting(self._config, depths, self._change) if is_queued else None,
        )

    def make(self, found: Found, *, progress: Callable[[int], None]) -> Moved:
        """
        Do it, with an entry in the audit trail.

        Args:
            found: what a look has found; the outbox is left alone where there was nothing.
            progress: gets the number of entries changed so far.

        Raises:
            LanesError: a call failed; the audit trail tells how far it came.
        """
        change = self._change
        asked: dict[str, Any] = {
            "filter": change.wanted.to_dict(),
            "why": change.why,
            "states": sorted(self._states),
        }
        if change.action is Action.PRIORITIZE:
            asked["to_priority"] = change.priority
        words = change.wanted.words()
        with audited(self._surroundings.audit, change.action, words, details=asked) as noted:
            override = self._put_up(noted) if QUEUED in self._states else None
            noted["entries"] = changed = self._change_entries(found, progress)
        return Moved(entries=changed, override=override)

    def _put_up(self, noted: dict[str, Any]) -> Override:
        board = self._surroundings.overrides
        override = override_for(self._change, who=self._surroundings.audit.who(), now=board.now())
        board.add(override)
        noted["override"] = override.id
        return override

    def _change_entries(self, found: Found, progress: Callable[[int], None]) -> int:
        if self._operator is None or found.preview is None or not found.preview.count:
            return 0
        if self._change.action is Action.CANCEL:
            return self._operator.cancel(self._entries, progress=progress)
        return self._operator.prioritize(self._entries, self._change.priority, progress=progress)
