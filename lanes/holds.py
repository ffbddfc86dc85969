"""
Group holds: the later messages of a group follow a dead letter into the dead-letter queue, until it is released.

For kinds whose order matters more than progress. A hold begins before its first dead letter is sent, and every
environment knows of it before that message leaves the queue: until then SQS delivers no later message of the group.

An operator ends it. Dead letters are redriven to the lane as copies, which pass while the redrive's `opening` lasts;
other messages still follow into the dead-letter queue. Once that has none of the group left, the hold is `releasing`:
messages that wait in the lane in front of the last copy are sent again behind it. The hold ends when the last copy is
done.

A copy that fails again closes the opening, and the copies behind it follow into the dead-letter queue, perhaps behind
letters that a redrive has not copied yet. So each message keeps its `order`, its first place in the lane. If a second
redrive opens the group before all of them have followed, the next of them closes it again: otherwise later messages of
the group, copied by the second redrive, would be handled first.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Protocol

from lanes.message import REDRIVEN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lanes.overrides import QueuedRecord


COPY_ID = re.compile(rf"{REDRIVEN}([0-9a-f]*)-(\d*)-(\S+)")
NO_ORDER = float("inf")
"""The order of a message that has none, such as one that SQS itself moved to the dead-letter queue."""

HELD_BEHIND = "held behind "
"""Prefix of the reason of a dead letter that follows another one, before the id of that one."""


def copy_id(message_id: str, *, opening: str = "", order: str = "") -> str:
    """
    Return the deduplication id of a redriven message: the same in every try.

    Args:
        message_id: id of its dead letter.
        opening: the opening of its group by which it passes, if the group is held.
        order: its first place in the lane.
    """
    return f"{REDRIVEN}{opening}-{order}-{message_id}"


def is_copy(record: QueuedRecord) -> bool:
    """Whether a record was redriven to its lane."""
    return COPY_ID.fullmatch(record.deduplication_id) is not None


def order_of(record: QueuedRecord) -> str:
    """
    Return the first place of a record in its lane, a whole number as text; empty if it has none.

    AWS: sequence numbers of one group increase (API_SendMessage). A copy has a new one, so its id holds the first.
    """
    copy = COPY_ID.fullmatch(record.deduplication_id)
    return copy[2] if copy else str(record.attributes.get("SequenceNumber", ""))


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
        opening: name of the redrive's opening, by which its copies pass; empty while none pass.
        arrived: the leader is in the dead-letter queue, or was.
        again: copies have followed, so that letters may be out of their order.
        released: an operator released the group before the leader arrived: nothing follows it.
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
    opening: str = ""
    arrived: bool = False
    again: bool = False
    released: bool = False
    releasing: bool = False
    last: str = ""

    def passes(self, record: QueuedRecord) -> bool:
        """Whether a record is a copy of the redrive that has opened the group; copies of an earlier one are not."""
        copy = COPY_ID.fullmatch(record.deduplication_id)
        return copy is not None and self.opening != "" and copy[1] == self.opening


class Holds(Protocol):
    """The consumer's side of the held groups; every method raises `AwsError`, and may be repeated."""

    def read(self, lane: str, groups: Sequence[str]) -> Mapping[str, Hold]:
        """Return those of the groups that are held, by group, in one consistent read."""

    def begin(self, hold: Hold) -> None:
        """Hold a group; where it is held already, copies pass no more and the new leader takes the place of the old."""

    def arrived(self, lane: str, group: str, *, leader: str) -> None:
        """Record that the leader is in the dead-letter queue, unless the group has another one by now."""

    def forget(self, lane: str, group: str) -> None:
        """Remove a hold that was released before its leader arrived."""

    def behind(self, lane: str, group: str, *, closes: bool = False) -> bool:
        """
        Count one that follows into the dead-letter queue; return False where the hold lets go or is over.

        With `closes`, copies pass no more, and a hold that lets go goes on.
        """

    def send_behind(self, lane: str, group: str, *, copy: str) -> bool:
        """Note that a copy is about to be sent behind the others; return False unless the hold lets go."""

    def copy_done(self, lane: str, group: str, *, copy: str) -> None:
        """Note that a copy is done: the last one ends a hold that lets go."""
