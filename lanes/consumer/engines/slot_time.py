"""The time of an invocation that holds a slot: until when it starts records, and until when it stays without any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.bell import MARGIN
from lanes.consumer.attempts import WHOLE_INVOCATION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.config import Lane
    from lanes.consumer.records import Batch, Invocation, RawRecord

STAYS_FOR = 5
"""Seconds for which a slot stays for a record that returns."""


class SlotTime:
    """
    The time that an invocation has left, and its batches.

    Args:
        invocation: the invocation.
        clock: returns epoch seconds.
        needed: seconds that a record of each lane needs to end in time.
        whole: seconds of a whole invocation.

    Attributes:
        is_over: whether the time is too short for another record.

    """

    def __init__(
        self,
        invocation: Invocation,
        *,
        clock: Callable[[], float],
        needed: Mapping[str, float],
        whole: float,
    ) -> None:
        self.is_over = False
        self._invocation = invocation
        self._clock = clock
        self._needed = needed
        self._whole = whole
        self._batches = 0

    def left(self) -> float:
        """Return the seconds until Lambda ends the function."""
        return self._invocation.milliseconds_left() / 1000

    def has_time_for(self, *lanes: Lane, after: float = 0.0) -> bool:
        """Whether a record of each lane, started in some seconds, is likely to end in time; else this slot ends."""
        fits = not lanes or self.left() >= self._needed_by(lanes) + after
        self.is_over = self.is_over or not fits
        return fits

    def left_beside(self, lanes: Sequence[Lane]) -> float:
        """Return the seconds that may pass before a record of any of the lanes starts; without any, this slot ends."""
        left = self.left() - self._needed_by(lanes)
        self.is_over = self.is_over or left <= 0
        return left

    def batch(self, lane: Lane, records: Sequence[RawRecord]) -> Batch:
        """Return records as the next batch of the invocation, which begins now."""
        self._batches += 1
        return self._invocation.batch(lane, records, began_at=self._clock(), part=f"-{self._batches}")

    def _needed_by(self, lanes: Sequence[Lane]) -> float:
        return max([self._needed[lane.name] for lane in lanes])

    @property
    def is_fresh(self) -> bool:
        """Whether the first batch has nearly the whole time of the invocation."""
        return self._batches == 1 and self.left() >= WHOLE_INVOCATION * self._whole


class Stay:
    """
    Until when a slot stays although all lanes are empty.

    Args:
        clock: returns epoch seconds.
        rung: seconds from its start for which messages may come for which SQS drops the rings; None if that is over.
        patrol: seconds of one look without a ring; None if one was enough.
        linger: seconds after each of its looks at messages.


    """

    def __init__(
        self, clock: Callable[[], float], *, rung: float | None, patrol: float | None, linger: float
    ) -> None:
        self._clock = clock
        self._rung = rung
        self._rung_until = clock() + (rung or 0.0)
        self._patrol = patrol
        self._linger = linger
        self._returns_at = 0.0

    @property
    def is_in_second(self) -> bool:
        """Whether SQS may still drop rings of new messages."""
        return self._clock() < self._rung_until

    def returns_in(self, seconds: float) -> None:
        """Stay for a record that returns soon: no sender rings for it."""
        if seconds <= STAYS_FOR:
            self._returns_at = max(self._returns_at, self._clock() + seconds + MARGIN)

    def until(self, *, has_worked: bool) -> float | None:
        """Return the epoch time until which the slot stays from now on; None if it leaves at once."""
        now = self._clock()
        if self._rung is not None or has_worked:
            # Each message of the ring's second is there when this has passed, so no wake-up is lost.
            return max(now + self._linger, self._rung_until, self._returns_at)
        return None if self._patrol is None else now + self._patrol
