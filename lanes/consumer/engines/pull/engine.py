"""The pull engine's invocations: a ring of the bell, and the slot that it starts."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

from lanes.bell import COALESCING, HEARTBEAT, HEARTBEAT_LIFE, MARGIN, RETURN_EVERY, slot_of
from lanes.consumer.engines.pull.looks import POLL
from lanes.consumer.engines.pull.pace import PATIENCE
from lanes.consumer.engines.pull.slot import Slot
from lanes.consumer.engines.pull.turn import PullTurn
from lanes.consumer.records import Invocation, read_batch, response_for
from lanes.errors import AwsError
from lanes.events import Event

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lanes.config import Lane
    from lanes.config.deployment import Deployment
    from lanes.consumer.engines.pull.slot import SlotServices
    from lanes.consumer.records import PartialBatchResponse, RawRecord

STALE = 4 * (COALESCING + MARGIN)
"""
Seconds after a ring from which its second is over by any clock. If all lanes were empty then, one look is enough.

Rings pile up behind a long invocation, one for each second with a send.
"""


class PullEngine:
    """Runs the invocations of one environment."""

    def __init__(self, *, deployment: Deployment, services: SlotServices) -> None:
        self._deployment = deployment
        self._services = services
        self._timeout = deployment.config.consumer.function_timeout.total_seconds()
        self._empty_at = 0.0
        self._was_cut_off = False

    def run(self, event: Mapping[str, Any], context: Any) -> PartialBatchResponse:
        """
        Serve the lanes for one ring of the bell, and answer whether the ring stays in its queue.

        A batch of a lane, which an old mapping may still deliver after a change of engine, is handled as it is.

        Raises:
            ConfigurationError: the event comes neither from the bell nor from a lane of this deployment.

        """
        queue, records = read_batch(event)
        if self._deployment.is_bell(queue):
            return response_for(self._answer(records, context))
        lane = self._deployment.lane_of_queue(queue)
        slot = self._slot(context, lanes=self._deployment.config.lanes)
        outcomes = slot.handle(lane, records, turn=partial(PullTurn, is_mapped=True))
        slot.leave()
        return response_for(outcomes.kept)

    def work(self, context: Any, *, slot: int) -> float:
        """Serve the lanes as a slot that no ring started; return the seconds until it should do so again."""
        lanes = self._lanes_of(slot)
        held = self._slot(context, lanes=lanes)
        held.returns_in(PATIENCE)
        held.work()
        if held.has_worked:
            return 0.0
        if held.looks.failed or {lane.name for lane in lanes} <= set(self._services.paused.lanes()):
            return PATIENCE
        # No time for a poll: the lanes are asked again after less than one.
        return POLL / 4 if held.is_over else 0.0

    def _answer(self, rings: Sequence[RawRecord], context: Any) -> Sequence[RawRecord]:
        """Serve the lanes; return the rings that stay in the queue."""
        ring = rings[0]
        is_stale = ring.group == HEARTBEAT or ring.sent_at + STALE < self._empty_at
        lanes = self._lanes_of(slot_of(ring.group))
        slot = self._slot(context, lanes=lanes, is_rung=self._was_cut_off or not is_stale)
        slot.work()
        self._was_cut_off = slot.is_over and slot.has_worked
        if slot.has_waited:
            self._empty_at = self._services.looking.clock()
        if ring.group == HEARTBEAT and len(lanes) < len(self._deployment.config.lanes):
            slot.ring()
        bell, seconds = self._services.bell, self._returns_after(ring, slot)
        if bell is None or seconds is None:
            return rings[1:]
        try:
            bell.return_after(ring.receipt_handle, seconds)
        except AwsError:
            self._services.looking.telemetry.problem(Event.BELL_NOT_RETURNED)
        return rings

    def _returns_after(self, ring: RawRecord, slot: Slot) -> int | None:
        """Return the seconds after which a ring comes back; None if it has done its work."""
        if slot.is_over and slot.has_worked:
            return 0
        if slot.is_over and ring.receive_count == 1:
            # The function's timeout is too short for this slot to stay until the ring's second is over.
            return math.ceil(COALESCING + MARGIN)
        if slot.looks.failed:
            return PATIENCE
        age = self._services.looking.clock() - ring.sent_at
        return RETURN_EVERY if ring.group == HEARTBEAT and age < HEARTBEAT_LIFE else None

    def _lanes_of(self, number: int | None) -> Sequence[Lane]:
        """Return the lanes that a slot serves: one with a lower `maximum_concurrency` is left to the first slots."""
        slots = self._deployment.config.consumer.reserved_concurrency
        return [
            lane
            for lane in self._deployment.config.lanes
            if lane.maximum_concurrency >= slots or (number is not None and number < lane.maximum_concurrency)
        ]

    def _slot(self, context: Any, *, lanes: Sequence[Lane], is_rung: bool = True) -> Slot:
        invocation = Invocation.of(context, timeout=self._timeout, clock=self._services.looking.clock)
        return Slot(self._services, lanes=lanes, invocation=invocation, turn=PullTurn, is_rung=is_rung)
