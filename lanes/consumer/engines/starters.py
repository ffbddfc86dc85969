"""
Starters: what lets an invocation hold a slot, which receives the most urgent messages itself; Lambda keeps the limit.

A ring of the bell starts one, or a process.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

from lanes.bell import (
    BODY,
    COALESCING,
    HEARTBEAT,
    HEARTBEAT_LIFE,
    MARGIN,
    RETURN_EVERY,
    is_ring,
    slot_of,
    stay_for,
)
from lanes.config.settings import EngineName
from lanes.consumer import telemetry as report
from lanes.consumer.engines.looks import POLL
from lanes.consumer.engines.pace import STAYS_FOR
from lanes.consumer.engines.slot import Slot, SlotServices
from lanes.consumer.engines.turn import SlotTurn
from lanes.consumer.outcome import Reason
from lanes.consumer.records import (
    Invocation,
    PartialBatchResponse,
    RawRecord,
    oldest_first,
    read_batch,
    response_for,
)
from lanes.errors import ConfigurationError
from lanes.events import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.config import Lane
    from lanes.config.deployment import Deployment

ASKS_AGAIN = 5
"""Seconds after which lanes that failed or are paused are asked again."""

PAUSED_FOR = 60
"""Seconds for which a mapping's records of a paused lane return."""

STALE = 4 * (COALESCING + MARGIN)
"""
Seconds after a ring from which its second is over by any clock. If all lanes were empty then, one look is enough.

Rings pile up behind a long invocation, one for each second with a send.
"""


class Starters:
    """Runs the invocations of one environment."""

    def __init__(
        self, *, deployment: Deployment, services: SlotServices, monotonic: Callable[[], float]
    ) -> None:
        self._deployment = deployment
        self._consumer = deployment.config.consumer
        self._lanes = deployment.config.lanes
        self._services = services
        self._clock = services.clock
        self._monotonic = monotonic
        self._empty_at = 0.0
        self._was_cut_off = False

    def run(self, event: Mapping[str, Any], context: Any) -> PartialBatchResponse:
        """
        Serve the lanes for one ring of the bell, and answer whether the ring stays in its queue.

        A mapping's batch is handled first, and the answer is about its records. Then the slot goes on with the most
        urgent messages, unless only an old mapping has delivered it after a change of engine.

        Raises:
            ConfigurationError: the batch is of a lane that is not in this version, and stays in its queue.
        """
        queue, records = read_batch(event)
        if self._deployment.is_bell(queue):
            return response_for(self._answer(records, context))
        try:
            lane = self._deployment.lane_of_queue(queue)
        except ConfigurationError:
            if all(record.body == BODY for record in records):
                # The bell rang before a deploy. Success deletes the ring, which no slot waits for any more.
                return response_for(())
            telemetry, highest = self._services.looking.telemetry, self._lanes[0].name
            report.unknown_lane(telemetry, queue, records, lane=highest, context=context)
            # An answer may delete the batch: see `lanes.consumer.engines.mapped`.
            raise
        return response_for(self._serve_batch(lane, records, context))

    def _serve_batch(self, lane: Lane, records: Sequence[RawRecord], context: Any) -> Sequence[RawRecord]:
        """Handle a mapping's batch, then whatever else waits; return the records that stay."""
        rings = [record for record in records if is_ring(record.group, record.body)]
        batch = [record for record in records if record not in rings]
        if lane.max_wait is not None:
            batch = oldest_first(batch)
        lane_rings = self._services.lane_rings
        with self._slot(context, self._lanes, rung=None, is_mapped=True) as slot:
            if lane_rings is None:
                kept = slot.handle(lane, batch, is_mapped=True).kept if batch else []
                slot.wait_for_resource()
                slot.leave()
                return kept
            if self._services.paused.is_paused(lane):
                # A deploy has enabled its mapping.
                slot.hand_back.of(lane, batch, Reason.ASIDE, at_least=PAUSED_FOR)
                slot.leave()
                return batch
            if len(rings) > 1:
                self._ring(partial(lane_rings.give_back, lane, rings[1:]))
            kept = slot.handle(lane, batch, is_mapped=True).kept if batch else []
            try:
                slot.work()
            except Exception:  # noqa: BLE001 - the answer is about the batch, which is decided
                report.interrupted(self._services.looking.telemetry, lane, ())
            if rings and slot.time.is_over and slot.has_worked:
                # For the rest: no message of its own lane would start it again.
                self._ring(partial(lane_rings.ring_again, lane, rings[0].group))
        return [*kept, *rings[1:]]

    def _ring(self, call: Callable[[], object]) -> None:
        report.tried(self._services.looking.telemetry, Event.BELL_NOT_RUNG, call)

    def work(self, context: Any, *, slot: int) -> float:
        """Serve the lanes as a slot that no ring started; return the seconds until it should do so again."""
        if self._consumer.engine is not EngineName.PULL:
            raise ConfigurationError(['a process needs engine = "pull"'], source="[consumer]")
        lanes = self._lanes_of(slot)
        with self._slot(context, lanes) as held:
            held.stay.returns_in(STAYS_FOR)
            held.work()
        if held.has_worked:
            return 0.0
        if {lane.name for lane in lanes} <= {*held.looks.failed, *self._services.paused.lanes()}:
            return ASKS_AGAIN
        # No time for a poll: the lanes are asked again after less than one.
        return POLL / 4 if held.time.is_over else 0.0

    def _answer(self, rings: Sequence[RawRecord], context: Any) -> Sequence[RawRecord]:
        """Serve the lanes; return the rings that stay in the queue."""
        ring, bell = rings[0], self._services.bell
        is_heartbeat = ring.group == HEARTBEAT
        # One that returned is what a slot left behind that died or ran out of time: there is work, or soon will be.
        is_stale = ring.receive_count == 1 and ring.sent_at + STALE < self._empty_at
        number = slot_of(ring.group)
        lanes = self._lanes_of(number)
        is_rung = self._was_cut_off or not (is_heartbeat or is_stale)
        rung = stay_for(ring.deduplication_id, sent_at=ring.sent_at) if is_rung else None
        with self._slot(context, lanes, number=number or 0, rung=rung, is_patrol=is_heartbeat) as slot:
            slot.work()
            self._was_cut_off = slot.time.is_over and slot.has_worked
            serves_all = len(lanes) == len(self._lanes)
            if slot.has_waited and serves_all:
                self._empty_at = self._clock()
            if is_heartbeat and not serves_all:
                slot.waker.ring_first()
            if bell is None or (seconds := self._returns_after(ring, slot)) is None:
                return rings[1:]
            back = partial(bell.return_after, ring.receipt_handle, seconds)
            report.tried(self._services.looking.telemetry, Event.BELL_NOT_RETURNED, back)
            return rings

    def _returns_after(self, ring: RawRecord, slot: Slot) -> int | None:
        """Return the seconds after which a ring comes back; None if it has done its work."""
        if slot.time.is_over and slot.has_worked:
            return 0
        if slot.time.is_over and ring.receive_count == 1:
            # The function's timeout is too short for this slot to stay until the ring's second is over.
            return math.ceil(COALESCING + MARGIN)
        if slot.looks.failed:
            return ASKS_AGAIN
        is_alive = ring.group == HEARTBEAT and self._clock() - ring.sent_at < HEARTBEAT_LIFE
        return RETURN_EVERY if is_alive else None

    def _lanes_of(self, number: int | None) -> Sequence[Lane]:
        """Return the lanes that a slot serves: one with a lower `maximum_concurrency` is left to the first slots."""
        slots, first = self._consumer.reserved_concurrency, math.inf if number is None else number
        return [
            one for one in self._lanes if one.maximum_concurrency >= slots or first < one.maximum_concurrency
        ]

    def _slot(
        self,
        context: Any,
        lanes: Sequence[Lane],
        *,
        number: int = 0,
        rung: float | None = 0.0,
        is_patrol: bool = False,
        is_mapped: bool = False,
    ) -> Slot:
        timeout = self._consumer.function_timeout.total_seconds()
        invocation = Invocation.of(context, timeout=timeout, monotonic=self._monotonic)
        return Slot(
            self._services,
            number=number,
            lanes=lanes,
            invocation=invocation,
            turn=SlotTurn,
            rung=rung,
            is_patrol=is_patrol,
            is_mapped=is_mapped,
        )
