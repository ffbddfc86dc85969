"""Which entries of an outbox an operator means. Owns the word filter."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lanes.errors import ConfigurationError
from lanes.outbox.entry import EntryState

if TYPE_CHECKING:
    from lanes.outbox.entry import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFilter:
    """
    Which entries are meant: those that meet all conditions given.

    Attributes:
        kind: regular expression that the kind matches from its beginning to its end.
        group: the same for the group; entries without a group never match.
        source: the same for the source.
        exact: take the three as plain texts.
        lowest: lowest priority.
        highest: highest priority.
        states: states; all of them by default.

    Raises:
        ConfigurationError: a regular expression can't be read.

    Example:
        >>> EntryFilter(kind="order[.].*", highest=-50).words()
        'kind ~ order[.].*, priority <= -50'
    """

    kind: str | None = None
    group: str | None = None
    source: str | None = None
    exact: bool = False
    lowest: int | None = None
    highest: int | None = None
    states: frozenset[EntryState] = frozenset(EntryState)
    _patterns: dict[str, re.Pattern[str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        patterns, problems = {}, []
        for name in ("kind", "group", "source"):
            text = getattr(self, name)
            if text is None:
                continue
            try:
                patterns[name] = re.compile(re.escape(text) if self.exact else text)
            except re.error as error:
                problems.append(f"{name} is no regular expression: {error}; --exact takes it as it stands")
        if problems:
            raise ConfigurationError(problems, source="filter")
        object.__setattr__(self, "_patterns", patterns)

    def matches(self, entry: Entry) -> bool:
        """Tell whether an entry is meant."""
        if entry.state not in self.states:
            return False
        if self.lowest is not None and entry.priority < self.lowest:
            return False
        if self.highest is not None and entry.priority > self.highest:
            return False
        return all(
            (value := getattr(entry, name)) is not None and pattern.fullmatch(value)
            for name, pattern in self._patterns.items()
        )

    def words(self) -> str:
        """Say what is meant."""
        sign = "=" if self.exact else "~"
        texts = [f"{name} {sign} {getattr(self, name)}" for name in self._patterns]
        if self.lowest is not None:
            texts.append(f"priority >= {self.lowest}")
        if self.highest is not None:
            texts.append(f"priority <= {self.highest}")
        if self.states != frozenset(EntryState):
            texts.append(f"state in {', '.join(sorted(self.states))}")
        return ", ".join(texts) or "everything"

    def only(self, states: frozenset[EntryState]) -> EntryFilter:
        """Give the same filter for those of its states that are among these."""
        return EntryFilter(
            kind=self.kind,
            group=self.group,
            source=self.source,
            exact=self.exact,
            lowest=self.lowest,
            highest=self.highest,
            states=self.states & states,
        )
