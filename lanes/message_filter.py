"""Which messages an operator means: by id, kind, group, source and priority. Owns the word filter."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from lanes.errors import ConfigurationError
from lanes.priority import Priority

if TYPE_CHECKING:
    from collections.abc import Mapping

PATTERNED = ("kind", "group", "source")


class Described(Protocol):
    """What a filter looks at: a message, or an entry of an outbox."""

    @property
    def id(self) -> str:
        """Identity of the message."""

    @property
    def kind(self) -> str:
        """What it is."""

    @property
    def group(self) -> str | None:
        """Its group, if it has one."""

    @property
    def source(self) -> str:
        """Where it comes from."""

    @property
    def priority(self) -> int | None:
        """How urgent it is; None counts as NORMAL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFilter:
    """
    Which messages are meant: those that meet all conditions given.

    Attributes:
        ids: ids of messages; any without.
        kind: regular expression that the kind matches from its beginning to its end.
        group: the same for the group; messages without a group never match.
        source: the same for the source.
        exact: take the three as plain texts.
        lowest: lowest priority.
        highest: highest priority.

    Raises:
        ConfigurationError: a regular expression can't be read, or no priority lies in the range.

    Example:
        >>> MessageFilter(kind="order[.].*", highest=-50).words()
        'kind ~ order[.].*, priority <= -50'
    """

    ids: tuple[str, ...] = ()
    kind: str | None = None
    group: str | None = None
    source: str | None = None
    exact: bool = False
    lowest: int | None = None
    highest: int | None = None
    _patterns: dict[str, re.Pattern[str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        patterns, problems = {}, []
        for name in PATTERNED:
            text = getattr(self, name)
            if text is None:
                continue
            try:
                patterns[name] = re.compile(re.escape(text) if self.exact else text)
            except re.error as error:
                problems.append(f"{name} is no regular expression: {error}; --exact takes it as it stands")
        if self.lowest is not None and self.highest is not None and self.lowest > self.highest:
            problems.append(f"no priority is {self.lowest} or higher and {self.highest} or lower")
        if problems:
            raise ConfigurationError(problems, source="filter")
        object.__setattr__(self, "_patterns", patterns)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> MessageFilter:
        """Read what `to_dict` gave."""
        return cls(**{**raw, "ids": tuple(raw.get("ids", ()))})

    def to_dict(self) -> dict[str, Any]:
        """Give what is set as JSON-able data."""
        names = ("kind", "group", "source", "lowest", "highest")
        found: dict[str, Any] = {name: getattr(self, name) for name in names}
        found |= {"ids": list(self.ids) or None, "exact": self.exact or None}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def chooses_all(self) -> bool:
        """Whether nothing is left out."""
        return not self.to_dict()

    @property
    def by_group_alone(self) -> bool:
        """Whether it tells groups apart and nothing within a group."""
        return self.to_dict().keys() - {"exact"} == {"group"}

    def matches(self, one: Described) -> bool:
        """Tell whether a message is meant."""
        priority = Priority.NORMAL if one.priority is None else one.priority
        if self.ids and one.id not in self.ids:
            return False
        if self.lowest is not None and priority < self.lowest:
            return False
        if self.highest is not None and priority > self.highest:
            return False
        return all(self._meets(name, getattr(one, name)) for name in self._patterns)

    def matches_group(self, group: str) -> bool:
        """Tell whether the group is one of those that are meant."""
        return "group" not in self._patterns or self._meets("group", group)

    def words(self) -> str:
        """Say what is meant."""
        return ", ".join(self._texts()) or "everything"

    def _texts(self) -> list[str]:
        sign = "=" if self.exact else "~"
        texts = [f"id = {' or '.join(self.ids)}"] if self.ids else []
        texts += [f"{name} {sign} {getattr(self, name)}" for name in self._patterns]
        if self.lowest is not None:
            texts.append(f"priority >= {self.lowest}")
        if self.highest is not None:
            texts.append(f"priority <= {self.highest}")
        return texts

    def _meets(self, name: str, value: str | None) -> bool:
        return value is not None and self._patterns[name].fullmatch(value) is not None
