"""The senders in memory: producers, EventBridge Scheduler for messages with `not_before`, and outbox relays."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, NamedTuple

from lanes.message import CLAIMED_AT, RUN, Message
from lanes.outbox.entry import EntryState
from lanes.outbox.relay import Relay
from lanes.producer.outgoing import Accepted, Refused, SendEntry
from lanes.schedules import at_time
from lanes.testing.calls import Calls

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.config import LanesConfig
    from lanes.config.deployment import Deployment
    from lanes.depth import LaneDepth
    from lanes.outbox.store import RelayStore
    from lanes.producer import Producer
    from lanes.testing.assertions import Journal
    from lanes.testing.clock import FakeClock
    from lanes.testing.fifo.queue import FifoQueue
    from lanes.testing.queues import MemoryBell


class MemorySender:
    """
    Accepts batches as SQS does, repeats within five minutes included, and adds new messages to the journal.

    Args:
        deployment: the lanes.
        queues: those of the lanes, by name.
        journal: records the messages.
        bell: rung for them; None in the mapped engine.
        calls: intercepts each call.

    """

    def __init__(
        self,
        deployment: Deployment,
        queues: Mapping[str, FifoQueue],
        journal: Journal,
        bell: MemoryBell | None,
        calls: Calls | None = None,
    ) -> None:
        self._calls = calls or Calls()
        self._lanes = {deployment.queues[name].url: name for name in queues}
        self._queues = queues
        self._journal = journal
        self._bell = bell

    def send_batch(self, queue_url: str, entries: Sequence[SendEntry]) -> dict[str, Accepted | Refused]:
        """Accept up to ten entries; none is refused."""
        lane = self._lanes[queue_url]
        with self._calls.make("SendMessageBatch"):
            return {entry.entry_id: self.take_in(lane, entry) for entry in entries}

    def take_in(self, lane: str, entry: SendEntry) -> Accepted:
        """Put one entry into a lane's queue."""
        sent = self._queues[lane].send(
            entry.body,
            group=entry.message_group_id,
            deduplication_id=entry.message_deduplication_id,
            attributes=marks(entry) or None,
        )
        self._journal.note_sent(lane, entry.body, group=entry.message_group_id, message_id=sent.message_id)
        if self._bell is not None:
            self._bell.ring_for(lane)
        return Accepted(message_id=sent.message_id, sequence_number=str(sent.sequence_number))


def marks(entry: SendEntry) -> dict[str, dict[str, str]]:
    """Return the marks of a relay and of a run in the form of Lambda's event."""
    run = {RUN: {"dataType": "String", "stringValue": entry.run}} if entry.run else {}
    if entry.claimed_at is None:
        return run
    return {CLAIMED_AT: {"dataType": "Number", "stringValue": str(math.floor(entry.claimed_at * 1000))}} | run


class _Kept(NamedTuple):
    """A message, and the expression of its time."""

    expression: str
    queue_url: str
    entry: SendEntry

    @property
    def due(self) -> float:
        """When it is due, in epoch seconds."""
        return at_time(self.expression).timestamp()


class MemoryLater:
    """
    Keeps messages until they are due on the clock, and then puts them into their lanes.

    Args:
        sender: puts them into their lanes.
        clock: the time.

    """

    def __init__(self, sender: MemorySender, clock: FakeClock) -> None:
        self._sender = sender
        self._clock = clock
        self._kept: dict[str, _Kept] = {}

    def create(self, name: str, *, expression: str, target: str) -> str:
        """Keep a message; a second one of its name changes nothing."""
        call = json.loads(target)
        entry = SendEntry(
            entry_id="0",
            body=call["MessageBody"],
            message_group_id=call["MessageGroupId"],
            message_deduplication_id=call["MessageDeduplicationId"],
            run=call.get("MessageAttributes", {}).get(RUN, {}).get("StringValue", ""),
        )
        return self._kept.setdefault(name, _Kept(expression, call["QueueUrl"], entry)).expression

    def send_due(self) -> bool:
        """Put the messages that are due into their lanes; return whether there were any."""
        due = [name for name, one in self._kept.items() if one.due <= self._clock()]
        for name in sorted(due, key=lambda name: self._kept[name].due):
            kept = self._kept.pop(name)
            self._sender.send_batch(kept.queue_url, [kept.entry])
        return bool(due)

    def next_due(self) -> float | None:
        """Return when the next message is due, in epoch seconds; None if there is none."""
        return min((one.due for one in self._kept.values()), default=None)

    def messages(self) -> list[Message]:
        """Return the messages that are not due yet, the next one first."""
        kept = sorted(self._kept.values(), key=lambda one: one.due)
        return [Message.from_body(one.entry.body, group=one.entry.message_group_id) for one in kept]


UNFINISHED = (EntryState.PENDING, EntryState.PROCESSING, EntryState.FAILED)


class Relays:
    """Publishes the due entries of every store whenever the lanes run."""

    def __init__(
        self,
        *,
        producer: Producer,
        config: LanesConfig,
        clock: FakeClock,
        depth_of: Callable[[str], LaneDepth],
    ) -> None:
        self._producer = producer
        self._config = config
        self._clock = clock
        self._depth_of = depth_of
        self._relays: list[Relay] = []

    def add(self, store: RelayStore) -> None:
        """Publish from this store too."""
        self._relays.append(
            Relay(
                store=store,
                producer=self._producer,
                config=self._config,
                depth_of=self._depth_of,
                # A chance in the middle leaves the delays of retries as they are configured.
                clock=self._clock,
                pause=lambda _: None,
                chance=lambda: 0.5,
            )
        )

    def run(self) -> bool:
        """Publish all due entries; return whether there were any."""
        rounds = [relay.run_until(self._clock.now) for relay in self._relays]
        return any(one.published or one.failed for one in rounds)

    def unfinished(self) -> list[str]:
        """Describe the entries that are not published yet, a line for each state of each store."""
        return [
            f"entries of an outbox that are {state}: {count}"
            for relay in self._relays
            for state, count in relay.store.status().counts.items()
            if state in UNFINISHED and count
        ]
