"""The fields of a dead letter that every front end shows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.operate.dead_letters.listing import DeadLetteredMessage


def row_of(letter: DeadLetteredMessage) -> dict[str, Any]:
    """Return the fields of a dead letter in a list; times are in UTC."""
    return {
        "lane": letter.lane,
        "message_id": letter.message_id,
        "kind": letter.kind,
        "id": letter.event_id,
        "group": letter.group,
        "run": letter.run,
        "given_up_at": _time(letter.dead_at),
        "attempts": letter.note.get("attempts"),
        "code": letter.code,
        "reason": letter.reason,
        "error": letter.error,
    }


def details_of(letter: DeadLetteredMessage) -> dict[str, Any]:
    """Return all fields of a dead letter; None for unknown ones."""
    noted = letter.note
    return {
        **row_of(letter),
        "yields": noted.get("yields"),
        "receives": noted.get("receives"),
        "original_message_id": noted.get("message_id"),
        "original_deduplication_id": noted.get("deduplication_id"),
        "sent_at": _time(noted.get("sent_at", letter.sent_at)),
        "first_received_at": _time(noted.get("first_received_at")),
        "times_shown": letter.receive_count,
        "attributes": letter.attributes,
        "body": letter.body,
    }


def _time(epoch_seconds: float | None) -> datetime | None:
    return None if epoch_seconds is None else datetime.fromtimestamp(epoch_seconds, UTC)


def brief_rows(
    letters: Sequence[DeadLetteredMessage], *, now: float, with_lane: bool
) -> list[dict[str, Any]]:
    """Return the rows of a list for a terminal."""
    return [
        {
            **({"lane": letter.lane} if with_lane else {}),
            "id": letter.event_id or letter.message_id,
            "kind": letter.kind,
            "group": letter.group,
            "age": timedelta(seconds=max(0, round(now - letter.dead_at))),
            "attempts": letter.note.get("attempts"),
            "reason": letter.reason,
        }
        for letter in letters
    ]
