"""Dead letters as the page shows them, and the filters that it sends."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from lanes.config_table import parse_duration
from lanes.errors import ConfigurationError
from lanes.operate.dead_letters import DeadLetterFilter

if TYPE_CHECKING:
    from lanes.operate.dead_letters import DeadLetteredMessage
    from lanes.ui.fields import Fields


def filter_of(fields: Fields) -> DeadLetterFilter:
    """
    Read a filter; times are ages such as 2h.

    Raises:
        ConfigurationError: an age is none.
    """
    return DeadLetterFilter(
        kind=fields.text("kind"),
        group=fields.text("group"),
        reason=fields.text("reason"),
        since=ago(fields, "since"),
        until=ago(fields, "until"),
        ids=tuple(fields.texts("ids")),
    )


def row_of(letter: DeadLetteredMessage) -> dict[str, Any]:
    """Return what a table shows of a dead letter."""
    return {
        "lane": letter.lane,
        "message_id": letter.message_id,
        "kind": letter.kind,
        "id": letter.event_id,
        "group": letter.group,
        "given_up_at": letter.dead_at,
        "attempts": letter.note.get("attempts"),
        "reason": letter.reason,
        "error": letter.error,
    }


def details_of(letter: DeadLetteredMessage) -> dict[str, Any]:
    """Return everything that is known of a dead letter."""
    noted = letter.note
    return {
        **row_of(letter),
        "yields": noted.get("yields"),
        "receives": noted.get("receives"),
        "original_message_id": noted.get("message_id"),
        "original_deduplication_id": noted.get("deduplication_id"),
        "sent_at": noted.get("sent_at", letter.sent_at),
        "first_received_at": noted.get("first_received_at"),
        "attributes": letter.attributes,
        "body": letter.body,
    }


def ago(fields: Fields, name: str) -> float | None:
    """
    Read an age, and return the time that it means; None where there is none.

    Raises:
        ConfigurationError: it is no age.
    """
    text = fields.text(name)
    if text is None:
        return None
    age = parse_duration(text)
    if age is None:
        raise ConfigurationError([f"{name} is {text!r}; an age such as 15m, 2h or 3d is needed"], source=name)
    return time.time() - age.total_seconds()
