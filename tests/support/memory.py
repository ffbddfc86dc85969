"""Lanes in memory under a clock that the test moves, with a recorder of events and metrics."""

from __future__ import annotations

import hashlib
from collections import Counter
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lanes import Message
from lanes.bell import BODY, HEARTBEAT
from lanes.config import EngineName, LanesConfig
from lanes.config.deployment import Deployment, LaneQueues
from lanes.consumer import Consumer
from lanes.consumer.runtime import Runtime
from lanes.errors import AwsError
from lanes.holds import Holds
from lanes.producer import Pacing, Producer
from lanes.producer.outgoing import Accepted, Refused, SendEntry
from lanes.testing.bell import BELL, MemoryBell, bell_queue
from lanes.testing.calls import Calls
from lanes.testing.clock import FakeClock
from lanes.testing.event import InvocationContext
from lanes.testing.event import sqs_event as event_of_queue
from lanes.testing.fifo.errors import FifoQueueError, ReceiptHandleExpiredError
from lanes.testing.followed import MemoryRuns
from lanes.testing.memory import MemoryLedger, MemoryQueues, MemorySlots
from lanes.testing.overrides import MemoryHolds, MemoryOverrides
from lanes.testing.pulled import InLine
from lanes.testing.sender import marks
from lanes.testing.silence import Silence

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.consumer.records import RawRecord
    from lanes.testing.fifo.message import ReceivedMessage


T = TypeVar("T")


def aws_error(operation: str = "any") -> AwsError:
    """Return the error of a call that a later one may not repeat."""
    return AwsError(operation=operation, code="InternalError", retryable=True)


class Recorder(Silence):
    """Telemetry that remembers."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.problems: list[tuple[str, dict[str, Any]]] = []
        self.counts: Counter[str] = Counter()
        self.durations: dict[str, list[float]] = {}

    def event(self, name: str, fields: Mapping[str, Any]) -> None:
        self.events.append((name, fields))

    def problem(self, name: str, /, **fields: Any) -> None:
        self.problems.append((name, fields))

    def count(self, metric: str, value: float = 1) -> None:
        self.counts[str(metric)] += value

    def milliseconds(self, metric: str, value: float) -> None:
        self.durations.setdefault(str(metric), []).append(value)

    def named(self, name: str) -> list[dict[str, Any]]:
        """Return the fields of all events of one name."""
        return [fields for event, fields in self.events if event == name]


class PolledQueues(MemoryQueues):
    """Queues whose long polls take their part of the time for which all lanes are polled together."""

    def __init__(self, config: LanesConfig, clock: FakeClock, calls: Calls, *, native: int | None) -> None:
        super().__init__(config, clock, calls, native=native)
        self.clock = clock

    def receive(self, lane: str, *, maximum: int, visibility: int, wait: int) -> list[RawRecord]:
        received = super().receive(lane, maximum=maximum, visibility=visibility, wait=wait)
        if wait and not received:
            self.clock.advance(wait / len(self.live))
            received = self.taken(lane, maximum=maximum, visibility=visibility)
        return received


class Late:
    """Makes the calls beside the handler as late as it can: when their results are asked for."""

    def start(self, call: Callable[[], T], *, after: float = 0.0) -> LateCall[T]:
        """Make a call later."""
        return LateCall(call)

    def wait(self, calls: Sequence[LateCall[Any]]) -> None:
        """Make the first call."""
        calls[0].make()


class LateCall(Generic[T]):
    """A call that is made when its result is asked for."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._made: list[T] = []

    def make(self) -> None:
        """Make it now."""
        if not self._made:
            self._made.append(self._call())

    def done(self) -> bool:
        """Whether it was made."""
        return bool(self._made)

    def cancel(self) -> bool:
        """Whether it was not made; nobody asks for it afterwards."""
        return not self._made

    def result(self) -> T:
        """Return the result."""
        self.make()
        return self._made[0]


class World:
    """
    Lanes in memory, under a clock that the test moves.

    `send`, `receive`, `invoke` and `delete` are the steps of a mapping, to be interleaved as a test likes. In the pull
    engine `step` delivers one ring of the bell, and the slot serves any lane.
    """

    def __init__(
        self,
        raw: Mapping[str, Any] | None = None,
        *,
        seed: int = 1,
        native: int | None = None,
        engine: str = "mappings",
        beside: Any = None,
    ) -> None:
        raw = raw or {}
        self.config = LanesConfig.from_dict(
            {**raw, "consumer": {"engine": engine, **raw.get("consumer", {})}}
        )
        self.clock = FakeClock()
        self.calls = Calls()
        self.queues = PolledQueues(self.config, self.clock, self.calls, native=native)
        self.pulls = self.config.consumer.engine is EngineName.PULL
        self.bell = bell_queue(self.config, self.clock)
        self.beside = beside or InLine()
        self.ledger = MemoryLedger(self.calls)
        self.slots = MemorySlots(self.calls)
        self.hold_store = MemoryHolds(self.calls)
        self.holds = Holds(self.hold_store)
        self.overrides = MemoryOverrides(self.calls, self.hold_store, self.clock)
        self.runs = MemoryRuns(self.calls, self.clock)
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
            bell=f"https://sqs/1/{BELL}.fifo" if self.pulls else None,
        )
        self.consumer = self.environment()

    def environment(self) -> Consumer:
        """Return the consumer of a new execution environment."""
        slots = self.config.consumer.reserved_concurrency
        self.seed += 1
        return Consumer(
            Runtime(
                deployment=self.deployment,
                queues=self.queues,
                ledger=self.ledger,
                presence=None if slots == 1 else self.slots,
                telemetry=self.recorder,
                overrides=self.overrides,
                holds=self.holds,
                runs=lambda: self.runs,
                bell=MemoryBell(self.bell, self.config, self.clock, self.calls) if self.pulls else None,
                beside=self.beside,
                sleep=self.clock.advance,
                clock=self.clock,
                monotonic=self.clock,
                random=Random(self.seed),
            )
        )

    def send(
        self,
        lane: str,
        kind: str = "work",
        data: Any = None,
        *,
        group: str = "g",
        id: str | None = None,
        priority: int | None = None,
    ) -> str:
        """Send a message straight to a lane; return its SQS message id."""
        message = Message(kind=kind, data=data, group=group, priority=priority, **({"id": id} if id else {}))
        return self.send_body(lane, message.to_body(), group=group, deduplication_id=message.id)

    def send_body(
        self,
        lane: str,
        body: str,
        *,
        group: str = "g",
        deduplication_id: str | None = None,
        claimed_at: float | None = None,
        run: str = "",
    ) -> str:
        """Send any body; return its SQS message id."""
        key = deduplication_id or hashlib.sha256(f"{body}{self.clock.now}".encode()).hexdigest()
        entry = SendEntry(
            entry_id="",
            body=body,
            message_group_id=group,
            message_deduplication_id=key,
            claimed_at=claimed_at,
            run=run,
        )
        queue, attributes = self.queues.live[lane], marks(entry) or None
        return queue.send(body, group=group, deduplication_id=key, attributes=attributes).message_id

    def producer(self, *, source: str | None = None) -> Producer:
        """Return a producer of another process, whose calls are those of `calls` as well."""
        return Producer(
            deployment=self.deployment,
            sqs=self,
            source=source,
            pacing=Pacing(clock=self.clock, pause=self.clock.advance, jitter=lambda: 0.0, max_concurrency=1),
            runs=lambda: self.runs,
        )

    def send_batch(self, queue_url: str, entries: Sequence[SendEntry]) -> dict[str, Accepted | Refused]:
        """Send the batch of a producer."""
        lane = queue_url.rpartition("/")[2].removesuffix(".fifo")
        with self.calls.make("SendMessageBatch"):
            return {one.entry_id: self._taken_in(lane, one) for one in entries}

    def _taken_in(self, lane: str, entry: SendEntry) -> Accepted:
        group, once = entry.message_group_id, entry.message_deduplication_id
        sent = self.queues.live[lane].send(
            entry.body, group=group, deduplication_id=once, attributes=marks(entry) or None
        )
        return Accepted(message_id=sent.message_id, sequence_number=str(sent.sequence_number))

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
        context = InvocationContext(self.clock, seconds=timeout, request=f"request-{self.requests}")
        response = (consumer or self.consumer).handle(sqs_event(lane, messages), context)
        return {failure["itemIdentifier"] for failure in response["batchItemFailures"]}

    def delete(self, lane: str, messages: Sequence[ReceivedMessage], *, kept: set[str]) -> None:
        """Delete the messages that an invocation didn't keep, as the mapping does; those of old handles return."""
        for message in messages:
            if message.message_id not in kept:
                with suppress(ReceiptHandleExpiredError):
                    self.queues.live[lane].delete(message.receipt_handle)

    def ring(self, *, consumer: Consumer | None = None) -> None:
        """Start a slot for a ring that was sent just now, as the bell's mapping does; one that is kept returns."""
        self.bell.send(
            BODY,
            group=f"slot-{self.requests % self.config.consumer.reserved_concurrency}",
            deduplication_id=f"ring {self.requests}",
        )
        self.deliver(consumer=consumer)

    def deliver(self, *, consumer: Consumer | None = None) -> None:
        """Start a slot for the next ring, that of the heartbeat if there is no other."""
        self.bell.send(BODY, group=HEARTBEAT)
        rings = self.bell.receive(1)
        kept = self.invoke(BELL, rings, consumer=consumer) if rings else set()
        for ring in rings:
            if ring.message_id not in kept:
                with suppress(FifoQueueError):
                    self.bell.delete(ring.receipt_handle)

    def step(self, lane: str, most: int | None = None, *, consumer: Consumer | None = None) -> set[str]:
        """Receive, invoke and delete in one; return the kept ids."""
        if self.pulls:
            self.ring(consumer=consumer)
            return {message.message_id for message in self.queues.live[lane]._store.messages()}
        messages = self.receive(lane, most)
        if not messages:
            return set()
        kept = self.invoke(lane, messages, consumer=consumer)
        self.delete(lane, messages, kept=kept)
        return kept


def sqs_event(lane: str, messages: Sequence[ReceivedMessage]) -> dict[str, Any]:
    """Return the Lambda event of a received batch."""
    return event_of_queue(f"arn:aws:sqs:us-east-1:1:{lane}.fifo", messages)
