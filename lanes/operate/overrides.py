"""
The operators' side of overrides: what is wanted with messages that wait in queues already.

Owns the word change: what an operator asks for once, over outbox entries and queued messages alike.
"""

from __future__ import annotations

import dataclasses
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from lanes.consumer.overrides import Action, Override

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lanes.config import LanesConfig
    from lanes.consumer.overrides import Board, Cancelled
    from lanes.consumer.yielding import LaneDepth
    from lanes.message_filter import MessageFilter

LASTS = timedelta(days=14)
"""AWS: a message lives at most 14 days in a queue, so that none outlives an override (SQS quotas)."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """
    What an operator wants with messages that wait.

    Attributes:
        action: what to do.
        wanted: with which.
        priority: the new one, where the action is to prioritize.
        why: in the operator's words.
        lasts: for how long messages in queues are looked for.

    """

    action: Action
    wanted: MessageFilter
    priority: int = 0
    why: str = ""
    lasts: timedelta = LASTS


class OverrideBoard(Protocol):
    """The board; every method raises `AwsError`."""

    def now(self) -> float:
        """Return the time by the clock of AWS, epoch seconds."""

    def board(self) -> Board:
        """Read the board."""

    def add(self, override: Override) -> None:
        """Put an override on the board, and take off what has expired."""

    def withdraw(self, override_id: str) -> None:
        """Take an override off the board."""

    def cancellations(self, *, since: float, limit: int) -> Sequence[Cancelled]:
        """Return messages that were cancelled in queues, the latest first."""


class LaneDepths(Protocol):
    """Counts of queues; every method raises `AwsError`."""

    def depth(self, lane: str) -> LaneDepth:
        """Return the counts of a lane's queue."""


def waiting(config: LanesConfig, depths: LaneDepths, change: Change) -> Mapping[str, int]:
    """
    Return about how many messages wait in the lanes where the change may find some, by lane.

    Nobody can look into a queue: how many of them are meant turns out when they are received.
    """
    target = config.lane_for(change.priority).name if change.action is Action.PRIORITIZE else None
    counted = {lane.name: depths.depth(lane.name) for lane in config.lanes if lane.name != target}
    return {lane: depth.backlog + depth.in_flight for lane, depth in counted.items()}


def override_for(change: Change, *, who: str, now: float) -> Override:
    """Return the override that carries a change to the consumer."""
    return Override(
        id=uuid.uuid4().hex[:12],
        action=change.action,
        wanted=change.wanted,
        created_at=now,
        expires_at=now + change.lasts.total_seconds(),
        who=who,
        why=change.why,
        priority=change.priority,
    )
