"""The mapped engine's invocations: Lambda's batch of one lane."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from lanes.bell import BODY
from lanes.consumer.engines.mapped.turn import MappedTurn
from lanes.consumer.records import Batch, Invocation, oldest_first, read_batch, response_for
from lanes.errors import ConfigurationError
from lanes.metrics import Metric

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.config import Lane
    from lanes.config.deployment import Deployment
    from lanes.consumer.batch import Corridor
    from lanes.consumer.engines.mapped.turn import TurnServices
    from lanes.consumer.records import PartialBatchResponse, RawRecord


class MappedEngine:
    """Runs the invocations of one environment."""

    def __init__(
        self,
        *,
        deployment: Deployment,
        corridor: Corridor,
        services: TurnServices,
        clock: Callable[[], float],
    ) -> None:
        self._deployment = deployment
        self._corridor = corridor
        self._services = services
        self._clock = clock
        self._timeout = deployment.config.consumer.function_timeout.total_seconds()
        self._lanes: dict[str, Lane] = {}

    def run(self, event: Mapping[str, Any], context: Any) -> PartialBatchResponse:
        """
        Handle Lambda's batch of one lane and answer which records stay in the queue.

        Raises:
            ConfigurationError: the event comes from no lane of this deployment. All its records stay.

        """
        telemetry, began_at = self._services.settlement.telemetry, self._clock()
        queue, records = read_batch(event)
        lane = self._lanes.get(queue) or self._lane_of(queue, records)
        if lane is None:
            # Success deletes the ring, which no slot waits for any more.
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

    def _lane_of(self, queue: str, records: Sequence[RawRecord]) -> Lane | None:
        """Return the lane of a queue; None for the bell of the pull engine, which ran before a deploy."""
        try:
            self._lanes[queue] = self._deployment.lane_of_queue(queue)
        except ConfigurationError:
            if all(record.body == BODY for record in records):
                return None
            raise
        return self._lanes[queue]
