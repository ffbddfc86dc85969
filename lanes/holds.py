"""
Group holds: the later messages of a group follow a dead letter into the dead-letter queue, until it is released.

For kinds whose order matters more than progress. A hold begins before its first dead letter is sent, and every
environment knows of it before that message leaves the queue: until then SQS delivers no later message of the group.

An operator ends it. Dead letters are redriven to the lane as copies, which pass while the redrive's `opening` lasts;
other messages still follow into the dead-letter queue. Once that has none of the group left, the hold is `RELEASING`:
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
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from lanes.errors import AwsError
from lanes.message import REDRIVEN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.overrides import QueuedRecord


COPY_ID = re.compile(rf"{REDRIVEN}([0-9a-f]*)-(\d*)-(\S+)")
NO_ORDER = float("inf")
"""The order of a message that has none, such as one that SQS itself moved to the dead-letter queue."""

HELD_BEHIND = "held behind "
"""Prefix of the reason of a dead letter that follows another one, before the id of that one."""

TRIES = 5
"""Times that a change is decided on the hold as it is by then; the consumer and one operator meet, not more."""


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


class State(StrEnum):
    """The state of a hold; only an ended one is removed."""

    ARRIVING = "arriving"
    """The leader is on its way to the dead-letter queue: no redrive opens or ends the hold."""
    RELEASED = "released"
    """An operator released the group before the leader arrived: the hold ends with that."""
    HELD = "held"
    """The leader is in the dead-letter queue, or was; all others follow it."""
    OPEN = "open"
    """The copies of one redrive pass, all others follow."""
    RELEASING = "releasing"
    """No dead letter is left: the hold ends with the last copy, and all others are sent behind that."""
    ENDED = "ended"
    """The group is not held."""


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
        state: what becomes of the group's messages.
        behind: number of messages that followed it into the dead-letter queue.
        opening: name of the redrive's opening, by which its copies pass; empty unless OPEN or RELEASING.
        last: deduplication id of the last copy that is not done; empty unless OPEN or RELEASING.
        again: copies have followed, so that letters may be out of their order.

    """

    lane: str
    group: str
    leader: str
    id: str
    reason: str
    error: str
    since: float
    state: State = State.ARRIVING
    behind: int = 0
    opening: str = ""
    last: str = ""
    again: bool = False

    def passes(self, record: QueuedRecord) -> bool:
        """Whether a record is a copy of the redrive that has opened the group; copies of an earlier one are not."""
        copy = COPY_ID.fullmatch(record.deduplication_id)
        return copy is not None and self.opening != "" and copy[1] == self.opening


class HoldStore(Protocol):
    """Where holds are kept; every method raises `AwsError`."""

    def read(self, lane: str, groups: Sequence[str]) -> Mapping[str, Hold]:
        """Return those of the groups that are held, by group, in one consistent read."""

    def held(self, lane: str | None = None) -> Sequence[Hold]:
        """Return all holds, those held longest first, as of about a second ago."""

    def write(self, before: Hold | None, after: Hold) -> bool:
        """Replace a hold, remove it if it is `ENDED`, or add it; return False if it is not as it was before."""


class Holds:
    """The held groups; every method raises `AwsError`, and may be repeated."""

    def __init__(self, store: HoldStore) -> None:
        self.read = store.read
        self.held = store.held
        self._write = store.write

    def begin(self, hold: Hold) -> None:
        """Hold a group; if it is held already, copies pass no more and the new leader takes the place of the old."""
        for _ in range(TRIES):
            known = self.read(hold.lane, [hold.group]).get(hold.group)
            # A new dead letter closes the group again: copies behind it must not overtake it.
            after = replace(hold, since=known.since, behind=known.behind, again=True) if known else hold
            if self._write(known, replace(after, state=State.ARRIVING) if known else after):
                return
        raise AwsError(operation="UpdateItem", code="HoldChangedMeanwhile", retryable=True)

    def arrived(self, lane: str, group: str, *, leader: str) -> None:
        """Record that the leader is in the dead-letter queue, unless the group has another one by now."""
        follows = {State.ARRIVING: State.HELD, State.RELEASED: State.ENDED}

        def after(hold: Hold) -> Hold | None:
            return replace(hold, state=follows.get(hold.state, hold.state)) if hold.leader == leader else None

        self._change(lane, group, after)

    def behind(self, lane: str, group: str, *, closes: bool = False) -> bool:
        """
        Count one that follows into the dead-letter queue; return False if the hold is being released or is over.

        With `closes`, copies pass no more, and a release stops.
        """

        def after(hold: Hold) -> Hold | None:
            if hold.state is State.RELEASED or (hold.state is State.RELEASING and not closes):
                return None
            counted = replace(hold, behind=hold.behind + 1)
            if not closes:
                return counted
            state = State.ARRIVING if hold.state is State.ARRIVING else State.HELD
            return replace(counted, state=state, opening="", last="", again=True)

        return self._change(lane, group, after)

    def send_behind(self, lane: str, group: str, *, copy: str) -> bool:
        """Record a copy about to be sent behind the others; return False unless the hold is being released."""
        return self._change(
            lane, group, lambda hold: replace(hold, last=copy) if hold.state is State.RELEASING else None
        )

    def copy_done(self, lane: str, group: str, *, copy: str) -> None:
        """Record that a copy is done: the last one ends a hold that is being released."""

        def after(hold: Hold) -> Hold | None:
            if hold.last != copy:
                return None
            return replace(hold, last="", state=State.ENDED if hold.state is State.RELEASING else hold.state)

        self._change(lane, group, after)

    def open(self, lane: str, group: str, *, opening: str) -> bool:
        """Let the copies of an opening pass; return False if the leader has not arrived, or another opening lasts."""

        def after(hold: Hold) -> Hold | None:
            if hold.state is State.HELD:
                return replace(hold, state=State.OPEN, opening=opening)
            return hold if hold.opening == opening else None

        return self._change(lane, group, after)

    def sending(self, lane: str, group: str, *, copy: str, opening: str) -> bool:
        """Announce a copy of a dead letter; return False if copies of the opening can no longer pass."""
        return self._change(
            lane, group, lambda hold: replace(hold, last=copy) if hold.opening == opening else None
        )

    def let_go(self, read: Hold) -> bool:
        """
        End a hold of which no dead letter is left: now, or when the last copy is done.

        Returns:
            False if another message has followed into the dead-letter queue since the hold was read, or the leader is
            still on its way there.
        """

        def after(hold: Hold) -> Hold | None:
            is_same = (hold.leader, hold.behind) == (read.leader, read.behind)
            if not is_same or hold.state in (State.ARRIVING, State.RELEASED):
                return None
            return replace(hold, state=State.RELEASING if hold.last else State.ENDED)

        return self._change(read.lane, read.group, after)

    def end(self, lane: str, group: str) -> bool:
        """End a hold, with or without dead letters, at once or as its leader arrives; return False if there is none."""
        early = (State.ARRIVING, State.RELEASED)
        return self._change(
            lane,
            group,
            lambda hold: replace(hold, state=State.RELEASED if hold.state in early else State.ENDED),
        )

    def forget(self, lane: str, group: str) -> None:
        """Remove a hold that was released before its leader arrived."""
        self._change(
            lane,
            group,
            lambda hold: replace(hold, state=State.ENDED) if hold.state is State.RELEASED else None,
        )

    def _change(self, lane: str, group: str, after: Callable[[Hold], Hold | None]) -> bool:
        """Write the next state of a hold; return False if it has none. Another writer's change is read first."""
        for _ in range(TRIES):
            hold = self.read(lane, [group]).get(group)
            changed = None if hold is None else after(hold)
            if changed is None:
                return False
            if changed == hold or self._write(hold, changed):
                return True
        raise AwsError(operation="UpdateItem", code="HoldChangedMeanwhile", retryable=True)
