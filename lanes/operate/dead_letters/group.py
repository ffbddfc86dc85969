"""The state of one group in a run through a dead-letter queue, and the order of its dead letters."""

from __future__ import annotations

import dataclasses
from bisect import insort
from collections import defaultdict
from typing import TYPE_CHECKING

from lanes.operate.dead_letters.listing import LARGEST_RECEIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from lanes.operate.dead_letters.listing import DeadLetteredMessage, DeadLetterQueues
ALONE_FOR = 9
"""Rounds with one receive each, after a second receive found no other group beside the first ten."""


class LetterOrder:
    """
    The order of a held group's dead letters.

    A queue returns them as they arrived. After a copy failed again, that is no longer the order of the messages in
    their lane. Each message knows its place there, so a redrive sends letters that are not next to the end of their
    queue until the next one is in front: first all of them are looked at once, then they are taken in order.
    """

    def __init__(self) -> None:
        self._waiting: list[float] = []
        self._sent_back: set[str] = set()
        self._is_known = False

    def takes(self, letter: DeadLetteredMessage, *, is_meant: bool) -> bool:
        """Whether a letter is next, or none waits for its turn. All others go to the end of the queue."""
        # The first of those that went there is in front again, so the queue has been seen once around.
        self._is_known = self._is_known or letter.message_id in self._sent_back
        if is_meant and letter.order not in self._waiting:
            insort(self._waiting, letter.order)
        if not self._is_known:
            return False
        if is_meant and letter.order == self._waiting[0]:
            self._waiting.pop(0)
            return True
        return not self._waiting

    def sent_back(self, message_id: str) -> None:
        """Record the new id of a letter that went to the end of the queue."""
        self._sent_back.add(message_id)


@dataclasses.dataclass(slots=True, kw_only=True)
class GroupState:
    """
    What a run knows of one group.

    Attributes:
        hidden: its dead letters that the run has received and not deleted, by message ID.
        sent: deduplication ids of its copies.
        opening: by which its copies pass; empty if the group is not held, or not opened.
        order: of its letters if they may be out of order.
        stopped: why no more of it is copied; empty if nothing stops it.
        is_cut: whether a receive may have returned only some of the letters that it could show.
        is_moved: whether letters of it were copied or deleted, so that a hold on it may end.

    """

    hidden: dict[str, DeadLetteredMessage] = dataclasses.field(default_factory=dict)
    sent: set[str] = dataclasses.field(default_factory=set)
    opening: str = ""
    order: LetterOrder | None = None
    stopped: str = ""
    is_cut: bool = False
    is_moved: bool = False


class Groups(defaultdict[str, GroupState]):
    """The groups that a run has seen; a new one has the initial state."""

    def __init__(self) -> None:
        super().__init__(GroupState)

    def hide(self, letters: Sequence[DeadLetteredMessage]) -> list[DeadLetteredMessage]:
        """Record letters as received; return those that were not."""
        fresh = [letter for letter in letters if letter.message_id not in self[letter.group].hidden]
        for letter in letters:
            # Received once more, it has another receipt handle.
            self[letter.group].hidden[letter.message_id] = letter
        return fresh

    def forget(self, letters: Sequence[DeadLetteredMessage]) -> None:
        """Record that letters are no longer hidden by the run."""
        for letter in letters:
            del self[letter.group].hidden[letter.message_id]

    @property
    def hidden(self) -> list[DeadLetteredMessage]:
        """All letters that the run hides."""
        return [letter for group in self.values() for letter in group.hidden.values()]


@dataclasses.dataclass(slots=True)
class Receiver:
    """
    Receives dead letters to work on, of several groups if there are.

    AWS: a receive takes as much as it can from one group, and no more of that group is delivered meanwhile (FIFO
    delivery logic). A copy of each of ten groups goes into one call, and ten of one group need ten calls.
    """

    queues: DeadLetterQueues
    lane: str
    hide: timedelta
    clock: Callable[[], float]
    _alone: int = 0

    def receive(self, groups: Groups, room: int) -> tuple[list[DeadLetteredMessage], bool]:
        """
        Receive at most `room` letters, and mark the groups that a full receive may cut.

        Returns:
            Those that the run did not hide, and whether any were received.
        """
        until = self.clock() + self.hide.total_seconds() / 4
        found: list[DeadLetteredMessage] = []
        fresh: list[DeadLetteredMessage] = []
        ends: list[str] = []
        while len(found) < room and self.clock() < until:
            size = min(room - len(found), LARGEST_RECEIVE)
            # Only the first receive waits: the rest is a gain if it is there.
            letters = self.queues.receive(self.lane, limit=size, hold=self.hide, wait=not found)
            found += letters
            fresh += groups.hide(letters)
            if len(letters) < size:
                is_alone = len({letter.group for letter in found}) == 1
                self._alone = ALONE_FOR if ends and not letters and is_alone else 0
                break
            ends.append(letters[-1].group)
            if self._alone:
                self._alone -= 1
                break
        if fresh:
            for group in ends:
                groups[group].is_cut = True
        return fresh, bool(found)
