"""
Breakers: after a few calls in a row found their resource away, no record of it starts until a pause has ended.

Each environment judges by its own records, so no slot has to know of another.
"""

from __future__ import annotations

import dataclasses
import math
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

# With one call in ten refused, three in a row are one in a thousand.
IN_A_ROW = 3
"""Calls in a row that find the resource away until its breaker opens."""

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
"""Seconds of the first pause and of the longest; each is twice as long as the one before."""

REMEMBERED = 10_000
"""Messages that a breaker remembers."""


@dataclasses.dataclass(slots=True, eq=False)
class Breaker:
    """
    One resource, as one environment finds it: closed, open for a pause, then half open for one try.

    Attributes:
        monotonic: returns seconds that no one sets back.
        failures: calls in a row that found it away.
        away_since: when the first of them did, in seconds of `monotonic`.

    """

    monotonic: Callable[[], float]
    failures: int = 0
    away_since: float = 0.0
    _until: float = 0.0
    _failed: list[Collection[str]] = dataclasses.field(default_factory=list)
    _alone: OrderedDict[str, None] = dataclasses.field(default_factory=OrderedDict)

    @property
    def is_open(self) -> bool:
        """Whether enough calls in a row found the resource away: one record at a time starts, after each pause."""
        return self.failures >= IN_A_ROW

    @property
    def seconds_left(self) -> float:
        """The seconds until the next try; 0 if a record may start now."""
        return max(0.0, self._until - self.monotonic()) if self.is_open else 0.0

    def forgives(self, message_id: str) -> bool:
        """
        Whether a message that finds the resource away is not to blame, so that this is no attempt.

        It is to blame if others were handled right before, and right after it said so an earlier time.
        """
        if self.failures:
            self._alone.pop(message_id, None)
            return True
        return message_id not in self._alone

    def failed(self, message_ids: Collection[str], *, after: float | None = None) -> float:
        """
        Note a call that found the resource away, and return the seconds after which its records return.

        `after` is the pause that the handler asked for. The records of two tries in a row return a second after the
        pause has ended: so another record is tried next, and one message can't make every try fail.
        """
        now = self.monotonic()
        if not self.failures:
            self.away_since = now
        self.failures += 1
        doublings = min(max(0, self.failures - IN_A_ROW), 10)
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0**doublings) if after is None else after
        self._until = now + pause
        is_again = self.is_open and any(one in self._failed[-1] for one in message_ids)
        self._failed = [*self._failed[1 - IN_A_ROW :], () if is_again else message_ids]
        return max(1.0, math.floor(pause)) + is_again

    def succeeded(self, message_id: str) -> None:
        """Note a record whose handler found the resource."""
        if not (self.failures or self._alone):
            return
        self._alone.pop(message_id, None)
        if self.failures <= IN_A_ROW:
            for message_ids in self._failed:
                self._alone.update(dict.fromkeys(message_ids))
            while len(self._alone) > REMEMBERED:
                self._alone.popitem(last=False)
        self.failures, self._until = 0, 0.0
        self._failed.clear()
