"""
Holds: groups whose later messages follow a dead letter into the dead-letter queue, until an operator lets them go.

For kinds whose order matters more than progress. A hold begins before its first dead letter is sent, and it is known
to every environment before that one leaves the queue: until then SQS gives out no later message of the group.

How it ends: dead letters go back to the lane as copies, which pass (`open`), while others still follow into the
dead-letter queue. Once that has none of the group left, the hold lets go (`releasing`): what stands in the lane before
the last copy is sent on behind it, and when the last copy is done the hold is over.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lanes.consumer.records import RawRecord

COPY = "redrive-"
"""Begins the deduplication id of what was sent to its lane again."""


def copy_id(message_id: str) -> str:
    """Return the deduplication id with which a message goes to its lane again: the same in every try."""
    return f"{COPY}{message_id}"


def is_copy(record: RawRecord) -> bool:
    """Whether a record was sent to its lane again."""
    return record.deduplication_id.startswith(COPY)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """
    A held group.

    Attributes:
        leader: SQS message id of the message behind which the group is held.
        id: the message's own id.
        reason: why that one is given up.
        error: what its last attempt raised.
        since: epoch seconds of the beginning.
        behind: how many followed it into the dead-letter queue.
        open: copies of dead letters pass.
        releasing: no dead letter of the group is left.
        last: deduplication id of the last copy that was sent and is not done.

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


class NoHolds:
    """Holds nothing."""

    def read(self, lane: str, groups: Sequence[str]) -> Mapping[str, Hold]:  # noqa: ARG002
        """Return none."""
        return {}

    def begin(self, hold: Hold) -> None:
        """Do nothing."""

    def behind(self, lane: str, group: str) -> bool:  # noqa: ARG002
        """Nothing is held."""
        return False

    def send_behind(self, lane: str, group: str, *, copy: str) -> bool:  # noqa: ARG002
        """Nothing is held."""
        return False

    def copy_done(self, lane: str, group: str, *, copy: str) -> None:
        """Do nothing."""
