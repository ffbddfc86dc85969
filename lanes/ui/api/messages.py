"""Routes about messages: dead letters, the outbox, overrides, blocked groups and schedules."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lanes.errors import ConfigurationError
from lanes.operate.dead_letters.listing import DeadLetterFilter, list_dead_letters
from lanes.operate.dead_letters.rows import details_of, row_of
from lanes.operate.lanes.status import blocked_groups
from lanes.operate.schedules import later_rows, read
from lanes.outbox.entry import WAITING
from lanes.scheduled import PERIODIC
from lanes.ui.api import entries
from lanes.ui.api.fields import ago, dead_letters_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.ui.api.fields import Fields
    from lanes.ui.session import Session

# Twenty receives of ten messages, about a second.
LISTED = 200
# Counting reads index pages; beyond this the page shows a plus sign.
COUNTED = 100_000


class MessageRoutes:
    """
    Routes about messages; all raise `LanesError`.

    Args:
        session: the connection to the lanes.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def routes(self) -> dict[str, Callable[[Fields], Any]]:
        """The routes by name."""
        return {
            "dead_letters": self.dead_letters,
            "dead_letter": self.dead_letter,
            "outbox": self.outbox,
            "outbox_spread": self.outbox_spread,
            "entries": self.entries,
            "entry": self.entry,
            "overrides": self.overrides,
            "overrides_met": self.overrides_met,
            "schedules": self.schedules,
        }

    def dead_letters(self, fields: Fields) -> dict[str, Any]:
        """List dead letters of `lane`."""
        wanted = dead_letters_of(fields)
        lane = self._session.lane(fields.required("lane"))
        limit = fields.integer("limit", min_=1) or LISTED
        found = list_dead_letters(self._session.operations.dead_letters, lane, wanted, limit=limit)
        rows = [row_of(letter) for letter in found.letters]
        return {"letters": rows, "beyond": found.beyond}

    def dead_letter(self, fields: Fields) -> dict[str, Any]:
        """Return the dead letter of `lane` with the id `id`."""
        wanted = DeadLetterFilter(ids=(fields.required("id"),))
        lane = self._session.lane(fields.required("lane"))
        found = list_dead_letters(self._session.operations.dead_letters, lane, wanted, limit=1)
        if not found.letters:
            problem = "the dead letter is gone, hidden by another reader, or behind ten of its group; list them again"
            raise ConfigurationError([problem], source="dead letter")
        return details_of(found.letters[0])

    def outbox(self, _fields: Fields) -> dict[str, Any]:
        """Count the outbox's entries by state."""
        status = self._session.outbox.store.status(limit=COUNTED)
        return {
            "name": self._session.outbox.name,
            "counts": status.counts,
            "held_groups": status.held_groups,
            "scheduled": status.scheduled,
            "relays": [
                {"relay": one.relay, "entries": one.entries, "locked_until": one.locked_until}
                for one in self._session.outbox.operator().relays()
            ],
            "oldest_at": status.oldest_at,
            "is_complete": status.is_complete,
        }

    def outbox_spread(self, _fields: Fields) -> dict[str, Any]:
        """Count the waiting entries of the outbox by lane, kind and group; reads all of them."""
        return entries.counts_of(self._session.outbox.operations.entries(WAITING))

    def entries(self, fields: Fields) -> dict[str, Any]:
        """List entries of the outbox."""
        wanted = entries.filter_of(fields)
        limit = fields.integer("limit", min_=1) or LISTED
        # One more than shown, to know whether there are more without counting them.
        found = list(itertools.islice(self._session.outbox.operator().find(wanted), limit + 1))
        rows = [entries.row_of(entry) for entry in found[:limit]]
        return {"entries": rows, "has_more": len(found) > limit, "meant": wanted.describe()}

    def entry(self, fields: Fields) -> dict[str, Any]:
        """Return the entry of the outbox with the id `id`."""
        entry_id = fields.required("id")
        entry = self._session.outbox.operations.entry(entry_id)
        if entry is None:
            raise ConfigurationError(
                [f"there is no entry {entry_id!r}; it may have been removed"], source="outbox"
            )
        return entries.details_of(entry)

    def overrides(self, fields: Fields) -> dict[str, Any]:
        """Return the active overrides, the messages cancelled since the age `since`, and the blocked groups."""
        operations = self._session.operations
        config = operations.deployment.config
        active = operations.overrides.active()
        since = ago(fields, "since") or 0.0
        return {
            "overrides": [
                {
                    "id": one.id,
                    "action": one.action,
                    "filter": one.wanted.describe(),
                    "priority": one.priority,
                    "who": one.who,
                    "why": one.why,
                    "created_at": one.created_at,
                    "expires_at": one.expires_at,
                }
                for one in active.overrides
            ],
            "unread": active.unread,
            "cancelled": operations.overrides.cancellations(since=since, limit=LISTED),
            "blocked": [
                one for lane in config.lanes for one in blocked_groups(config, operations.depths, lane.name)
            ],
        }

    def overrides_met(self, _fields: Fields) -> dict[str, Any]:
        """Count the messages that each active override has met; reads the log of the function."""
        notes: list[str] = []
        return {"met": self._session.operations.overrides_met(note=notes.append), "notes": notes}

    def schedules(self, _fields: Fields) -> dict[str, Any]:
        """Return the periodic messages, the messages for later, and whether there are more of those."""
        calls, now = self._session.operations.schedules, datetime.now(UTC)
        later, has_more = later_rows(calls, limit=LISTED)
        return {
            "periodic": [one.row(now) for one in read(calls, PERIODIC)],
            "later": later,
            "has_more": has_more,
        }
