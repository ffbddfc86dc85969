"""Lanes in memory under a clock that the test moves, with a recorder of events and metrics."""

from __future__ import annotations

import hashlib
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

from lanes import Message
from lanes.config import LanesConfig
from lanes.config.deployment import Deployment, LaneQueues
from lanes.consumer.consumer import Consumer
from lanes.consumer.runtime import Runtime
from lanes.errors import AwsError
from lanes.testing.clock import FakeClock
from lanes.testing.event import sqs_event as event_of_queue
from lanes.testing.overrides import MemoryHolds, MemoryOverrides
from simulator.memory import Calls, MemoryLedger, MemoryQueues, MemorySlots, ProcessLost

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.testing.fifo.message import ReceivedMessage


__all__ = [
    "Calls",
    "FakeClock",
    "MemoryLedger",
    "MemoryQueues",
    "MemorySlots",
    "ProcessLost",
    "Recorder",
    "World",
    "aws_error",
    "sqs_event",
]


def aws_error(operation: str = "any") -> AwsError:
    """Return the error of a call that a later one may not repeat."""
    return AwsError(operation=operation, code="InternalError", retryable=True)


class Recorder:
    """Telemetry that remembers."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.problems: list[tuple[str, dict[str, Any]]] = []
        self.counts: Counter[str] = Counter()
        self.durations: dict[str, list[float]] = {}

    def begin(self, lane: str, context: Any) -> None:
        pass

    def event(self, name: str, /, **fields: Any) -> None:
        self.events.append((name, fields))

    def problem(self, name: str, /, **fields: Any) -> None:
        self.problems.append((name, fields))

    def count(self, metric: str, value: float = 1) -> None:
        self.counts[str(metric)] += value

    def milliseconds(self, metric: str, value: float) -> None:
        self.durations.setdefault(str(metric), []).append(value)

    def end(self) -> None:
        pass

    def named(self, name: str) -> list[dict[str, Any]]:
        """Return the fields of all events of one name."""
        return [fields for event, fields in self.events if event == name]


class FakeContext:
    """Lambda's context, with a deadline on the fake clock."""

    def __init__(self, clock: Callable[[], float], *, seconds: float, request: str) -> None:
        self.clock = clock
        self.deadline = clock() + seconds
        self.aws_request_id = request

    def get_remaining_time_in_millis(self) -> float:
        return max(0.0, self.deadline - self.clock()) * 1000


class World:
    """
    Lanes in memory, under a clock that the test moves.

    `send`, `receive`, `invoke` and `answer` are the steps of a mapping, to be interleaved as a test likes.
    """

    def __init__(
        self, raw: Mapping[str, Any] | None = None, *, seed: int = 1, native: int | None = None
    ) -> None:
        self.config = LanesConfig.from_dict(raw or {})
        self.clock = FakeClock()
        self.calls = Calls()
        self.queues = MemoryQueues(self.config, self.clock, self.calls, native=native)
        self.ledger = MemoryLedger(self.calls)
        self.slots = MemorySlots(self.calls)
        self.holds = MemoryHolds(self.calls)
        self.overrides = MemoryOverrides(self.calls, self.holds, self.clock)
        self.recorder = Recorder()
        self.seed = seed
        self.requests = 0
        self.deployment = Deployment(
            config=self.config,
            queues={
                lane.name: LaneQueues(
                    url=f"https://sqs/1/{lane.name}.fifo",
                    dead_letter_url=f"https://sqs/1/{lane.name}-dead.fifo",
                )
                for lane in self.config.lanes
            },
            table="ledger",
        )
        self.consumer = self.environment()

    def environment(self) -> Consumer:
        """Return the consumer of a new execution environment."""
        alone = self.config.consumer.reserved_concurrency == 1
        self.seed += 1
        return Consumer(
            Runtime(
                deployment=self.deployment,
                queues=self.queues,
                ledger=self.ledger,
                presence=None if alone else self.slots,
                telemetry=self.recorder,
                overrides=self.overrides,
                holds=self.holds,
                clock=self.clock,
                random=Random(self.seed),
            )
        )

    def send(
        self, lane: str, kind: str = "work", data: Any = None, *, group: str = "g", id: str | None = None
    ) -> str:
        """Send a message straight to a lane; return its SQS message id."""
        message = Message(kind=kind, data=data, group=group, **({"id": id} if id else {}))
        return self.send_body(lane, message.to_body(), group=group, deduplication_id=message.id)

    def send_body(
        self, lane: str, body: str, *, group: str = "g", deduplication_id: str | None = None
    ) -> str:
        """Send any body; return its SQS message id."""
        key = deduplication_id or hashlib.sha256(f"{body}{self.clock.now}".encode()).hexdigest()
        return self.queues.live[lane].send(body, group=group, deduplication_id=key).message_id

    def receive(self, lane: str, most: int | None = None) -> list[ReceivedMessage]:
        """Take a batch out, as the mapping does."""
        size = most or self.config.lane(lane).batch_size
        return list(self.queues.live[lane].receive(size))

    def invoke(
        self, lane: str, messages: Sequence[ReceivedMessage], *, consumer: Consumer | None = None
    ) -> set[str]:
        """Run the consumer on a batch and return the ids it wants kept."""
        self.requests += 1
        timeout = self.config.consumer.function_timeout.total_seconds()
        context = FakeContext(self.clock, seconds=timeout, request=f"request-{self.requests}")
        response = (consumer or self.consumer).handle(sqs_event(lane, messages), context)
        return {failure["itemIdentifier"] for failure in response["batchItemFailures"]}

    def delete(self, lane: str, messages: Sequence[ReceivedMessage], *, kept: set[str]) -> None:
        """Delete the messages that an invocation didn't keep, as the mapping does afterwards."""
        for message in messages:
            if message.message_id not in kept:
                self.queues.live[lane].delete(message.receipt_handle)

    def step(self, lane: str, most: int | None = None, *, consumer: Consumer | None = None) -> set[str]:
        """Receive, invoke and delete in one; return the kept ids."""
        messages = self.receive(lane, most)
        if not messages:
            return set()
        kept = self.invoke(lane, messages, consumer=consumer)
        self.delete(lane, messages, kept=kept)
        return kept


def sqs_event(lane: str, messages: Sequence[ReceivedMessage]) -> dict[str, Any]:
    """Return the Lambda event of a received batch."""
    return event_of_queue(f"arn:aws:sqs:us-east-1:1:{lane}.fifo", messages)
