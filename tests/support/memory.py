"""The consumer's surroundings in memory: FIFO queues after the documented model, ledger, register, recorder."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from contextlib import contextmanager
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any, NoReturn

from lanes import Message
from lanes.config import LanesConfig
from lanes.consumer.consumer import Consumer, Surroundings
from lanes.consumer.ledger import Effect, Entry
from lanes.consumer.slots import Occupation, SlotsSnapshot, snapshot_without
from lanes.consumer.yielding import LaneDepth
from lanes.deployment import Deployment, LaneQueues
from lanes.errors import AwsError
from local.model.fifo_errors import FifoQueueError
from local.model.fifo_queue import FifoQueue
from local.model.fifo_settings import FifoSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lanes.consumer.dead_letters import DeadLetterNote
    from lanes.consumer.records import RawRecord
    from lanes.consumer.settlement import VisibilityChange
    from local.model.fifo_message import ReceivedMessage

START = 1_800_000_000.0


class FakeClock:
    """A clock that stands until it is moved."""

    def __init__(self, now: float = START) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


class ProcessLost(KeyboardInterrupt):
    """The execution environment died here: nothing that would follow in it happens."""


class Calls:
    """
    Counts calls to AWS, lets them take time, and breaks the ones it is told to.

    `break_if` refuses a call before it does anything, `lose_if` loses the answer of one that took effect. Either may
    give `ProcessLost`; from then on every call of the environment raises it, until `lost` is reset.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.log: list[str] = []
        self.break_if: Callable[[str, int], BaseException | None] = lambda _operation, _position: None
        self.lose_if: Callable[[str, int], BaseException | None] = lambda _operation, _position: None
        self.takes: Callable[[str], None] = lambda _operation: None
        self.lost = False

    @contextmanager
    def make(self, operation: str) -> Iterator[None]:
        """Note one call and let it happen inside; raises what the test wants it to raise."""
        if self.lost:
            raise ProcessLost
        position = len(self.log)
        self.log.append(operation)
        self.counts[operation] += 1
        self.takes(operation)
        self._raise(self.break_if(operation, position))
        yield
        self._raise(self.lose_if(operation, position))

    def crash(self) -> NoReturn:
        """Let the environment die here."""
        self._raise(ProcessLost())
        raise AssertionError

    def _raise(self, error: BaseException | None) -> None:
        if error is None:
            return
        self.lost = self.lost or isinstance(error, ProcessLost)
        raise error


def aws_error(operation: str = "any") -> AwsError:
    """Return the error of a call that a later one may not repeat."""
    return AwsError(operation=operation, code="InternalError", retryable=True)


class MemoryQueues:
    """The lanes' queues and dead-letter queues."""

    def __init__(
        self, config: LanesConfig, clock: Callable[[], float], calls: Calls, *, native: int | None
    ) -> None:
        self.calls = calls
        self.dead: dict[str, FifoQueue] = {}
        self.live: dict[str, FifoQueue] = {}
        self.notes: dict[str, DeadLetterNote] = {}
        for lane in config.lanes:
            dead = FifoQueue(
                clock, name=f"{lane.name}-dead", settings=FifoSettings(retention=timedelta(days=14))
            )
            self.dead[lane.name] = dead
            self.live[lane.name] = FifoQueue(
                clock,
                name=lane.name,
                handle_prefix=lane.name,
                dead_letter_queue=dead,
                settings=FifoSettings(
                    visibility_timeout=lane.visibility_timeout,
                    retention=timedelta(days=14),
                    deduplicate_by_group=True,
                    max_receive_count=native,
                ),
            )

    def depth(self, lane: str) -> LaneDepth:
        """Return exact counts."""
        with self.calls.make("GetQueueAttributes"):
            counts = self.live[lane].counts()
            return LaneDepth(backlog=counts.visible, in_flight=counts.not_visible)

    def change_visibility(self, lane: str, changes: Sequence[VisibilityChange]) -> list[str]:
        """Change what can be changed; return the ids of the others."""
        refused = []
        for start in range(0, len(changes), 10):
            with self.calls.make("ChangeMessageVisibilityBatch"):
                for change in changes[start : start + 10]:
                    try:
                        self.live[lane].change_visibility(
                            change.receipt_handle, timedelta(seconds=change.seconds)
                        )
                    except FifoQueueError:
                        refused.append(change.message_id)
        return refused

    def dead_letter(self, lane: str, record: RawRecord, note: DeadLetterNote) -> None:
        """Put the body into the dead-letter queue."""
        with self.calls.make("SendMessage"):
            sent = self.dead[lane].send(
                record.body,
                group=record.group,
                deduplication_id=f"{record.message_id}-{record.first_received_at}",
            )
            if not sent.is_duplicate:
                self.notes[record.message_id] = note


class MemoryLedger:
    """The table."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.entries: dict[tuple[str, str], Entry] = {}
        self.effects: dict[str, tuple[str, float, float]] = {}

    def read(self, lane: str, message_ids: Sequence[str]) -> Mapping[str, Entry]:
        with self.calls.make("BatchGetItem"):
            return {key: self.entries[lane, key] for key in message_ids if (lane, key) in self.entries}

    def note(self, entries: Sequence[Entry]) -> None:
        with self.calls.make("PutItem" if len(entries) == 1 else "BatchWriteItem"):
            self.entries.update({(entry.lane, entry.message_id): entry for entry in entries})

    def unpark(self, entries: Sequence[Entry]) -> bool:
        with self.calls.make("TransactWriteItems"):
            stored = [self.entries.get((entry.lane, entry.message_id)) for entry in entries]
            if any(
                found is None or found.park is None or found.receipt_handle != entry.receipt_handle
                for found, entry in zip(stored, entries, strict=True)
            ):
                return False
            for entry in entries:
                key = entry.lane, entry.message_id
                self.entries[key] = dataclasses.replace(
                    self.entries[key], park=None, receipt_handle="", batch=""
                )
            return True

    def parked(self, lane: str, *, after: float, limit: int | None = None) -> Sequence[Entry]:
        with self.calls.make("Query"):
            found = [
                entry
                for entry in self.entries.values()
                if entry.lane == lane and entry.park is not None and entry.parked_until > after
            ]
            return sorted(found, key=lambda entry: entry.parked_until)[:limit]

    def begin_effect(self, effect_id: str, *, owner: str, now: float, until: float) -> Effect:
        with self.calls.make("UpdateItem"):
            held_by, held_until, done_until = self.effects.get(effect_id, (owner, 0.0, 0.0))
            if done_until > now:
                return Effect.DONE
            if held_by != owner and held_until > now:
                return Effect.ELSEWHERE
            self.effects[effect_id] = (owner, until, 0.0)
            return Effect.BEGUN

    def finish_effect(self, effect_id: str, *, owner: str, now: float, keep_until: float) -> None:
        with self.calls.make("UpdateItem"):
            self.effects[effect_id] = (owner, 0.0, keep_until)

    def release_effect(self, effect_id: str, *, owner: str) -> None:
        with self.calls.make("DeleteItem"):
            held_by, _, done_until = self.effects.get(effect_id, ("", 0.0, 0.0))
            if held_by == owner and not done_until:
                del self.effects[effect_id]


class MemoryRegister:
    """The register of slots."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.lines: dict[str, Occupation] = {}
        self.parked: dict[str, float] = {}

    def write(self, line: Occupation, *, now: float, parked_until: Mapping[str, float]) -> SlotsSnapshot:
        with self.calls.make("UpdateItem"):
            self.lines[line.environment] = line
            self.parked.update(parked_until)
            return self._snapshot(line.environment)

    def read(self, environment: str) -> SlotsSnapshot:
        with self.calls.make("GetItem"):
            return self._snapshot(environment)

    def _snapshot(self, environment: str) -> SlotsSnapshot:
        return snapshot_without(environment, self.lines.values(), dict(self.parked))


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
        self.register = MemoryRegister(self.calls)
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
        from lanes.consumer.slots import SingleSlot

        alone = self.config.consumer.reserved_concurrency == 1
        self.seed += 1
        return Consumer(
            Surroundings(
                deployment=self.deployment,
                queues=self.queues,
                ledger=self.ledger,
                register=SingleSlot() if alone else self.register,
                telemetry=self.recorder,
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
        """Delete what an invocation didn't keep, as the mapping does afterwards."""
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
    return {
        "Records": [
            {
                "messageId": message.message_id,
                "receiptHandle": message.receipt_handle,
                "body": message.body,
                "attributes": {
                    "ApproximateReceiveCount": str(message.receive_count),
                    "SentTimestamp": str(int(message.sent_at * 1000)),
                    "ApproximateFirstReceiveTimestamp": str(int(message.first_received_at * 1000)),
                    "MessageGroupId": message.group,
                    "MessageDeduplicationId": message.deduplication_id,
                    "SequenceNumber": message.sequence_number,
                },
                "messageAttributes": {},
                "eventSource": "aws:sqs",
                "eventSourceARN": f"arn:aws:sqs:us-east-1:1:{lane}.fifo",
                "awsRegion": "us-east-1",
            }
            for message in messages
        ]
    }
