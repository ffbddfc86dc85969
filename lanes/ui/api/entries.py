"""Read filters of outbox entries from requests, and describe entries for the page."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from lanes.outbox.entry import EntryState
from lanes.outbox.filter import EntryFilter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lanes.outbox.entry import Entry
    from lanes.ui.api.fields import Fields

UNPUBLISHED = frozenset(EntryState) - {EntryState.PUBLISHED}
# Longer lists of bars can't be compared at a glance.
MAX_COUNTED = 50
"""Kinds and groups that a count lists; it sums up the others."""


def filter_of(fields: Fields, *, default: frozenset[EntryState] = UNPUBLISHED) -> EntryFilter:
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


def row_of(entry: Entry) -> dict[str, Any]:
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


def details_of(entry: Entry) -> dict[str, Any]:
    """Return all fields of an entry."""
    return {
        **row_of(entry),
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


def counts_of(entries: Iterable[Entry]) -> dict[str, Any]:
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
