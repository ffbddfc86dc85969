"""Dead letters in a hundred columns, without the held ones."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.operate.dead_letters.listing import DeadLetteredMessage


def brief_rows(
    letters: Sequence[DeadLetteredMessage], *, now: float, with_lane: bool
) -> list[dict[str, Any]]:
    """Return the rows of the dead letters that are not held behind another one."""
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
        if not letter.held_behind
    ]
