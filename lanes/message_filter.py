"""Filters of messages, and patterns of texts. Owns the words filter and pattern."""

from __future__ import annotations

import fnmatch
import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from lanes.errors import ConfigurationError
from lanes.priority import Priority

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

PATTERN_FIELDS = ("kind", "group", "source")


def is_like(text: str, pattern: str) -> bool:
    """Check whether a pattern matches a whole text; `*` matches any characters, all others match themselves."""
    return _compiled(pattern)(text) is not None


def first_like(text: str, patterns: Iterable[str]) -> str | None:
    """Return the first of the patterns that matches a text."""
    return next((pattern for pattern in patterns if is_like(text, pattern)), None)


@functools.lru_cache(maxsize=1_024)
def _compiled(pattern: str) -> Callable[[str], object]:
    # fnmatch's expressions don't backtrack: senders choose the texts, and `*a*a*a*b` must not hold a lane.
    return re.compile(fnmatch.translate(re.sub(r"[?[]", r"[\g<0>]", pattern))).fullmatch


class Filterable(Protocol):
    """A message or an outbox entry, as a filter reads it."""

    @property
    def id(self) -> str:
        """The id of the message."""

    @property
    def kind(self) -> str:
        """The kind of the message."""

    @property
    def group(self) -> str | None:
        """The group, or None."""

    @property
    def source(self) -> str:
        """The source of the event."""

    @property
    def priority(self) -> int | None:
        """The priority; None counts as NORMAL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFilter:
    """
    Select the messages that meet all the conditions you set.

    Attributes:
        ids: ids of messages; empty for any id.
        kind: the kind; `*` matches any characters.
        group: the group, as `kind`; messages without a group never match.
        source: the source, as `kind`.
        exact: compare kind, group and source as plain strings instead.
        lowest: lowest priority.
        highest: highest priority.
        run: name of the run that it belongs to; entries of an outbox are in none.

    Raises:
        ConfigurationError: the range of priorities is empty, or an id or the run is.

    Example:
        >>> MessageFilter(kind="order.*", highest=-50).describe()
        'kind like order.*, priority <= -50'
    """

    ids: tuple[str, ...] = ()
    kind: str | None = None
    group: str | None = None
    source: str | None = None
    exact: bool = False
    lowest: int | None = None
    highest: int | None = None
    run: str | None = None

    def __post_init__(self) -> None:
        problems = []
        # An unset variable of a script: no member of a run has the name, so it would select all the others.
        if self.run == "" or "" in self.ids:
            problems.append(f"{'run' if self.run == '' else 'an id'} is empty; leave it out for any")
        if self.lowest is not None and self.highest is not None and self.lowest > self.highest:
            problems.append(f"no priority is {self.lowest} or higher and {self.highest} or lower")
        if problems:
            raise ConfigurationError(problems, source="filter")

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> MessageFilter:
        """Build a filter from the data that `to_dict` returned."""
        return cls(**{**raw, "ids": tuple(raw.get("ids", ()))})

    def to_dict(self) -> dict[str, Any]:
        """Return the conditions as JSON-able data."""
        names = ("kind", "group", "source", "lowest", "highest", "run")
        found: dict[str, Any] = {name: getattr(self, name) for name in names}
        found |= {"ids": list(self.ids) or None, "exact": self.exact or None}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def chooses_all(self) -> bool:
        """Whether the filter has no condition and selects every message."""
        return self.to_dict().keys() <= {"exact"}

    @property
    def by_group_alone(self) -> bool:
        """Whether group is the only condition, so that a group matches as a whole."""
        return self.to_dict().keys() - {"exact"} == {"group"}

    def matches(self, message: Filterable, *, run: str = "") -> bool:
        """Check whether the filter selects a message; `run` is the name of its run, empty for none."""
        priority = Priority.NORMAL if message.priority is None else message.priority
        if self.run is not None and run != self.run:
            return False
        if self.ids and message.id not in self.ids:
            return False
        if self.lowest is not None and priority < self.lowest:
            return False
        if self.highest is not None and priority > self.highest:
            return False
        return all(self._meets(name, getattr(message, name)) for name in PATTERN_FIELDS)

    def matches_group(self, group: str) -> bool:
        """Check whether the filter can select messages of a group."""
        # A body that is not an event has a group all the same.
        return self._meets("group", group)

    def describe(self) -> str:
        """Describe the filter for people."""
        return ", ".join(self._texts()) or "everything"

    def _texts(self) -> list[str]:
        sign = "=" if self.exact else "like"
        texts = [f"id = {' or '.join(self.ids)}"] if self.ids else []
        wanted = {name: getattr(self, name) for name in PATTERN_FIELDS}
        texts += [f"{name} {sign} {text}" for name, text in wanted.items() if text is not None]
        if self.lowest is not None:
            texts.append(f"priority >= {self.lowest}")
        if self.highest is not None:
            texts.append(f"priority <= {self.highest}")
        if self.run is not None:
            texts.append(f"run = {self.run}")
        return texts

    def _meets(self, name: str, value: str | None) -> bool:
        wanted: str | None = getattr(self, name)
        if wanted is None or value is None:
            return wanted is None
        return value == wanted if self.exact else is_like(value, wanted)
