"""A change of waiting messages, and the override that carries it to the consumer."""

from __future__ import annotations

import dataclasses
import itertools
import uuid
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from lanes.errors import LanesError
from lanes.events import Event
from lanes.operate.history.log import read_event
from lanes.overrides import Action, Override

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.config import LanesConfig
    from lanes.message_filter import MessageFilter
    from lanes.operate.history.log import Logs
    from lanes.operate.lanes.status import Depths
    from lanes.overrides import ActiveOverrides, Cancelled

LIFETIME = timedelta(days=14)
"""AWS: a message stays at most 14 days in a queue, so none outlives an override (SQS quotas)."""
# Ten calls of DynamoDB, or one of CloudWatch Logs.
MOST = 10_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """
    A change of waiting messages, by an operator.

    Attributes:
        action: the action.
        wanted: selects the messages.
        priority: the new priority, if the action is to prioritize.
        why: the operator's reason.
        lifetime: how long the change applies to messages in queues.

    """

    action: Action
    wanted: MessageFilter
    priority: int = 0
    why: str = ""
    lifetime: timedelta = LIFETIME


class Overrides(Protocol):
    """The active overrides; every method raises `AwsError`."""

    def now(self) -> float:
        """Return the time by the clock of AWS, in epoch seconds."""

    def active(self) -> ActiveOverrides:
        """Read the active overrides."""

    def add(self, override: Override) -> None:
        """Add an override, and remove the expired ones."""

    def withdraw(self, override_id: str) -> None:
        """Remove an override."""

    def cancellations(self, *, since: float, limit: int) -> Sequence[Cancelled]:
        """Return messages that were cancelled in queues, the latest first."""


def waiting(config: LanesConfig, depths: Depths, change: Change) -> Mapping[str, int]:
    """
    Return roughly how many messages wait in the lanes that the change may apply to, by lane.

    A queue can't be searched: only when a message is received does it turn out whether it matches.
    """
    # Messages in the lane of the new priority stay where they are.
    target = config.lane_for(change.priority).name if change.action is Action.PRIORITIZE else None
    counted = {lane.name: depths.depth(lane.name) for lane in config.lanes if lane.name != target}
    return {lane: depth.messages for lane, depth in counted.items()}


def override_for(change: Change, *, who: str, now: float) -> Override:
    """Return the override that carries a change to the consumer."""
    return Override(
        # Short, since operators type it to withdraw the override.
        id=uuid.uuid4().hex[:12],
        action=change.action,
        wanted=change.wanted,
        created_at=now,
        expires_at=now + change.lifetime.total_seconds(),
        who=who,
        why=change.why,
        priority=change.priority,
    )


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
