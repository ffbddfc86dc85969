"""The relay as a Lambda function: the table's stream invokes it for new entries, a schedule for all others."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lanes.aws.clients import Clients, producer_config
from lanes.aws.queues.lane_queue import LaneQueueCalls
from lanes.aws.queues.sending import SqsSender
from lanes.aws.telemetry.outbox import PowertoolsRelayTelemetry
from lanes.config.deployment import Deployment
from lanes.errors import ConfigurationError
from lanes.outbox.dynamodb.store import DynamoDBOutboxStore
from lanes.outbox.entry import EntryState
from lanes.outbox.relay import Relay, RelayContext
from lanes.producer import Pacing, Producer
from lanes.producer.retries import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lanes.config import OutboxSettings

# Time for the marks of the last batch, and for a send amid its tries.
LEFT_FOR_THE_LAST_ROUND = timedelta(seconds=15)
LONGEST_SEND = timedelta(seconds=10)
# Counting costs one read unit for about fifty entries, so larger counts are lower bounds.
COUNTED = 10_000
# AWS: a global index follows its table with a delay, usually of a fraction of a second (DynamoDB, "Global secondary
# indexes"), so the stream may announce an entry before the index contains it.
RUNS, INDEX_DELAY = 3, timedelta(milliseconds=250)


class LaneDepths:
    """
    Counts the messages in the lanes.

    Args:
        queues: the queues of the deployment.
    """

    def __init__(self, queues: LaneQueueCalls) -> None:
        self._queues = queues

    def waiting(self, lane: str) -> int:
        """Return the number of messages in a lane's queue, including received ones."""
        depth = self._queues.depth(lane)
        return depth.backlog + depth.in_flight


def send_policy(settings: OutboxSettings, *, longest: timedelta = timedelta(minutes=3)) -> RetryPolicy:
    """Return the retry policy of a relay's producer; its tries end before the lock, so no two relays send at once."""
    # By default as long as `RetryPolicy` itself: a later try might send a message twice.
    return RetryPolicy(give_up_after=min(longest, settings.lock / 2))


def relay_producer(
    deployment: Deployment, clients: Clients, *, longest: timedelta = timedelta(minutes=3)
) -> Producer:
    """Create the producer of a relay."""
    return Producer(
        deployment=deployment,
        sqs=SqsSender.to_lanes(deployment, clients.sqs()),
        pacing=Pacing(retries=send_policy(deployment.config.outbox, longest=longest)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayRuntime:
    """The services of a relay function."""

    relay: Relay
    telemetry: PowertoolsRelayTelemetry
    has_windows: bool


def relay_from_env(environ: Mapping[str, str] | None = None) -> RelayRuntime:
    """
    Build the relay of a stack's outbox.

    Raises:
        ConfigurationError: `LANES_DEPLOYMENT` is missing or invalid, or the stack has no outbox.
    """
    environ = os.environ if environ is None else environ
    deployment = Deployment.from_env(environ)
    if deployment.outbox is None:
        raise ConfigurationError(["the stack has no outbox"], source="outbox relay")
    clients = Clients(config=producer_config())
    telemetry = PowertoolsRelayTelemetry(environ=environ)
    relay = Relay(
        store=DynamoDBOutboxStore(table=deployment.outbox, client=clients.dynamodb()),
        producer=relay_producer(deployment, clients, longest=LONGEST_SEND),
        config=deployment.config,
        depths=LaneDepths(LaneQueueCalls(deployment=deployment, client=clients.sqs())),
        # The last 32 characters are the environment's id; date and version come before them.
        context=RelayContext(
            name=environ.get("AWS_LAMBDA_LOG_STREAM_NAME", "relay")[-32:], telemetry=telemetry
        ),
    )
    return RelayRuntime(
        relay=relay, telemetry=telemetry, has_windows=bool(deployment.config.outbox.lane_window)
    )


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
        left = context.get_remaining_time_in_millis() / 1000 - LEFT_FOR_THE_LAST_ROUND.total_seconds()
        deadline = self._clock() + max(0.0, left)
        is_scheduled = "Records" not in event
        try:
            if is_scheduled and self._built.has_windows:
                self._keep_lanes_filled(relay, deadline)
            else:
                self._publish_announced(relay, deadline, len(event.get("Records", ())))
            if is_scheduled:
                relay.report_status(limit=COUNTED)
        finally:
            self._built.telemetry.flush()

    def _publish_announced(self, relay: Relay, deadline: float, announced: int) -> None:
        """Run until nothing is due, and again if the stream announced more entries than were found."""
        for run in range(RUNS):
            done = relay.run_until(deadline)
            announced -= done.published + done.failed
            # Entries of an earlier event count too, so this may end early; the next event or the schedule finds the
            # rest.
            if announced <= 0 or self._clock() >= deadline or run == RUNS - 1:
                return
            self._pause(INDEX_DELAY.total_seconds())

    def _keep_lanes_filled(self, relay: Relay, deadline: float) -> None:
        """Run repeatedly while lanes are at their window: consumers drain them without an event."""
        while True:
            relay.run_until(deadline)
            # Entries wait although nothing is due: a window holds them back.
            is_held_back = EntryState.PENDING in relay.store.status(limit=1).counts
            if self._clock() >= deadline or not is_held_back:
                return
            self._pause(relay.config.outbox.tick.total_seconds())
