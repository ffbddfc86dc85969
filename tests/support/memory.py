"""Lanes in memory under a clock that the test moves, with a recorder of events and metrics."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from lanes import Message
from lanes.bell import BODY, HEARTBEAT
from lanes.config import EngineName, LanesConfig
from lanes.config.settings import default_lanes
from lanes.consumer import Consumer
from lanes.consumer.records import RawRecord
from lanes.errors import AwsError
from lanes.producer.outgoing import SendEntry
from lanes.testing import InMemoryLanes
from lanes.testing.assertions import Journal, Silence
from lanes.testing.calls import Calls, InLine
from lanes.testing.clock import FakeClock
from lanes.testing.function import InvocationContext, verdict_of
from lanes.testing.mapping import deleted
from lanes.testing.queues import BELL, JournaledQueues
from lanes.testing.sender import MemorySender
from lanes.testing.world import MemoryStack

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.consumer.engines import Pending
    from lanes.producer import Producer
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


class Late(InLine):
    """Makes the calls beside the handler as late as it can: when their results are asked for."""

    def start(self, call: Callable[[], T], *, after: float = 0.0) -> Pending[T]:
        """Make a call later."""
        return super().start(call, after=math.inf)

    def wait(self, calls: Sequence[Pending[object]]) -> None:
        """Make the first call."""
        with suppress(AwsError):
            calls[0].result()


IN_PLACE = "in place"
"""The mappings with as many slots as it takes to serve the lanes above in a slot of their own."""


def consumer_of(engine: str, *, lanes: int = 3) -> dict[str, Any]:
    """Return the settings that choose an engine, or with mappings and enough slots its way to serve."""
    if engine == IN_PLACE:
        return {"engine": "mappings", "reserved_concurrency": max(2, 2 * lanes)}
    return {"engine": engine}


def lanes_of(
    consumer: Consumer, engine: str, *, lanes: list[dict[str, Any]] | None = None, **settings: Any
) -> InMemoryLanes:
    """Return lanes in memory for a consumer under an engine, with other settings of the consumer or lanes."""
    raw: dict[str, Any] = {"consumer": {**consumer_of(engine), **settings}}
    return InMemoryLanes(consumer, config=LanesConfig.from_dict(raw | ({"lanes": lanes} if lanes else {})))


class World(MemoryStack):
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
        lanes = len(raw.get("lanes", default_lanes()))
        config = LanesConfig.from_dict(
            {**raw, "consumer": {**consumer_of(engine, lanes=lanes), **raw.get("consumer", {})}}
        )
        clock, calls = FakeClock(), Calls()
        journal = Journal(clock)
        queues = JournaledQueues(config, clock, calls, native=native, journal=journal, takes=0.0)
        super().__init__(config, clock, calls, queues, sleep=clock.advance)
        self.pulls = config.consumer.engine is EngineName.PULL
        self.sender = MemorySender(self.deployment, queues.live, journal, bell=None, calls=calls)
        self.beside = beside
        self.runs = self._followed
        self.recorder = Recorder()
        self.seed = seed
        self.requests = 0
        self.consumer = self.environment()

    def environment(self) -> Consumer:
        """Return the consumer of a new execution environment."""
        self.seed += 1
        return Consumer(self.runtime(self.recorder, Random(self.seed), beside=self.beside))

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
        return self.sender.take_in(lane, entry).message_id

    def producer(self, *, source: str | None = None) -> Producer:
        """Return a producer of another process, whose calls are those of `calls` as well."""
        return self.new_producer(self.sender, source=source)

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
        return set(verdict_of((consumer or self.consumer).handle, lane, messages, context).failed_ids)

    def delete(self, lane: str, messages: Sequence[ReceivedMessage], *, kept: set[str]) -> None:
        """Delete the messages that an invocation didn't keep, as the mapping does; those of old handles return."""
        deleted(self.queues.live[lane], [one for one in messages if one.message_id not in kept])

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
        deleted(self.bell, [ring for ring in rings if ring.message_id not in kept])

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


def record_with(message_id: str = "m", **fields: Any) -> RawRecord:
    """Return a record with some fields of its own."""
    usual = {
        "receipt_handle": f"handle-{message_id}",
        "body": "{}",
        "group": "g",
        "receive_count": 1,
        "sent_at": 1_800_000_000.0,
        "first_received_at": 1_800_000_000.0,
        "deduplication_id": message_id,
        "attributes": {},
        "message_attributes": {},
    }
    return RawRecord(message_id=message_id, **{**usual, **fields})
