"""
The order of a held group's dead letters.

A queue returns them as they arrived. After a copy failed again, that is no longer the order of the messages in their
lane. Each message knows its place there, so a redrive sends letters that are not next to the end of their queue until
the next one is in front.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lanes.operate.dead_letters.listing import DeadLetteredMessage


class LetterOrder:
    """The letters of one group in one redrive: first all of them are looked at once, then they are taken in order."""

    def __init__(self) -> None:
        self._waiting: list[float] = []
        self._sent_back: set[str] = set()
        self._is_known = False

    def takes(self, letter: DeadLetteredMessage, *, is_meant: bool) -> bool:
        """Whether a letter is next. All others go to the end of the queue."""
        # The first of those that went there is in front again, so the queue has been seen once around.
        self._is_known = self._is_known or letter.message_id in self._sent_back
        if is_meant and letter.order not in self._waiting:
            insort(self._waiting, letter.order)
        is_next = self._is_known and is_meant and letter.order == self._waiting[0]
        if is_next:
            self._waiting.pop(0)
        return is_next

    @property
    def is_done(self) -> bool:
        """Whether no letter waits for its turn."""
        return self._is_known and not self._waiting

    def sent_back(self, message_id: str) -> None:
        """Record the new id of a letter that went to the end of the queue."""
        self._sent_back.add(message_id)
