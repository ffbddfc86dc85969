"""Count the messages that each active override has met: cancelled or sent to another lane."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING

from lanes.errors import LanesError
from lanes.events import Event
from lanes.operate.history.log import read_event
from lanes.overrides import Action

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.operate.history.log import Logs
    from lanes.overrides import Cancelled, Override

# Ten calls of DynamoDB, or one of CloudWatch Logs.
MOST = 10_000


def count_met(
    overrides: Sequence[Override],
    *,
    cancellations: Callable[[float, int], Sequence[Cancelled]],
    logs: Callable[[], Logs],
    note: Callable[[str], None],
) -> Mapping[str, int | None]:
    """
    Return the number of messages that each override has met, by its id; None if it can't be read.

    Cancelled messages are items of the table. Moved ones are events of the log, which must not be counted twice: a
    moved message that returns before its deletion is moved again.

    Args:
        overrides: the active overrides.
        cancellations: returns the cancelled messages since a time, at most a number of them.
        logs: returns the log of the function; called only if an override moves messages.
        note: receives a note about a count that is unknown or incomplete.
    """
    counts: dict[str, int | None] = dict.fromkeys((one.id for one in overrides), 0)
    if cancels := [one for one in overrides if one.action is Action.CANCEL]:
        found = cancellations(min(one.created_at for one in cancels), MOST)
        counts |= Counter(one.override for one in found if one.override in counts)
        if len(found) == MOST:
            note(f"only the last {MOST:,} cancelled messages are counted")
    if moves := [one for one in overrides if one.action is Action.PRIORITIZE]:
        try:
            counts |= _moved(moves, logs(), note)
        except LanesError as error:
            note(f"moved messages unknown: {' '.join(str(error).split())}")
            counts |= dict.fromkeys(one.id for one in moves)
    return counts


def _moved(moves: Sequence[Override], logs: Logs, note: Callable[[str], None]) -> dict[str, int]:
    since = min(one.created_at for one in moves)
    lines = list(itertools.islice(logs.lines(since=since, containing=(Event.MESSAGE_MOVED,)), MOST))
    if len(lines) == MOST:
        note(f"only the first {MOST:,} moved messages are counted")
    events = (read_event(line) for line in lines)
    moved = {
        (str(event.fields.get("override")), str(event.fields.get("message_id")))
        for event in events
        if event is not None and event.name == Event.MESSAGE_MOVED
    }
    counted = Counter(override for override, _ in moved)
    return {one.id: counted[one.id] for one in moves}
