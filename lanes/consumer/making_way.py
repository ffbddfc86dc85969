"""Making way: whether one invocation may go on with its next record, for the time it has and for what waits above."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.consumer.ahead import SHORTEST
from lanes.consumer.context import Yielded
from lanes.consumer.invocation import SETTLING
from lanes.consumer.telemetry import Metric
from lanes.errors import AwsError

if TYPE_CHECKING:
    from lanes.config import Lane
    from lanes.consumer.invocation import Invocation
    from lanes.consumer.parts import Parts
    from lanes.consumer.records import RawRecord

WAITING_SHARE = 1 / 3
"""Most share of the function timeout for which a batch waits for a slot: the rest is for its records."""

WHOLE_INVOCATION = 0.9
"""Share of the function timeout beyond which a record is tried all the same: it would fit nowhere."""

LAST_RECEIVE = 1000
"""AWS: the largest maxReceiveCount. A record received so often is handled rather than yielded to its end."""


class MakingWay:
    """
    Asked before each record of one invocation, and by handlers in mid-work.

    Attributes:
        to: the lane that is made way for, where it is known.
        known: whether that was known without a reading.

    """

    def __init__(self, parts: Parts, invocation: Invocation) -> None:
        self._parts = parts
        self._invocation = invocation
        self.to: Lane | None = None
        self.known = False
        self._overdue = False
        self._last_chance = False
        self._expected = parts.longest.get(invocation.lane.name, 0.0)
        self._needed = self._needed_for(self._expected)
        self._reads_ahead = self._expected >= SHORTEST

    @property
    def patience(self) -> float:
        """Seconds to wait for a slot: a share of the time there is, and no longer than a record could begin."""
        share = self._parts.settings.function_timeout.total_seconds() * WAITING_SHARE
        return max(0.0, min(share, self._invocation.seconds_left() - self._needed))

    @property
    def lasts(self) -> float:
        """Seconds that what is left of the batch is likely to take; 0 where that is not known."""
        return self._left * self._parts.ahead.likely(self._invocation.lane)

    @property
    def _left(self) -> int:
        return len(self._invocation.records) - len(self._invocation.done)

    def is_too_late(self) -> bool:
        """Whether the time that is left is too short for the next record."""
        return self._invocation.seconds_left() < self._needed

    def _needed_for(self, likely: float) -> float:
        settings = self._parts.settings
        if settings.record_time is not None:
            likely = max(likely, settings.record_time.total_seconds())
        return min(likely + SETTLING, settings.function_timeout.total_seconds() * WHOLE_INVOCATION)

    def must_yield(self, record: RawRecord) -> bool:
        """Whether the record has to make way; not knowing is a reason to, so a failed reading yields."""
        parts, invocation = self._parts, self._invocation
        self._overdue, self.to, self.known = False, None, False
        self._last_chance = record.receive_count >= LAST_RECEIVE
        if self._last_chance:
            return False
        try:
            above = parts.gate.lane_above(invocation.lane, expected=self._expected)
        except AwsError:
            parts.telemetry.problem("higher_lanes_unknown", lane=invocation.lane.name)
            parts.telemetry.count(Metric.AWS_ERRORS)
            return True
        if above is None:
            return False
        if invocation.done:
            # Records of this lane ran since the last look, and what waits now may have waited as long.
            since = max(parts.gate.clear_at, invocation.began_at)
            parts.telemetry.milliseconds(Metric.INVERSION, (parts.clock() - since) * 1000)
        self._overdue = parts.seat.serves_overdue and parts.reserve.admits(invocation.lane, record)
        self.to, self.known = above, parts.gate.knew
        return not self._overdue and not self._waits_in_place(record)

    def _waits_in_place(self, record: RawRecord) -> bool:
        """Make way without sending anything back, where there is a waiting room; return whether the slot came back."""
        parts, invocation = self._parts, self._invocation
        try:
            back = parts.seat.waits_in_place(
                invocation.lane,
                records=self._left,
                deadline=invocation.deadline,
                patience=self.patience,
                overdue=lambda: parts.reserve.admits(invocation.lane, record),
            )
        except AwsError:
            parts.telemetry.problem("slot_not_entered", lane=invocation.lane.name)
            parts.telemetry.count(Metric.AWS_ERRORS)
            return False
        # Without a room it never came back, so this asks for what was told in line alone.
        self._overdue = back and parts.seat.serves_overdue
        return back and not self.is_too_late()

    def check(self) -> None:
        """
        Serve `context.checkpoint`.

        Raises:
            Yielded: the handler has to leave.

        """
        if self._invocation.is_over:
            raise Yielded
        if self._overdue or self._last_chance:
            return
        self._parts.ahead.end()
        try:
            above = self._parts.gate.lane_above(self._invocation.lane, expected=0.0)
        except AwsError:
            # In mid-work, going on loses least: the state is asked again before the next record.
            self._parts.telemetry.problem("higher_lanes_unknown", lane=self._invocation.lane.name)
            return
        if above is not None:
            self.to, self.known = above, False
            raise Yielded

    def begins(self) -> None:
        """
        Let what the next record has to make way for be found out while the handler of this one is at work.

        Not where there will be no time for a next one: the answer must not wait for a slow reading in vain.
        """
        if self._reads_ahead and self._invocation.seconds_left() - self._expected >= self._needed:
            self._parts.ahead.begin(self._invocation.lane, expected=self._expected)

    def ends(self, seconds: float) -> None:
        """Learn how long a record took, and charge it to the reserve if that served it."""
        parts = self._parts
        if self._reads_ahead:
            parts.ahead.end()
        if seconds > self._expected:
            parts.longest[self._invocation.lane.name] = self._expected = seconds
            self._needed = self._needed_for(seconds)
            self._reads_ahead = seconds >= SHORTEST
        if self._reads_ahead:
            parts.ahead.took(self._invocation.lane, seconds)
        if self._overdue:
            parts.reserve.spend(seconds)
            parts.telemetry.count(Metric.RESERVE)
