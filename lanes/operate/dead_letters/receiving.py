"""Receives of a run through a dead-letter queue."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from lanes.operate.dead_letters.listing import LARGEST_RECEIVE

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from lanes.operate.dead_letters.group import Groups
    from lanes.operate.dead_letters.listing import DeadLetteredMessage, DeadLetterQueues

ALONE_FOR = 9
"""Rounds with one receive each, after a second receive found no other group beside the first ten."""


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
