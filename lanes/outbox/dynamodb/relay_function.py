"""The relay as a Lambda function: the table's stream invokes it for new entries, a schedule for all others."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lanes.aws.clients import Clients, deployment_from_env, relay_config
from lanes.aws.outbox_telemetry import PowertoolsRelayTelemetry
from lanes.aws.queues import LaneQueueCalls
from lanes.aws.sending import SqsSender
from lanes.errors import ConfigurationError
from lanes.outbox.dynamodb.store import DynamoDBOutboxStore
from lanes.outbox.entry import EntryState
from lanes.outbox.relay import ONE_TRY, Relay
from lanes.producer import Pacing, Producer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lanes.config.deployment import Deployment

# A call in progress ends within five seconds (`relay_config`); the rest is for marks.
LEFT_FOR_THE_LAST_ROUND = timedelta(seconds=15)
LEFT_AFTER_THE_LAST_CALL = timedelta(seconds=8)
SHORTEST_ROUND_SECONDS = 3.0
# AWS: a global index follows its table with a delay, usually of a fraction of a second (DynamoDB, "Global secondary
# indexes"), so the stream may announce an entry before the index contains it.
RUNS, INDEX_DELAY = 3, timedelta(milliseconds=250)


def relay_producer(deployment: Deployment, clients: Clients) -> Producer:
    """
    Create the producer of a relay.

    Args:
        deployment: the lanes.
        clients: creates a client with `relay_config`.
    """
    return Producer(
        deployment=deployment,
        sqs=SqsSender.to_lanes(deployment, clients.sqs()),
        pacing=Pacing(retries=ONE_TRY),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayRuntime:
    """The services of a relay function."""

    relay: Relay
    telemetry: PowertoolsRelayTelemetry
    has_windows: bool


def relay_from_env(
    environ: Mapping[str, str] | None = None, *, clock: Callable[[], float] = time.time
) -> RelayRuntime:
    """
    Build the relay of a stack's outbox.

    Args:
        environ: the function's variables; by default those of the process.
        clock: epoch seconds.

    Raises:
        ConfigurationError: `LANES_DEPLOYMENT` is missing or invalid, or the stack has no outbox.
    """
    environ = os.environ if environ is None else environ
    deployment = deployment_from_env(environ)
    if deployment.outbox is None:
        raise ConfigurationError(["the stack has no outbox"], source="outbox relay")
    clients = Clients()
    telemetry = PowertoolsRelayTelemetry(environ=environ)
    relay = Relay(
        store=DynamoDBOutboxStore(table=deployment.outbox, client=clients.dynamodb()),
        producer=relay_producer(deployment, Clients(config=relay_config())),
        config=deployment.config,
        depth_of=LaneQueueCalls(deployment=deployment, client=clients.sqs()).depth,
        # The last 32 characters are the environment's id; date and version come before them.
        name=environ.get("AWS_LAMBDA_LOG_STREAM_NAME", "relay")[-32:],
        telemetry=telemetry,
        clock=clock,
        sender=ThreadPoolExecutor(1),
    )
    return RelayRuntime(
        relay=relay, telemetry=telemetry, has_windows=bool(deployment.config.outbox.lane_window)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ends:
    """The times after which an invocation begins no round, and no call to a lane."""

    last_round: float
    last_call: float


class RelayFunction:
    """
    The handler of the relay function; reads and builds nothing before the first event.

    Args:
        build: creates the relay.
        clock: epoch seconds.
        pause: sleeps for a number of seconds.
    """

    def __init__(
        self,
        build: Callable[[], RelayRuntime] = relay_from_env,
        *,
        clock: Callable[[], float] = time.time,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._build = build
        self._clock = clock
        self._pause = pause
        self._built: RelayRuntime | None = None

    def handle(self, event: Mapping[str, Any], context: Any) -> None:
        """
        Publish due entries until none is left or the time runs out; the next event continues.

        Args:
            event: of the stream, or of the schedule, which also reports the status of the outbox.
            context: of Lambda.
        """
        if self._built is None:
            self._built = self._build()
        relay = self._built.relay
        now, left = self._clock(), context.get_remaining_time_in_millis() / 1000
        ends = _Ends(
            last_round=now + max(0.0, left - LEFT_FOR_THE_LAST_ROUND.total_seconds()),
            last_call=now + max(SHORTEST_ROUND_SECONDS, left - LEFT_AFTER_THE_LAST_CALL.total_seconds()),
        )
        is_scheduled = "Records" not in event
        try:
            if is_scheduled and self._built.has_windows:
                self._keep_lanes_filled(relay, ends)
            else:
                self._publish_announced(relay, ends, len(event.get("Records", ())))
            if is_scheduled:
                relay.report_status()
        finally:
            self._built.telemetry.flush()

    def _publish_announced(self, relay: Relay, ends: _Ends, announced: int) -> None:
        """Run until nothing is due, and again if the stream announced more entries than were found."""
        for run in range(RUNS):
            done = relay.run_until(ends.last_round, calls_for=ends.last_call - self._clock())
            announced -= done.published + done.failed + done.returned
            # Entries of an earlier event count too, so this may end early; the next event or the schedule finds the
            # rest.
            if announced <= 0 or self._clock() >= ends.last_round or run == RUNS - 1:
                return
            self._pause(INDEX_DELAY.total_seconds())

    def _keep_lanes_filled(self, relay: Relay, ends: _Ends) -> None:
        """Run repeatedly while lanes are at their window: consumers drain them without an event."""
        while True:
            relay.run_until(ends.last_round, calls_for=ends.last_call - self._clock())
            # Entries wait although nothing is due: a window holds them back.
            status = relay.store.status(limit=1)
            is_held_back = status.counts.get(EntryState.PENDING, 0) > status.scheduled
            if self._clock() >= ends.last_round or not is_held_back:
                return
            self._pause(relay.config.outbox.tick.total_seconds())


lambda_handler = RelayFunction().handle
"""The function of a stack's outbox."""
