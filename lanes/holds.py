"""
Group holds: the later messages of a group follow a dead letter into the dead-letter queue, until it is released.

For kinds whose order matters more than progress. A hold begins before its first dead letter is sent, and every
environment knows of it before that message leaves the queue: until then SQS delivers no later message of the group.

An operator ends it. Dead letters are redriven to the lane as copies, which pass (`open`), while other messages still
follow into the dead-letter queue. Once that has none of the group left, the hold is `releasing`: messages that wait in
the lane in front of the last copy are sent again behind it. The hold ends when the last copy is done.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol

from lanes.message import REDRIVEN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lanes.overrides import QueuedRecord


def copy_id(message_id: str) -> str:
    """Return the deduplication id of a redriven message: the same in every try."""
    return f"{REDRIVEN}{message_id}"


def is_copy(record: QueuedRecord) -> bool:
    """Whether a record was redriven to its lane."""
    return record.deduplication_id.startswith(REDRIVEN)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """
    A held group.

    Attributes:
        leader: SQS message id of the message behind which the group is held.
        id: the message's own id.
        reason: why the leader is dead-lettered.
        error: error of its last attempt.
        since: epoch seconds of the beginning.
        behind: number of messages that followed it into the dead-letter queue.
        open: copies of dead letters pass.
        releasing: no dead letter of the group is left.
        last: deduplication id of the last copy that is not done.

    """

    lane: str
    group: str
    leader: str
    id: str
    reason: str
    error: str
    since: float
    behind: int = 0
    open: bool = False
    releasing: bool = False
    last: str = ""


class Holds(Protocol):
    """The consumer's side of the held groups; every method raises `AwsError`, and may be repeated."""

    def read(self, lane: str, groups: Sequence[str]) -> Mapping[str, Hold]:
        """Return those of the groups that are held, by group, in one consistent read."""

    def begin(self, hold: Hold) -> None:
        """Hold a group; where it is held already, copies pass no more and the new leader takes the place of the old."""

    def behind(self, lane: str, group: str) -> bool:
        """Count one that follows into the dead-letter queue; return False where the hold lets go or is over."""

    def send_behind(self, lane: str, group: str, *, copy: str) -> bool:
        """Note that a copy is about to be sent behind the others; return False unless the hold lets go."""

    def copy_done(self, lane: str, group: str, *, copy: str) -> None:
        """Note that a copy is done: the last one ends a hold that lets go."""
