"""A filter that selects entries of an outbox: a filter of messages, and states of entries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lanes.message_filter import MessageFilter
from lanes.outbox.entry import EntryState

if TYPE_CHECKING:
    from lanes.message_filter import Filterable
    from lanes.outbox.entry import Entry

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
