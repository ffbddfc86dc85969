"""The mapped engine: Lambda's batches of one lane, each of which yields to the backlogs of higher lanes."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from functools import partial
from typing import TYPE_CHECKING, Any

from lanes.bell import BODY
from lanes.config.settings import MAX_RECEIVES
from lanes.consumer.engines import Proceed
from lanes.consumer.outcome import Outcome, Reason, shortest_delay
from lanes.consumer.records import Batch, Invocation, oldest_first, read_batch, response_for
from lanes.errors import AwsError, ConfigurationError
from lanes.events import Event
from lanes.metrics import Metric

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from lanes.config import Lane
    from lanes.config.deployment import Deployment
    from lanes.consumer.batch import Corridor
    from lanes.consumer.engines.beside import Beside, Pending
    from lanes.consumer.engines.mapped.check import BacklogCheck
    from lanes.consumer.engines.mapped.waking import Waker
    from lanes.consumer.engines.presence import Peers
    from lanes.consumer.engines.reserve import Reserve
    from lanes.consumer.outcome import Outcomes
    from lanes.consumer.records import PartialBatchResponse, RawRecord
    from lanes.consumer.settlement import Settlement

CLEAR = Proceed(ages=True)


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

    def __init__(self, *, deployment: Deployment, corridor: Corridor, services: TurnServices) -> None:
        # Once for each queue: names are compared, and every batch passes here.
        self._lane_of = functools.cache(deployment.lane_of_queue)
        self._corridor = corridor
        self._services = services
        self._clock = services.settlement.clock
        self._timeout = deployment.config.consumer.function_timeout.total_seconds()

    def run(self, event: Mapping[str, Any], context: Any) -> PartialBatchResponse:
        """
        Handle Lambda's batch of one lane and answer which records stay in the queue.

        Raises:
            ConfigurationError: the event comes from no lane of this deployment. All its records stay.

        """
        telemetry, began_at = self._services.settlement.telemetry, self._clock()
        queue, records = read_batch(event)
        try:
            lane = self._lane_of(queue)
        except ConfigurationError:
            if any(record.body != BODY for record in records):
                raise
            # The pull engine ran before a deploy. Success deletes the ring, which no slot waits for any more.
            return response_for(())
        invocation = Invocation.of(context, timeout=self._timeout, clock=self._clock)
        batch = Batch(
            lane=lane,
            # Overdue records may go on where the others yield, so they must not be behind those.
            records=records if lane.max_wait is None else oldest_first(records),
            name=invocation.name,
            milliseconds_left=invocation.milliseconds_left,
            began_at=began_at,
        )
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
        if settlement.outlasts(batch, outcomes.entries):
            return ()
        self._is_held = True
        return settlement.hold(batch)

    def decide(self, rest: Sequence[RawRecord], *, expected: float, has_worked: bool) -> Proceed | Outcome:
        """Yield if a higher lane has a backlog or can't be read; else shorten the visibility beside the record."""
        way = self._judge(rest, expected=expected, has_worked=has_worked)
        # Not before: batches that only yield need no such call. Beside the handler it takes no time of the slot; before
        # it, 8 ms of each batch in simulation (docs/decisions/0017-records-left-behind.md).
        if not self._is_held and isinstance(way, Proceed):
            self._is_held = True
            self._holding = self._services.beside.start(partial(self._services.settlement.hold, self._batch))
        return way

    def _judge(self, rest: Sequence[RawRecord], *, expected: float, has_worked: bool) -> Proceed | Outcome:
        """Judge the lanes above; keep time for waking others."""
        lane, services = self._batch.lane, self._services
        # One receive more, and SQS moves it to the dead-letter queue unhandled.
        if rest[0].receive_count >= MAX_RECEIVES:
            return Proceed(may_yield=False)
        try:
            above = services.check.lane_above(self._batch, expected=expected)
        except AwsError:
            # Going on with the last reading, a long outage would turn priority off unseen
            # (docs/decisions/0009-unknown-yields.md).
            self._report(Event.HIGHER_LANES_UNKNOWN)
            return self.yielded(rest, to=None)
        if above is None:
            if has_worked and len(rest) == 1 and not services.waker.has_time(self._batch, after=expected):
                # It brings one more invocation, which wakes them; without one they wait for their delay to end.
                return Outcome(delay=shortest_delay(rest), reason=Reason.TIME)
            return CLEAR
        if has_worked:
            # Records of this lane ran since the last check, and the backlog may be as old.
            seconds = services.check.seconds_unchecked(since=self._batch.began_at)
            services.settlement.telemetry.milliseconds(Metric.INVERSION, seconds * 1000)
        # After the check, not before: a record without a backlog above it needs nothing from the reserve.
        if services.reserve.admits(lane, rest[0]):
            return Proceed(reserve=services.reserve, may_yield=False)
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
        batch, services = self._batch, self._services
        if not services.peers.alone:
            parked = (outcome.delay or 0 for _, outcome in outcomes.to_settle if outcome.wakeable)
            parked_for = max(parked, default=0)
            self._try(
                Event.SLOT_NOT_LEFT,
                lambda: services.peers.release(batch, finished=outcomes.finished, parked_for=parked_for),
            )
        if self._holding is not None:
            # It must not land after the delays of kept records, nor be left to the next invocation.
            self._try(Event.RECORDS_NOT_HELD, self._holding.result)
        if outcomes.finished < len(batch.records):
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
        self._services.settlement.telemetry.problem(problem, lane=self._batch.lane.name)
        self._services.settlement.telemetry.count(Metric.AWS_ERRORS)
