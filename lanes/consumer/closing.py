"""Closing an invocation: its slot is left, what goes back is settled, and parked records are woken."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.consumer.telemetry import Metric
from lanes.errors import AwsError

if TYPE_CHECKING:
    from lanes.consumer.invocation import Invocation
    from lanes.consumer.parts import Parts
    from lanes.consumer.returns import Returns

WAKING, WAKING_SHARE = 2.0, 0.2
"""Seconds, and share of the function timeout, that must be left to wake others: the answer must not be late for it."""


class Closing:
    """The steps at the end of one invocation."""

    def __init__(self, parts: Parts, invocation: Invocation, returns: Returns) -> None:
        self._parts = parts
        self._invocation = invocation
        self._returns = returns

    def close(self) -> None:
        """Leave the slot, settle what goes back, and wake parked records if nothing was in the way."""
        for step in (self._leave, self._returns.settle, self._look_ahead, self._tell_time):
            try:
                step()
            except Exception:  # noqa: BLE001 - what was done stays done, whatever goes wrong after it
                self._parts.telemetry.problem("batch_not_closed", lane=self._invocation.lane.name)

    def _leave(self) -> None:
        lane, records = self._invocation.lane, self._invocation.records
        # SQS fills a batch from one group as far as it can: what is full of one may have left others of it behind.
        more_behind = len(records) == lane.batch_size and len({record.group for record in records}) == 1
        try:
            self._parts.seat.leave(
                lane, done=len(self._invocation.done), kept=len(self._returns), more_behind=more_behind
            )
        except AwsError:
            self._parts.telemetry.problem("slot_not_left", lane=lane.name)

    def _look_ahead(self) -> None:
        parts, lane = self._parts, self._invocation.lane
        needed = max(WAKING, WAKING_SHARE * parts.settings.function_timeout.total_seconds())
        if self._returns.has_yielded or self._invocation.seconds_left() <= needed:
            return
        try:
            parts.gate.look_back(lane)
        except AwsError:
            parts.telemetry.problem("own_lane_unknown", lane=lane.name)
            parts.telemetry.count(Metric.AWS_ERRORS)
        parts.waker.wake(lane, replaces=self._leaves_share())

    def _leaves_share(self) -> bool:
        """Whether it leaves a slot to a tenant that holds less than its share and may have records parked."""
        parts, lane, records = self._parts, self._invocation.lane, self._invocation.records
        if not parts.fairness.concerns(lane):
            return False
        elsewhere = parts.others.busy_with(lane, lane.tenant_of(records[0].group))
        again = any(record.receive_count > 1 for record in records)
        return (again or elsewhere > 0) and elsewhere < parts.fairness.most(lane)

    def _tell_time(self) -> None:
        milliseconds = (self._parts.clock() - self._invocation.began_at) * 1000
        self._parts.telemetry.milliseconds(Metric.BATCH, milliseconds)
