"""The fields of requests, which are JSON objects, by name and type; the filters that they make, and rows of entries."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Self

from lanes.config.table import parse_duration
from lanes.errors import ConfigurationError
from lanes.operate.dead_letters import DeadLetterFilter
from lanes.outbox.entry import EntryState
from lanes.outbox.operations import EntryFilter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lanes.outbox.entry import Entry

SOURCE = "request"


class Fields:
    """
    The fields of one request; an empty text counts as missing.

    Args:
        values: the values by name.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        # A form sends an empty text for a field that was left empty.
        self._values = {name: value for name, value in values.items() if value not in (None, "")}

    @classmethod
    def of_body(cls, body: bytes) -> Self:
        """
        Read a JSON object.

        Raises:
            ConfigurationError: the body is not a JSON object.
        """
        try:
            values = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise _wrong(f"the body is not JSON: {error}") from error
        if not isinstance(values, dict):
            raise _wrong("the body is not a JSON object")
        return cls(values)

    def text(self, name: str) -> str | None:
        """Return a text; None if it is missing."""
        value = self._values.get(name)
        if value is not None and not isinstance(value, str):
            raise _wrong(f"{name} is {value!r}; give a text")
        return value

    def required(self, name: str) -> str:
        """Return a required text."""
        value = self.text(name)
        if value is None:
            raise _wrong(f"{name} is missing; give a text")
        return value

    def choice(self, name: str, known: Sequence[str]) -> str:
        """Return a required text, one of the known ones."""
        return _known(name, self.required(name), known)

    def texts(self, name: str, known: Sequence[str] | None = None) -> list[str]:
        """Return a list of texts, each one of the known ones if there are any; empty if it is missing."""
        values = self._values.get(name, [])
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise _wrong(f"{name} is {values!r}; give a list of texts")
        return values if known is None else [_known(name, value, known) for value in values]

    def integer(self, name: str, *, min_: int | None = None) -> int | None:
        """Return a whole number, also from a text; None if it is missing."""
        value = self._values.get(name)
        if value is None:
            return None
        try:
            number = int(value) if isinstance(value, str | int) and not isinstance(value, bool) else None
        except ValueError:
            number = None
        if number is None or (min_ is not None and number < min_):
            needed = "a whole number" if min_ is None else f"a whole number of at least {min_}"
            raise _wrong(f"{name} is {value!r}; give {needed}")
        return number

    def flag(self, name: str) -> bool:
        """Return a truth value; False if it is missing."""
        value = self._values.get(name, False)
        if not isinstance(value, bool):
            raise _wrong(f"{name} is {value!r}; give true or false")
        return value


def _known(name: str, value: str, known: Sequence[str]) -> str:
    if value not in known:
        raise _wrong(f"{name} is {value!r}; give one of {', '.join(known)}")
    return value


def _wrong(problem: str) -> ConfigurationError:
    return ConfigurationError([problem], source=SOURCE)


def dead_letters_of(fields: Fields) -> DeadLetterFilter:
    """
    Read a filter; times are ages such as 2h.

    Raises:
        ConfigurationError: a time is not an age.
    """
    return DeadLetterFilter(
        kind=fields.text("kind"),
        group=fields.text("group"),
        reason=fields.text("reason"),
        run=fields.text("run"),
        since=ago(fields, "since"),
        until=ago(fields, "until"),
        ids=tuple(fields.texts("ids")),
    )


def ago(fields: Fields, name: str) -> float | None:
    """
    Read an age and return its time; None if the field is missing.

    Raises:
        ConfigurationError: the text is not an age.
    """
    text = fields.text(name)
    if text is None:
        return None
    age = parse_duration(text)
    if age is None:
        raise ConfigurationError([f"{name} is {text!r}; give an age such as 15m, 2h or 3d"], source=name)
    return time.time() - age.total_seconds()


UNPUBLISHED = frozenset(EntryState) - {EntryState.PUBLISHED}
# Longer lists of bars can't be compared at a glance.
MAX_COUNTED = 50
"""Kinds and groups that a count lists; it sums up the others."""


def entry_filter(fields: Fields, *, default: frozenset[EntryState] = UNPUBLISHED) -> EntryFilter:
    """
    Read a filter.

    Args:
        fields: of the request.
        default: the states that it selects if it names none; by default all but PUBLISHED.

    Raises:
        ConfigurationError: a state is unknown.
    """
    states = frozenset(map(EntryState, fields.texts("states", list(EntryState))))
    return EntryFilter(**conditions_of(fields), states=states or default)


def conditions_of(fields: Fields) -> dict[str, Any]:
    """Read the conditions that filters of entries and of messages share."""
    return {
        "kind": fields.text("kind"),
        "group": fields.text("group"),
        "source": fields.text("source"),
        "exact": fields.flag("exact"),
        "lowest": fields.integer("lowest"),
        "highest": fields.integer("highest"),
    }


def entry_row(entry: Entry) -> dict[str, Any]:
    """Return the row of an entry in a table."""
    return {
        "id": entry.id,
        "state": entry.state,
        "kind": entry.kind,
        "group": entry.group,
        "priority": entry.priority,
        "lane": entry.lane,
        "attempts": entry.attempts,
        "created_at": entry.created_at,
        "not_before": entry.not_before,
        "last_error": entry.last_error,
    }


def entry_details(entry: Entry) -> dict[str, Any]:
    """Return all fields of an entry."""
    return {
        **entry_row(entry),
        "source": entry.source,
        "unique_key": entry.unique_key,
        "locked_by": entry.locked_by,
        "locked_until": entry.locked_until,
        "next_attempt_at": entry.next_attempt_at,
        "changed_at": entry.changed_at or None,
        "published_at": entry.published_at,
        "sequence_number": entry.sequence_number or None,
        "expires_at": entry.expires_at,
        "body": entry.body,
    }


def entry_counts(entries: Iterable[Entry]) -> dict[str, Any]:
    """Count entries by lane, kind and group."""
    lanes: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    groups: Counter[str] = Counter()
    for entry in entries:
        lanes[entry.lane] += 1
        kinds[entry.kind] += 1
        groups[entry.group or ""] += 1
    return {
        "total": kinds.total(),
        "lanes": lanes.most_common(),
        "kinds": kinds.most_common(MAX_COUNTED),
        "more_kinds": max(0, len(kinds) - MAX_COUNTED),
        "groups": groups.most_common(MAX_COUNTED),
        "more_groups": max(0, len(groups) - MAX_COUNTED),
    }
