"""What became of each message of a run: how often it was begun, failed and done, in a few bytes each."""

from __future__ import annotations

from array import array
from collections import defaultdict

_MOST = 255


class Chronicle:
    """
    Counts starts and ends by a message's place in the run, from 1.

    Attributes:
        attempts: of messages that were begun more than once, or failed: the attempt numbers that the handler was
            told, and how each ended ("done", "failed", "died", "yielded" at a checkpoint).

    """

    def __init__(self) -> None:
        self._begun = bytearray(1)
        self._done = bytearray(1)
        self._sent_at = array("d", [0.0])
        self.attempts: dict[int, list[tuple[int, str]]] = defaultdict(list)

    def sent(self, at: float) -> int:
        """Note a message that is sent at a moment, in epoch seconds, and return its place."""
        self._sent_at.append(at)
        self._begun.append(0)
        self._done.append(0)
        return len(self._begun) - 1

    def begin(self, place: int) -> int:
        """Note a start; return how many there were before, 255 standing for all above."""
        before = self._begun[place]
        self._begun[place] = min(before + 1, _MOST)
        return before

    def end(self, place: int, *, attempt: int, how: str) -> None:
        """Note an end."""
        if how == "done":
            self._done[place] = min(self._done[place] + 1, _MOST)
        if how != "done" or place in self.attempts:
            self.attempts[place].append((attempt, how))

    def sent_at(self, place: int) -> float:
        """Return when it was sent."""
        return self._sent_at[place]

    def times_begun(self, place: int) -> int:
        """Return how often a handler was started."""
        return self._begun[place]

    def times_done(self, place: int) -> int:
        """Return how often it was done."""
        return self._done[place]

    @property
    def places(self) -> range:
        """The places of all messages."""
        return range(1, len(self._begun))
