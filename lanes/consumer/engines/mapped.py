"""
The mapped engine: an event source mapping on each lane, and Lambda keeps the limit.

Lambda hands over a batch of one lane. Before each record the engine asks whether a higher lane has a backlog, and
yields through the partial batch response; after the batch it wakes parked records, so that they return as soon as the
lanes above have no backlog. With one slot or several, it is the same code: alone, an environment has no peers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from typing import TYPE_CHECKING, Any

from lanes.bell import BODY, is_ring
from lanes.config.settings import MAX_RECEIVES
from lanes.consumer import telemetry as report
from lanes.consumer.engines import Beside, Pending, Proceed
from lanes.consumer.records import (
    SETTLING,
    Batch,
    Invocation,
    PartialBatchResponse,
    RawRecord,
    oldest_first,
    read_batch,
    response_for,
)
from lanes.consumer.settlement import Settlement, oldest_batches
from lanes.errors import AwsError, ConfigurationError
from lanes.events import Event
from lanes.metrics import Metric

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from lanes.config import Lane, LanesConfig
    from lanes.config.deployment import Deployment
    from lanes.consumer.batch import Corridor
    from lanes.consumer.calls import Call
    from lanes.consumer.engines.check import BacklogCheck
    from lanes.consumer.engines.order import Reserve
    from lanes.consumer.engines.presence import Peers
    from lanes.consumer.ledger import Entry
    from lanes.consumer.outcome import Outcome, Outcomes

CLEAR = Proceed(ages=True)

# Waking comes before the answer: if Lambda kills the function in it, finished records return. A fifth of the default
# timeout is 6 s; a call that times out and its repeat take 4 s (`consumer_config`).
WAKING_SHARE = 0.2
"""Share of the function timeout that must be left to wake others."""

MOST_BATCHES = 100 // 10
"""AWS: a transaction has at most 100 items (TransactWriteItems) and a batch 10 records; beyond, it would be two."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TurnServices:
    """The services of one environment's turns."""

    peers: Peers
    check: BacklogCheck
    reserve: Reserve
    settlement: Settlement
    waker: Waker
    beside: Beside


class MappedEngine:
    """Runs the invocations of one environment."""

    def __init__(
        self,
        *,
        deployment: Deployment,
        corridor: Corridor,
        services: TurnServices,
        monotonic: Callable[[], float],
    ) -> None:
        # Once for each queue: names are compared, and every batch passes here.
        self._lane_of = functools.cache(deployment.lane_of_queue)
        self._highest = deployment.config.lanes[0].name
        self._corridor = corridor
        self._services = services
        self._clock = services.settlement.clock
        self._monotonic = monotonic
        self._timeout = deployment.config.consumer.function_timeout.total_seconds()

    def run(self, event: Mapping[str, Any], context: Any) -> PartialBatchResponse:
        """Handle Lambda's batch of one lane and answer which records stay in the queue."""
        telemetry, began_at = self._services.settlement.telemetry, self._clock()
        queue, records = read_batch(event)
        try:
            lane = self._lane_of(queue)
        except ConfigurationError:
            if any(record.body != BODY for record in records):
                # Before and during a deploy that adds or removes a lane, a mapping of the other version may deliver.
                report.unknown_lane(telemetry, queue, records, lane=self._highest, context=context)
                # AWS: without ReportBatchItemFailures, which a mapping made by hand rarely has, any answer is a success
                # that deletes the batch (Lambda developer guide, "Handling errors for an SQS event source in Lambda").
                raise
            # The pull engine ran before a deploy. Success deletes the ring, which no slot waits for any more.
            return response_for(())
        # A deploy of more slots came before: nothing waits for their rings.
        records = [record for record in records if not is_ring(record.group, record.body)]
        if not records:
            return response_for(())
        # Overdue records may go on where the others yield, so they must not be behind those.
        records = records if lane.max_wait is None else oldest_first(records)
        invocation = Invocation.of(context, timeout=self._timeout, monotonic=self._monotonic)
        batch = invocation.batch(lane, records, began_at=began_at)
        telemetry.begin(lane.name, context)
        try:
            return response_for(self._corridor.run(batch, MappedTurn(batch, self._services)).kept)
        finally:
            # The answer counts, whatever becomes of the figures.
            with contextlib.suppress(Exception):
                telemetry.milliseconds(Metric.BATCH, (self._clock() - began_at) * 1000)
                telemetry.end()

    def work(self, context: Any, *, slot: int) -> float:
        """Refuse: this engine handles batches of mappings only."""
        del context, slot
        raise ConfigurationError(['a process needs engine = "pull"'], source="[consumer]")


class MappedTurn:
    """One batch's turn: a presence record while it lasts, and a backlog check before each record."""

    def __init__(self, batch: Batch, services: TurnServices) -> None:
        self._batch = batch
        self._services = services
        self._is_held = False
        self._holding: Pending[Collection[str]] | None = None
        if not services.peers.alone:
            # Without it, its records seem to wait, and peers yield to them.
            self._try(Event.SLOT_NOT_ENTERED, lambda: services.peers.acquire(batch))

    def hold(self, outcomes: Outcomes) -> Collection[str]:
        """Extend the visibility at once if little of it is left."""
        settlement, batch = self._services.settlement, self._batch
        self._is_held = not settlement.outlasts(batch, outcomes.entries)
        return settlement.hold(batch) if self._is_held else ()

    def decide(
        self, rest: Sequence[RawRecord], call: Call, *, expected: float, has_worked: bool, goes_ahead: bool
    ) -> Proceed | Outcome:
        """Yield if a higher lane has a backlog or can't be read; else shorten the visibility beside the record."""
        del call
        way = CLEAR if goes_ahead else self._judge(rest, expected=expected, has_worked=has_worked)
        # Not before: batches that only yield need no such call.
        if not self._is_held and isinstance(way, Proceed):
            self._is_held = True
            hold = functools.partial(self._services.settlement.hold, self._batch)
            self._holding = self._services.beside.start(hold)
            if self._has_several_groups:
                # A handler that dies at once would hold up the other groups too. Beside the handler the call takes no
                # time of the slot; before it, 8 ms in simulation (docs/decisions.md#records-left-behind).
                self._finish_hold()
        return way

    @property
    def _has_several_groups(self) -> bool:
        records = self._batch.records
        return any(record.group != records[0].group for record in records)

    def _finish_hold(self) -> None:
        """Wait for the end of the call that shortens the visibility."""
        if self._holding is not None:
            holding, self._holding = self._holding, None
            self._try(Event.RECORDS_NOT_HELD, holding.result)

    def _judge(self, rest: Sequence[RawRecord], *, expected: float, has_worked: bool) -> Proceed | Outcome:
        """Judge the lanes above."""
        services = self._services
        # One receive more, and SQS moves it to the dead-letter queue unhandled.
        if rest[0].receive_count >= MAX_RECEIVES:
            return Proceed(may_yield=False)
        try:
            above = services.check.lane_above(self._batch, expected=expected)
        except AwsError:
            # Going on with the last reading, a long outage would turn priority off unseen
            # (docs/decisions.md#an-unknown-backlog-yields).
            self._report(Event.HIGHER_LANES_UNKNOWN)
            return self.yielded(rest, to=None)
        if above is None:
            return CLEAR
        if has_worked:
            # Records of this lane ran since the last check, and the backlog may be as old.
            seconds = services.check.seconds_unchecked(since=self._batch.began_at)
            services.settlement.telemetry.milliseconds(Metric.INVERSION, seconds * 1000)
        # After the check, not before: a record without a backlog above it needs nothing from the reserve.
        if services.reserve.admits(self._batch.lane, rest[0]):
            return Proceed(reserve=services.reserve, may_yield=False, most=1)
        # Alone, the cache is as good as the ledger: without the write, invocations that only yield take a quarter less.
        is_brief = above.is_cached and len(rest) == len(self._batch.records)
        return dataclasses.replace(self.yielded(rest, to=above.lane), is_brief=is_brief)

    def checkpoint(self) -> Lane | None:
        """In mid-work, going on loses least if the lanes above are unknown; the next record has a check of its own."""
        try:
            above = self._services.check.lane_above(self._batch, expected=0.0)
        except AwsError:
            self._report(Event.HIGHER_LANES_UNKNOWN)
            return None
        return above.lane if above else None

    def yielded(self, rest: Sequence[RawRecord], *, to: Lane | None) -> Outcome:
        """Park the rest."""
        return self._services.settlement.delays.after_yield(self._batch.lane, rest, to=to)

    def close(self, outcomes: Outcomes) -> None:
        """
        Release the slot, settle kept records, and wake parked ones; Lambda deletes the others after the answer.

        The release comes first: 10 ms later cost 1.4 yields a message instead of 0.85 at ten slots.
        """
        batch, services, finished = self._batch, self._services, outcomes.finished
        if not services.peers.alone:
            settled = outcomes.to_settle(services.settlement.clock())
            parked_for = max((one.delay or 0 for _, one in settled if one.wakeable), default=0)
            self._try(
                Event.SLOT_NOT_LEFT,
                lambda: services.peers.release(batch, finished=finished, parked_for=parked_for),
            )
        # It must not land after the delays of kept records, nor be left to the next invocation.
        self._finish_hold()
        if finished < len(batch.records):
            self._try(Event.BATCH_NOT_CLOSED, lambda: services.settlement.settle(batch, outcomes))
        self._try(Event.WAKE_FAILED, lambda: services.waker.wake(batch, outcomes))

    def _try(self, problem: Event, step: Callable[[], object]) -> None:
        """Take a step; report any error, since it must not keep the answer."""
        try:
            step()
        except Exception:  # noqa: BLE001 - finished records stay finished, and kept ones return by themselves
            self._report(problem)

    def _report(self, problem: Event) -> None:
        """Report an error, in an `except` block."""
        report.failed_call(self._services.settlement.telemetry, problem, lane=self._batch.lane.name)


class Waker:
    """
    Wakes parked batches at the end of an invocation.

    Safe in every order: records are first recorded as no longer parked, all or none and only if no other environment
    did so before; then they become visible. If that second step fails, they return when their parking ends.
    """

    def __init__(
        self, *, config: LanesConfig, check: BacklogCheck, peers: Peers, settlement: Settlement
    ) -> None:
        self._needed = max(2 * SETTLING, WAKING_SHARE * config.consumer.function_timeout.total_seconds())
        self._last_lane = config.last_lane
        # Nothing has priority over the highest lane, so none of its records are parked.
        self._lanes = config.lanes[1:]
        self._check = check
        self._peers = peers
        self._settlement = settlement

    def wake(self, batch: Batch, outcomes: Outcomes) -> None:
        """
        Wake the oldest parked batches of the highest lane that has any, if no lane above it has a backlog.

        Left out after a yield, and if it might delay the answer. After an `AwsError` the records return by themselves.
        """
        self._check.finish(batch, outcomes.finished)
        if outcomes.has_yielded or batch.milliseconds_left() / 1000 <= self._needed:
            return
        self._check.look_back(batch.lane)
        parked = self._settlement.ledger.lanes_with_parked(self._peers.seen.parked_until)
        for lane in self._lanes:
            if lane.name in parked and self._wakeable(lane):
                if not self._check.has_backlog_above(lane):
                    self._wake_lane(lane, batch)
                return

    def _wakeable(self, lane: Lane) -> list[Entry]:
        """
        Return parked records of a lane that may be woken, at least those of as many batches as are woken.

        Alone, this environment parked all that can be woken. No lane yields to the last one, so only the first of its
        parked records are read.
        """
        if not self._peers.alone:
            ledger = self._settlement.ledger
            if not self._settlement.wakeable(lane):
                # A peer may have parked some after the last reading, and may be the last to end before this one.
                ledger.expire_parked(lane.name)
            limit = lane.batch_size * (self._batches + 1) if lane == self._last_lane else None
            ledger.read_parked(lane.name, limit=limit)
        return self._settlement.wakeable(lane)

    @property
    def _batches(self) -> int:
        """One for each free slot, and one for the slot of the invocation that ends."""
        # More would be throttled, and a throttled mapping backs off (docs/decisions.md#throttles-by-design).
        return min(self._peers.free_slots() + 1, MOST_BATCHES)

    def _wake_lane(self, lane: Lane, batch: Batch) -> None:
        # Again, if another environment was faster with one of them.
        for _ in range(2):
            entries = oldest_batches(self._wakeable(lane), count=self._batches)
            if not entries or self._settlement.wake(lane, entries, by=batch.lane):
                return
