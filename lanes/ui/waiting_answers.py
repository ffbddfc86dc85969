"""What the page's scripts can ask about what waits: dead letters, the outbox, and what operators want with it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from lanes.errors import ConfigurationError
from lanes.operate.dead_letter_records import details_of, row_of
from lanes.operate.dead_letters import DeadLetterFilter, look
from lanes.outbox.entry import WAITING
from lanes.ui import dead_letter_fields, outbox_documents

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.ui.desk import Desk
    from lanes.ui.fields import Fields

LISTED = 200
COUNTED = 100_000


class WaitingAnswers:
    """
    Answers about what waits; all raise `LanesError`.

    Args:
        desk: what to work with.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    @property
    def routes(self) -> dict[str, Callable[[Fields], Any]]:
        """What can be asked, by name."""
        return {
            "dead_letters": self.dead_letters,
            "dead_letter": self.dead_letter,
            "outbox": self.outbox,
            "outbox_spread": self.outbox_spread,
            "entries": self.entries,
            "entry": self.entry,
            "board": self.board,
        }

    def dead_letters(self, fields: Fields) -> dict[str, Any]:
        """Look through the dead-letter queue of `lane`."""
        wanted = dead_letter_fields.filter_of(fields)
        lane = self._desk.lane(fields.required("lane"))
        limit = fields.integer("limit", least=1) or LISTED
        found = look(self._desk.operations.dead_letters, lane, wanted, limit=limit)
        rows = [row_of(letter) for letter in found.letters]
        return {"letters": rows, "beyond": found.beyond}

    def dead_letter(self, fields: Fields) -> dict[str, Any]:
        """Show one dead letter of `lane`, by `id`."""
        wanted = DeadLetterFilter(ids=(fields.required("id"),))
        lane = self._desk.lane(fields.required("lane"))
        found = look(self._desk.operations.dead_letters, lane, wanted, limit=1)
        if not found.letters:
            problem = "it is gone, behind the first ten of its group, or held by someone else; look again"
            raise ConfigurationError([problem], source="dead letter")
        return details_of(found.letters[0])

    def outbox(self, _fields: Fields) -> dict[str, Any]:
        """Count the outbox's entries by state."""
        standing = self._desk.outbox.store.standing(limit=COUNTED)
        return {
            "name": self._desk.outbox.name,
            "counts": standing.counts,
            "oldest_at": standing.oldest_at,
            "is_complete": standing.is_complete,
        }

    def outbox_spread(self, _fields: Fields) -> dict[str, Any]:
        """Count what waits in the outbox by lane, kind and group; reads every waiting entry."""
        return outbox_documents.counts_of(self._desk.outbox.operations.entries(WAITING))

    def entries(self, fields: Fields) -> dict[str, Any]:
        """List entries of the outbox."""
        wanted = outbox_documents.filter_of(fields)
        limit = fields.integer("limit", least=1) or LISTED
        found = list(itertools.islice(self._desk.outbox.operator().find(wanted), limit + 1))
        rows = [outbox_documents.row_of(entry) for entry in found[:limit]]
        return {"entries": rows, "has_more": len(found) > limit, "meant": wanted.words()}

    def entry(self, fields: Fields) -> dict[str, Any]:
        """Show one entry of the outbox, by `id`."""
        entry_id = fields.required("id")
        entry = self._desk.outbox.operations.entry(entry_id)
        if entry is None:
            raise ConfigurationError([f"there is no entry {entry_id!r}"], source="outbox")
        return outbox_documents.details_of(entry)

    def board(self, fields: Fields) -> dict[str, Any]:
        """Tell which overrides stand, what was cancelled in queues since the age `since`, and which groups are held."""
        operations = self._desk.operations
        board = operations.overrides.board()
        since = dead_letter_fields.ago(fields, "since") or 0.0
        return {
            "overrides": [
                {
                    "id": one.id,
                    "action": one.action,
                    "filter": one.wanted.words(),
                    "priority": one.priority,
                    "who": one.who,
                    "why": one.why,
                    "created_at": one.created_at,
                    "expires_at": one.expires_at,
                }
                for one in board.overrides
            ],
            "unread": board.unread,
            "cancelled": operations.overrides.cancellations(since=since, limit=LISTED),
            "held": operations.holds.held(),
        }
