"""
The FIFO model behind a queue of moto: one engine each, one lock for all, long polls that sleep.

The lock is common, as a redrive changes two queues at once; it is held for microseconds.
"""

import random
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Condition, RLock
from typing import Any

from moto.sqs.models import Queue, sqs_backends

from lanes.testing.fifo.message import FifoSettings, GroupOrder, QueueCounts, ReceivedMessage, SentMessage
from lanes.testing.fifo.queue import FifoQueue

from ..unknowns import QueueUnknowns

LOCK = RLock()

_ATTRIBUTE = "lanes_fifo_queue"
_HIGH_THROUGHPUT = "perMessageGroupId"


def _real_time() -> float:
    return time.time()  # looked up at each call, so that a test may freeze it


@dataclass(slots=True)
class _Time:
    """Where the time comes from, and whether empty long polls wait for it to pass."""

    clock: Callable[[], float] = _real_time
    polls_wait: bool = True
    unknowns: QueueUnknowns = field(default_factory=QueueUnknowns)


_time = _Time()

ReceiveSink = Callable[[str, Sequence[ReceivedMessage]], None]
_receive_sinks: list[ReceiveSink] = []


def on_receive(sink: ReceiveSink) -> None:
    """Call a sink with the name of the queue and the messages of each receive, one call at a time."""
    _receive_sinks.append(sink)


def set_clock(clock: Callable[[], float] | None = None, *, polls_wait: bool = False) -> None:
    """
    Replace the clock of all FIFO queues, or with None give the real one back.

    Under another clock an empty long poll answers at once, as if its wait had passed; with `polls_wait` it
    waits in real time, and looks again when a message arrives or at `look_again()`. A queue's time never
    goes back: under a clock behind the last one it waits until that is reached.
    """
    _time.clock = clock or _real_time
    _time.polls_wait = polls_wait or clock is None


def set_unknowns(unknowns: QueueUnknowns) -> None:
    """Let all FIFO queues behave so where AWS documents nothing, before any of them is used."""
    _time.unknowns = unknowns


def read_clock() -> float:
    """Return the time that all FIFO queues go by, in epoch seconds."""
    return _time.clock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """Attributes of a message."""

    attributes: dict[str, dict[str, Any]]
    system_attributes: dict[str, dict[str, Any]]


class LocalQueue:
    """A moto queue's FIFO engine; every method is safe to call from several threads."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._changed = Condition(LOCK)
        self._applied: tuple[Any, ...] = ()
        self.engine = FifoQueue(read_clock, name=queue.queue_arn, handle_prefix=f"{uuid.uuid4().hex}.")
        self._tally: Counter[str] = Counter()
        self._past: deque[tuple[float, QueueCounts]] = deque([(0.0, QueueCounts(0, 0, 0))])

    @classmethod
    def of(cls, queue: Queue) -> "LocalQueue":
        """Return the one engine of a moto queue, with the queue's attributes of this moment."""
        local: LocalQueue | None = queue.__dict__.get(_ATTRIBUTE)
        if local is None:
            with LOCK:
                local = queue.__dict__.setdefault(_ATTRIBUTE, cls(queue))
        local.follow_attributes()
        return local

    def follow_attributes(self) -> None:
        """Take over the attributes that the moto queue has now."""
        queue = self._queue
        policy = queue.redrive_policy
        attributes = (
            queue.visibility_timeout,
            queue.delay_seconds,
            queue.message_retention_period,
            queue.content_based_deduplication,
            queue.deduplication_scope,
            policy["maxReceiveCount"] if policy else None,
            queue.fifo_throughput_limit,
        )
        if attributes == self._applied:
            return
        with LOCK:
            self.engine.settings = FifoSettings(
                visibility_timeout=timedelta(seconds=attributes[0]),
                delay=timedelta(seconds=attributes[1]),
                retention=timedelta(seconds=attributes[2]),
                content_based_deduplication=attributes[3],
                deduplicate_by_group=attributes[4] == "messageGroup",
                max_receive_count=attributes[5],
                # The order of groups has been observed in default mode alone.
                group_order=_time.unknowns.group_order
                if attributes[6] == _HIGH_THROUGHPUT
                else GroupOrder.BACK,
            )
            self._applied = attributes
            self._changed.notify_all()

    def send(
        self, body: str, *, group: str, deduplication_id: str | None, payload: Payload | None
    ) -> SentMessage:
        """Accept a message and wake waiting receives."""
        with LOCK:
            sent = self.engine.send(body, group=group, deduplication_id=deduplication_id, attributes=payload)
            if not sent.is_duplicate:
                self._tally["NumberOfMessagesSent"] += 1
                self._tally["SentMessageSize"] += len(body)
            self._has_changed()
            self.wake()
        return sent

    def receive(
        self, maximum: int, *, visibility_timeout: timedelta, wait: timedelta, attempt_id: str | None = None
    ) -> list[ReceivedMessage]:
        """Receive, waiting for a first message if there is none."""
        if not wait and random.random() < _time.unknowns.missed_polls:  # noqa: S311 - a chance, not a secret
            return []
        give_up_at = time.monotonic() + (wait.total_seconds() if _time.polls_wait else 0.0)
        with self._changed:
            while True:
                received = self._receive_now(maximum, visibility_timeout, attempt_id)
                left = give_up_at - time.monotonic()
                if received or left <= 0:
                    self._has_changed()
                    self._tally["NumberOfMessagesReceived"] += len(received)
                    self._tally["NumberOfEmptyReceives"] += not received
                    for sink in _receive_sinks if received else ():
                        sink(self._queue.name, received)
                    return received
                self._changed.wait(min(left, self._until_next_event(left)))

    def delete(self, receipt_handle: str) -> None:
        """Delete, and wake receives that waited for the group."""
        with LOCK:
            self.engine.delete(receipt_handle)
            self._tally["NumberOfMessagesDeleted"] += 1
            self._has_changed()
            self.wake()

    def change_visibility(self, receipt_handle: str, visibility_timeout: timedelta) -> None:
        """Change, and let waiting receives look again: the next end may be earlier now."""
        with LOCK:
            self.engine.change_visibility(receipt_handle, visibility_timeout)
            self._has_changed()
            self._changed.notify_all()

    def purge(self) -> None:
        """Drop all messages and their deduplication ids."""
        with LOCK:
            self.engine.purge()

    def counts(self) -> QueueCounts:
        """Return the numbers of messages, exact unless the unknowns say otherwise."""
        with LOCK:
            self._keep_counts()
            return self._past[0][1]

    def _keep_counts(self) -> None:
        """Add the counts of now to those of the past, of which the first are as old as they are shown."""
        now, counts = read_clock(), self.engine.counts()
        if not _time.unknowns.blocked_counted:
            counts = counts._replace(visible=counts.visible - self.engine.blocked())
        self._past.append((now, counts))
        while len(self._past) > 1 and self._past[1][0] <= now - _time.unknowns.stale:
            self._past.popleft()

    def _has_changed(self) -> None:
        if _time.unknowns.stale:
            self._keep_counts()

    def take_figures(self) -> dict[str, float]:
        """Return the metrics of SQS in CloudWatch: counts of now, and of changes since the last time."""
        with LOCK:
            counts, sent_at = self.engine.counts(), self.engine.oldest_sent_at()
            tally, self._tally = self._tally, Counter()
        age = {} if sent_at is None else {"ApproximateAgeOfOldestMessage": read_clock() - sent_at}
        return {
            "NumberOfMessagesSent": 0,
            **tally,
            **age,
            "ApproximateNumberOfMessagesVisible": counts.visible,
            "ApproximateNumberOfMessagesNotVisible": counts.not_visible,
        }

    def wake(self) -> None:
        """Wake waiting receives if one of them would find a message."""
        with LOCK:
            if self.engine.is_receivable():
                self._changed.notify_all()

    def look_again(self) -> None:
        """Wake all waiting receives."""
        with LOCK:
            self._changed.notify_all()

    def _receive_now(
        self, maximum: int, visibility_timeout: timedelta, attempt_id: str | None
    ) -> list[ReceivedMessage]:
        target = self._dead_letter_queue()
        self.engine.dead_letter_queue = target.engine if target is not None else None
        received = self.engine.receive(maximum, visibility_timeout=visibility_timeout, attempt_id=attempt_id)
        if target is not None:
            target.wake()
        return received

    def _until_next_event(self, left: float) -> float:
        if not _time.polls_wait or (event_at := self.engine.next_event_at()) is None:
            return left
        return max(0.0, event_at - read_clock())

    def _dead_letter_queue(self) -> "LocalQueue | None":
        policy = self._queue.redrive_policy
        if not policy:
            return None
        # By name at each receive, as the queue may have been deleted or created again since; where it is
        # missing, messages stay here rather than vanish.
        name = str(policy["deadLetterTargetArn"]).rpartition(":")[2]
        backend = sqs_backends[self._queue.account_id][self._queue.region]
        target = backend.queues.get(name)
        if target is None or target is self._queue or not target.fifo_queue:
            return None
        return LocalQueue.of(target)


def look_again() -> None:
    """Let every waiting receive look at the clock again, after a test moved it."""
    for _account, _region, backend in sqs_backends.iter_backends():
        for queue in list(backend.queues.values()):
            if queue.fifo_queue:
                LocalQueue.of(queue).look_again()
