"""Dead letters in a hundred columns: the held ones are counted by the dead letter that holds them."""

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


def held_lines(letters: Sequence[DeadLetteredMessage]) -> list[str]:
    """Return a line for each dead letter that holds others of the list."""
    groups: dict[str, list[str]] = {}
    for letter in letters:
        if letter.held_behind:
            groups.setdefault(letter.held_behind, []).append(letter.group)
    return [
        f"held behind {leader}: {len(held)} in {len(set(held))} group{'' if len(set(held)) == 1 else 's'}"
        for leader, held in groups.items()
    ]
