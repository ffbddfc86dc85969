"""Which entries of an outbox an operator means: a filter of messages, and the states of entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lanes.message_filter import MessageFilter
from lanes.outbox.entry import EntryState

if TYPE_CHECKING:
    from lanes.message_filter import Described
    from lanes.outbox.entry import Entry

EVERY_STATE = frozenset(EntryState)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFilter(MessageFilter):
    """
    Which entries are meant: those that meet all conditions given.

    Attributes:
        states: states; all of them by default.

    Raises:
        ConfigurationError: a regular expression can't be read.

    Example:
        >>> EntryFilter(kind="order[.].*", highest=-50).words()
        'kind ~ order[.].*, priority <= -50'
    """

    states: frozenset[EntryState] = EVERY_STATE

    @classmethod
    def of(cls, wanted: MessageFilter, states: frozenset[EntryState]) -> EntryFilter:
        """Give the filter of messages for entries in these states."""
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
        """Tell whether an entry is meant."""
        described: Described = entry
        return entry.state in self.states and self.matches(described)

    def words(self) -> str:
        """Say what is meant."""
        texts = self._texts()
        if self.states != EVERY_STATE:
            texts.append(f"state in {', '.join(sorted(self.states))}")
        return ", ".join(texts) or "everything"

    def only(self, states: frozenset[EntryState]) -> EntryFilter:
        """Give the same filter for those of its states that are among these."""
        return EntryFilter.of(self, self.states & states)
